"""Folders of the types whose blocks are ours, as transformers writes them."""

import json

import pytest

from tests.models import published, their_folders
from tests.models.their_folders import TEXTS
from tests.support import odd_texts

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


def save_deberta(folder, kind="DebertaV2Model", **config):
    transformers = pytest.importorskip("transformers")

    pieces = train_unigram([" ".join(TEXTS)] * 3 + odd_texts.SENTENCES[:5] * 5)
    tokenizer = transformers.DebertaV2Tokenizer(vocab=pieces, unk_id=3)
    config = transformers.DebertaV2Config(
        vocab_size=len(tokenizer),
        max_position_embeddings=LENGTH,
        **{
            "relative_attention": True,
            "position_buckets": 16,
            "norm_rel_ebd": "layer_norm",
            "share_att_key": True,
            "pos_att_type": "p2c|c2p",
            "position_biased_input": False,
            "type_vocab_size": 0,
            **SHAPE,
            **NO_DROPOUT,
            **config,
        },
    )
    model = getattr(transformers, kind)(config)
    return their_folders.save(folder, model, tokenizer)


def train_unigram(texts):
    """Pieces and their scores; the special tokens come first."""
    import tokenizers

    trained = tokenizers.Tokenizer(tokenizers.models.Unigram())
    trained.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    trainer = tokenizers.trainers.UnigramTrainer(
        vocab_size=600,
        special_tokens=["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"],
        unk_token="[UNK]",
        show_progress=False,
    )
    texts = map(published.replace_surrogates, texts)
    trained.train_from_iterator(texts, trainer)
    pieces = json.loads(trained.to_str())["model"]["vocab"]
    return [(piece, score) for piece, score in pieces]


def save_modern(folder, kind="ModernBertModel", **config):
    """The tokenizer is of a generic class, as in the published folders."""
    transformers = pytest.importorskip("transformers")

    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=train_byte_pairs([" ".join(TEXTS)]),
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        pad_token="[PAD]",
        mask_token="[MASK]",
        model_input_names=["input_ids", "attention_mask"],
    )
    config = transformers.ModernBertConfig(
        vocab_size=len(tokenizer),
        max_position_embeddings=LENGTH,
        **{
            "local_attention": 16,
            "classifier_pooling": "mean",  # an export reads [CLS]
            "pad_token_id": tokenizer.pad_token_id,
            "bos_token_id": tokenizer.cls_token_id,
            "cls_token_id": tokenizer.cls_token_id,
            "eos_token_id": tokenizer.sep_token_id,
            "sep_token_id": tokenizer.sep_token_id,
            **SHAPE,
            **config,
        },
    )
    model = getattr(transformers, kind)(config)
    return their_folders.save(folder, model, tokenizer)


def train_byte_pairs(texts):
    """A tokenizer with the parts of ModernBERT's."""
    from tokenizers import (
        AddedToken,
        models,
        normalizers,
        pre_tokenizers,
        processors,
        Tokenizer,
        trainers,
    )

    made = Tokenizer(models.BPE())
    made.normalizer = normalizers.NFC()
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    special = ["[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"]
    trainer = trainers.BpeTrainer(
        vocab_size=600,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    texts = map(published.replace_surrogates, texts)
    made.train_from_iterator(texts, trainer)
    # Published ones have runs of spaces, which are not special.
    made.add_tokens([AddedToken(" " * n, normalized=True) for n in (4, 2)])
    made.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[(x, made.token_to_id(x)) for x in ("[CLS]", "[SEP]")],
    )
    return made


TYPES = {
    "mpnet": save_mpnet,
    "deberta-v2": save_deberta,
    "modernbert": save_modern,
}
