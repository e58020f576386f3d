"""A search: the rungs of its ladder, their runs, and its answer."""
