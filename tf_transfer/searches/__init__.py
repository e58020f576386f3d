"""A search: what may be tried, what it costs, what is worth trying next."""
