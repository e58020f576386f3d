"""Folders of the types whose blocks are ours, as transformers writes them."""

import pytest

from tests.models import published, their_folders
from tests.models.their_folders import TEXTS

# Long enough for the widest bucket of positions, and for a local window.
LENGTH = 300
SHAPE = {
    "hidden_size": 32,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "initializer_range": 0.3,
}
NO_DROPOUT = {
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}


def save_mpnet(folder, kind="MPNetModel", **config):
    transformers = pytest.importorskip("transformers")

    characters = published.spell([" ".join(TEXTS)])[len(published.BERT) :]
    words = ["<s>", "<pad>", "</s>", "<unk>", "[UNK]", *characters, "<mask>"]
    tokenizer = transformers.MPNetTokenizer(
        vocab={word: number for number, word in enumerate(words)}
    )
    config = transformers.MPNetConfig(
        vocab_size=len(words),
        max_position_embeddings=LENGTH + 2,
        **{**SHAPE, **NO_DROPOUT, **config},
    )
    model = getattr(transformers, kind)(config)
    return their_folders.save(folder, model, tokenizer)


TYPES = {"mpnet": save_mpnet}
