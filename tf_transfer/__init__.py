"""How much of a pretrained BERT must be trained, and what does it cost?"""

import os

# Before anything imports Keras, which chooses its backend once.
os.environ.setdefault("KERAS_BACKEND", "tensorflow")

__version__ = "0.1.0"
