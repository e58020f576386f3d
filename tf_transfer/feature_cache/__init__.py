"""The frozen prefix as a function, and the store of its output."""
