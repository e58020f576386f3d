"""Is fine-tuning worth it on a small, simple task?"""
