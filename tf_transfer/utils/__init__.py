"""What every room may use: errors, files, formatting, machine, network."""
