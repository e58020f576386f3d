"""Grids of runs: what they are, who does which, and what became of them."""
