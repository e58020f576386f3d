"""To tune or not to tune: a big head first, then everything."""
