"""Every operation on a file fails once, in every way that it can fail."""
