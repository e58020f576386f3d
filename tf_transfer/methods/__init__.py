"""Which weights: LoRA, biases, LayerNorm, and the last blocks."""
