"""A run: its settings, data, network and training, and its finished model."""
