"""The loop, its optimizer, its checkpoints and its records."""
