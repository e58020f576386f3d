"""A search: a race of candidates over folds, their runs, and its answer."""
