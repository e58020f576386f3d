"""Models without an encoder, to set the others beside."""
