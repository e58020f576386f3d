"""Score against time: fine-tuning and the last blocks, on GLUE."""
