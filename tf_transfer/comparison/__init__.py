"""The comparison of finished runs: cells, contrasts, decisions."""
