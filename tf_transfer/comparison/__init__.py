"""What compares finished runs: cells, contrasts, decisions."""
