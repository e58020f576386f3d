"""Encoders, what of them trains, and the heads on top. Keras only."""
