"""Your own tasks: the task file, and its tables as a source of texts."""
