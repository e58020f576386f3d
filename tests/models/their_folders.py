"""Model folders that transformers writes, and changes of their files."""

import json
import os

import pytest

from tests.models import encoders, published
from tests.support import odd_texts
from tf_transfer.models import loading
from tf_transfer.models.heads import pooled
from tf_transfer.models.network import Network

# transformers' small capital sigma is not BERT's; see `tokenizer_test`.
TEXTS = [text for text in odd_texts.WORDS if "Σ" not in text]


SHAPE = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 48,
    "max_position_embeddings": 40,
    "layer_norm_eps": 1e-3,
    "initializer_range": 0.5,
}


def change(path, **values):
    """Sets keys of a JSON file; None removes one."""
    content = json.loads(path.read_text()) if path.exists() else {}
    content = {k: v for k, v in {**content, **values}.items() if v is not None}
    path.write_text(json.dumps(content))


def load(folder):
    return loading.load(str(folder), "", dropout=0.0)


# === transformers ===
def save_bert(folder, kind="BertModel", **config):
    transformers = pytest.importorskip("transformers")

    words = published.spell([" ".join(odd_texts.WORDS)])
    tokenizer = published.their_word_pieces(words, do_lower_case=True)
    config = transformers.BertConfig(
        vocab_size=len(words) + 2, **{**SHAPE, **config}
    )
    model = getattr(transformers, kind)(config)
    return save(folder, model, tokenizer)


def save_roberta(folder, kind="RobertaModel", **config):
    transformers = pytest.importorskip("transformers")

    words, merges = published.train_byte_pairs(odd_texts.WORDS)
    tokenizer = published.their_byte_pairs(words, merges)
    config = transformers.RobertaConfig(
        vocab_size=len(words), type_vocab_size=1, **{**SHAPE, **config}
    )
    model = getattr(transformers, kind)(config)
    return save(folder, model, tokenizer)


def save_distilbert(folder, kind="DistilBertModel", **config):
    transformers = pytest.importorskip("transformers")

    words = published.spell([" ".join(odd_texts.WORDS)])
    tokenizer = published.their_word_pieces(words, do_lower_case=False)
    config = transformers.DistilBertConfig(
        vocab_size=len(words),
        dim=32,
        n_layers=2,
        n_heads=2,
        hidden_dim=48,
        max_position_embeddings=40,
        initializer_range=0.5,
        **config,
    )
    model = getattr(transformers, kind)(config)
    return save(folder, model, tokenizer)


def save_electra(folder, kind="ElectraForPreTraining", **config):
    transformers = pytest.importorskip("transformers")

    words = published.spell([" ".join(odd_texts.WORDS)])
    tokenizer = published.their_word_pieces(words, do_lower_case=True)
    config = transformers.ElectraConfig(
        vocab_size=len(words), **{**SHAPE, **config}
    )
    model = getattr(transformers, kind)(config)
    return save(folder, model, tokenizer)


def save_sentence_pieces(folder, family, tokenizer=None, **config):
    """A folder of a model of this family whose tokenizer is SentencePiece."""
    transformers = pytest.importorskip("transformers")

    folder.mkdir()
    content = published.train_sentence_pieces()
    (folder / "sentencepiece.bpe.model").write_bytes(content)
    tokenizer = tokenizer or family
    name = getattr(transformers, f"{tokenizer}Tokenizer")
    tokenizer = name.from_pretrained(folder)
    (folder / "sentencepiece.bpe.model").unlink()
    config = getattr(transformers, f"{family}Config")(
        vocab_size=len(tokenizer), **{**SHAPE, **config}
    )
    model = getattr(transformers, f"{family}Model")(config)
    return save(folder, model, tokenizer)


def save(folder, model, tokenizer):
    """Writes a folder as transformers 5 does: all tokens in tokenizer.json."""
    torch = pytest.importorskip("torch")

    with torch.no_grad():
        for weight in model.parameters():
            weight += 0.1 * torch.randn_like(weight)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    assert not os.path.exists(folder / "vocab.txt")
    return model.eval(), tokenizer


FOLDERS = {
    "plain": (save_bert, {}),
    "gelu_new": (save_bert, {"hidden_act": "gelu_new"}),
    "relu": (save_bert, {"hidden_act": "relu"}),
    "silu": (save_bert, {"hidden_act": "silu"}),
    "without pooler": (save_bert, {"kind": "BertForMaskedLM"}),
    "classifier": (save_bert, {"kind": "BertForSequenceClassification"}),
    "roberta": (save_roberta, {}),
    "roberta with prefix": (save_roberta, {"kind": "RobertaForMaskedLM"}),
    "roberta, other pad": (save_roberta, {"pad_token_id": 0}),
    "distilbert": (save_distilbert, {}),
    "distilbert, relu": (
        save_distilbert,
        {"kind": "DistilBertForMaskedLM", "activation": "relu"},
    ),
    "electra": (save_electra, {"embedding_size": 32}),
    "electra with projection": (save_electra, {"embedding_size": 20}),
    "xlm-roberta": (
        save_sentence_pieces,
        {"family": "XLMRoberta", "type_vocab_size": 1, "pad_token_id": 1},
    ),
    "camembert": (
        save_sentence_pieces,
        {"family": "Camembert", "type_vocab_size": 1},
    ),
    "bert with SentencePiece": (
        save_sentence_pieces,
        {"family": "Bert", "tokenizer": "XLMRoberta"},
    ),
}


def network_of(encoder):
    head = pooled.PooledHead(
        1, encoder.hidden, "cls", 0.1, 0, "float32", name="head_mine"
    )
    return Network(encoder, {"mine": head})


def make_tokenizer_json(**normalizer):
    vocabulary = encoders.shared("bert").tokenizer.vocabulary
    return {
        "version": "1.0",
        "truncation": None,
        "added_tokens": [
            {"id": 3, "content": "[SEP]", "special": True, "normalized": False}
        ],
        "normalizer": {"type": "BertNormalizer", **normalizer},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "BertProcessing"},
        "model": {
            "type": "WordPiece",
            "vocab": {token: n for n, token in enumerate(vocabulary)},
        },
    }
