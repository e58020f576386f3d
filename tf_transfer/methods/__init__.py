"""Which weights to train: LoRA, biases, LayerNorm, or the last blocks."""
