"""Tasks of one's own: the task file, and its tables as a source of texts."""
