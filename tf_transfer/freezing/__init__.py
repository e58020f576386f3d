"""How many blocks are enough: quality against the number of frozen blocks."""
