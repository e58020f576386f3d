"""Baselines: no weight of an encoder trains."""
