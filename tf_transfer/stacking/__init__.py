"""To tune or not to tune: a large head first, then everything."""
