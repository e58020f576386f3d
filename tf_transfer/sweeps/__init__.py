"""Grids of runs: expanded, shared among processes, executed, estimated."""
