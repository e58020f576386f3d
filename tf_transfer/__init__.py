"""How much of a pretrained BERT must be trained, and what does it cost?"""

__version__ = "0.1.0"
