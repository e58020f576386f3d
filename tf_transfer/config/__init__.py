"""Settings of a run, and how a command reads them."""
