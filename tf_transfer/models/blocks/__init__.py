"""What one transformer block computes: a file for each family of encoders.

A file has the equation of its blocks at the top, and one function `run`, which
the encoder, the frozen prefix, methods of training and the last block at [CLS]
call (`arithmetic.Run`). `arithmetic` has what the families share.

Every file of this folder is in the hash of code in the feature cache's key.
"""
