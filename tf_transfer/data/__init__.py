"""Texts in, padded batches out, metrics over whole splits."""
