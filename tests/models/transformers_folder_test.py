"""Folders of transformers give its states and tokens, or are refused."""

import json
import os
import shutil

import keras_hub
import numpy as np
import pytest
import safetensors.numpy
import tensorflow as tf

from tests.models import encoders, published, saving
from tests.support import odd_texts
from tf_transfer.models import (
    encoder as encoder_lib,
    exports,
    freezing,
    loading,
    sentence_pieces,
    transformers_types,
    transformers_weights,
)
from tf_transfer.models.heads import pooled
from tf_transfer.models.network import Network
from tf_transfer.utils.errors import UserError

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


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    """A folder that stays as it is."""
    folder = tmp_path_factory.mktemp("models") / "bert"
    saving.as_hugging_face(encoders.shared("bert"), folder)
    return folder


@pytest.fixture
def folder(bert, tmp_path):
    """A folder that can be changed."""
    return shutil.copytree(bert, tmp_path / "bert")


def change(path, **values):
    """Sets keys of a JSON file; None removes one."""
    content = json.loads(path.read_text()) if path.exists() else {}
    content = {k: v for k, v in {**content, **values}.items() if v is not None}
    path.write_text(json.dumps(content))


def change_weights(folder, rename):
    """Renames weights; a weight that is renamed to None is removed."""
    path = folder / "model.safetensors"
    arrays = safetensors.numpy.load(path.read_bytes())
    renamed = {rename(name): array for name, array in arrays.items()}
    renamed.pop(None, None)
    path.write_bytes(safetensors.numpy.save(renamed))


def load(folder):
    return loading.load(str(folder), "", dropout=0.0)


def states_of(encoder):
    batch = encoders.batch_of(encoder, encoders.PAIRS)
    return encoders.states(encoder, batch)


# === transformers ===


def save_bert(folder, kind="BertModel", **config):
    import transformers

    words = published.spell([" ".join(odd_texts.WORDS)])
    tokenizer = published.their_word_pieces(words, do_lower_case=True)
    config = transformers.BertConfig(
        vocab_size=len(words) + 2, **{**SHAPE, **config}
    )
    model = getattr(transformers, kind)(config)
    return save(folder, model, tokenizer)


def save_roberta(folder, kind="RobertaModel", **config):
    import transformers

    words, merges = published.train_byte_pairs(odd_texts.WORDS)
    tokenizer = published.their_byte_pairs(words, merges)
    config = transformers.RobertaConfig(
        vocab_size=len(words), type_vocab_size=1, **{**SHAPE, **config}
    )
    model = getattr(transformers, kind)(config)
    return save(folder, model, tokenizer)


def save_distilbert(folder, kind="DistilBertModel", **config):
    import transformers

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
    import transformers

    words = published.spell([" ".join(odd_texts.WORDS)])
    tokenizer = published.their_word_pieces(words, do_lower_case=True)
    config = transformers.ElectraConfig(
        vocab_size=len(words), **{**SHAPE, **config}
    )
    model = getattr(transformers, kind)(config)
    return save(folder, model, tokenizer)


def save_sentence_pieces(folder, family, tokenizer=None, **config):
    """A folder of a model of this family whose tokenizer is SentencePiece."""
    import transformers

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
    import torch

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


@pytest.mark.parametrize("name", FOLDERS)
def test_states_and_tokens_equal_those_of_transformers(name, tmp_path):
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    write, options = FOLDERS[name]
    model, tokenizer = write(tmp_path / "model", **options)
    encoder = load(tmp_path / "model")
    texts = TEXTS
    if isinstance(encoder.tokenizer, sentence_pieces.SentencePieces):
        # transformers composes few marks that are apart; see docs/data.md.
        texts = [text for text in texts if "ﾞ" not in text]
    ids = encoder.tokenizer.encode(texts)
    theirs = published.encode(tokenizer, texts)
    assert [row.tolist() for row in ids] == theirs

    rows = np.array([(row * 9)[:9] for row in theirs if row][:8], np.int32)
    segments = np.zeros_like(rows)
    if encoder.family == "bert":
        segments[:, 5:] = 1
    with torch.no_grad():
        # A DistilBERT takes no segments, and so do tokenizers without them.
        options = {}
        if encoder.family == "bert":
            options["token_type_ids"] = torch.tensor(segments)
        expected = model.base_model(
            torch.tensor(rows), output_hidden_states=True, **options
        ).hidden_states[-1]
    x = encoder(
        tf.constant(rows), tf.constant(segments), tf.ones_like(rows) > 0, False
    )
    np.testing.assert_allclose(x, expected.numpy(), atol=1e-4)


def network_of(encoder):
    head = pooled.PooledHead(
        1, encoder.hidden, "cls", 0.1, 0, "float32", name="head_mine"
    )
    return Network(encoder, {"mine": head})


@pytest.mark.parametrize(
    "name", ["distilbert", "electra", "xlm-roberta", "bert with SentencePiece"]
)
def test_an_export_of_any_type_answers_as_here(name, tmp_path):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    write, options = FOLDERS[name]
    write(tmp_path / "model", **options)
    network = network_of(load(tmp_path / "model"))
    out = str(tmp_path / "out")
    exports.hugging_face(network, "mine", out, "classes", ("no", "yes"), 40)
    tokenizer = transformers.AutoTokenizer.from_pretrained(out)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(
        out
    ).eval()
    pairs = [["schön Straße", "漢字 İstanbul", "film"], ["İs", "a film", "Ωm"]]
    batch = tokenizer(*pairs, return_tensors="pt", padding=True)
    with torch.no_grad():
        theirs = model(**batch).logits.numpy()
    encoder = network.encoder
    ours = encoders.batch_of(
        encoder, pairs, tokenize=encoder.tokenizer.encode, length=32
    )
    logits = network.logits("mine", ours, training=False).numpy()[:, 0]
    np.testing.assert_allclose(theirs[:, 1] - theirs[:, 0], logits, atol=1e-5)

    again = load(out)
    again.pooler.set_weights(encoder.pooler.get_weights())
    states = encoder(ours["ids"], ours["segments"], ours["mask"], False)
    np.testing.assert_allclose(
        again(ours["ids"], ours["segments"], ours["mask"], False),
        states,
        atol=1e-5,
    )


@pytest.mark.parametrize("settings", [{}, {"strip_accents": False}])
@pytest.mark.parametrize("lowercase", [True, False, None])
def test_tokenizer_json_and_its_settings(tmp_path, lowercase, settings):
    pytest.importorskip("transformers")
    import transformers

    _, tokenizer = save_bert(tmp_path)
    added = transformers.AddedToken("Raw", normalized=False)
    tokenizer.add_tokens(["SchöN", added])
    tokenizer.save_pretrained(tmp_path)
    path = tmp_path / "tokenizer_config.json"
    change(path, do_lower_case=lowercase, **settings)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    texts = [*TEXTS, "xSchönx Rawraw raw schon"]
    ids = [row.tolist() for row in load(tmp_path).tokenizer.encode(texts)]
    assert ids == published.encode(theirs, texts)


# === Without transformers ===


def test_a_distilbert_is_a_bert_without_segments(bert, folder, tmp_path):
    distilbert = transformers_types.TYPES["distilbert"]

    def rename(name):
        for ours, theirs in distilbert.weights.items():
            name = name.replace(ours, theirs)
        is_left_out = "pooler" in name or "token_type" in name
        return None if is_left_out else name.replace("bert.", "distilbert.")

    change_weights(folder, rename)
    config = json.loads((folder / "config.json").read_text())
    for theirs, ours in distilbert.keys.items():
        config[theirs] = config.pop(ours)
    config["model_type"] = "distilbert"
    (folder / "config.json").write_text(json.dumps(config))
    same = shutil.copytree(bert, tmp_path / "same")
    path = same / "model.safetensors"
    arrays = safetensors.numpy.load(path.read_bytes())
    arrays[f"bert.{transformers_weights.SEGMENTS}"] *= 0
    path.write_bytes(safetensors.numpy.save(arrays))

    encoder, plain = load(folder), load(same)
    batch = encoders.batch_of(plain, encoders.PAIRS)
    np.testing.assert_allclose(
        encoders.states(encoder, batch),
        encoders.states(plain, batch),
        atol=1e-5,
    )
    assert loading.has_new_pooler(str(folder))
    assert loading.read_shape(str(folder)) == loading.read_shape(str(bert))
    network = network_of(encoder)
    out = str(tmp_path / "out")
    with pytest.raises(UserError, match="--format=keras_preset: keras-hub has"):
        exports.keras_preset(network, "mine", out, "score", (), 40)


def test_embeddings_may_be_narrower_than_blocks(tmp_path):
    """As keras-hub computes them, and written as transformers names them."""
    words = encoders.shared("bert").tokenizer.vocabulary
    backbone = keras_hub.models.ElectraBackbone(
        len(words),
        num_layers=2,
        num_heads=2,
        hidden_dim=16,
        embedding_dim=8,
        intermediate_dim=24,
        max_sequence_length=40,
    )
    encoders.randomise(backbone)
    electra = encoder_lib.Encoder(backbone, encoders.shared("bert").tokenizer)
    saving.as_hugging_face(electra, tmp_path / "electra")
    loaded = load(tmp_path / "electra")
    batch = encoders.batch_of(electra, encoders.PAIRS)
    expected = backbone(
        {
            "token_ids": batch["ids"],
            "segment_ids": batch["segments"],
            "padding_mask": batch["mask"],
        }
    )["sequence_output"]
    mask = batch["mask"].numpy()
    np.testing.assert_allclose(
        encoders.states(loaded, batch)[mask],
        expected.numpy()[mask],
        atol=1e-5,
    )
    parts = freezing.components(network_of(loaded))
    assert parts[0].parameters == 8 * (len(words) + 40 + 2 + 2) + 9 * 16
    for write in (exports.hugging_face, exports.keras_preset):
        with pytest.raises(UserError, match="embeddings.*saved_model"):
            write(network_of(loaded), "mine", str(tmp_path), "score", (), 40)


def test_a_projection_without_segments_is_refused(tmp_path):
    """transformers gives the texts of a pair one segment, keras-hub two."""
    saving.as_hugging_face(encoders.shared("roberta"), tmp_path / "electra")
    change(
        tmp_path / "electra" / "config.json",
        model_type="electra",
        embedding_size=8,
    )
    change(
        tmp_path / "electra" / "tokenizer_config.json",
        tokenizer_class="RobertaTokenizer",
    )
    with pytest.raises(UserError, match="config.json has embedding_size='8'"):
        load(tmp_path / "electra")


@pytest.mark.parametrize(
    "name, key, value",
    [
        ("config.json", "is_decoder", True),
        ("config.json", "hidden_act", "mish"),
        ("config.json", "position_embedding_type", "relative_key"),
        ("config.json", "pruned_heads", {"0": [1]}),
        ("config.json", "auto_map", {"AutoModel": "modeling.py"}),
        ("config.json", "quantization_config", {"bits": 4}),
        ("tokenizer_config.json", "tokenizer_class", "BertJapaneseTokenizer"),
        ("tokenizer_config.json", "never_split", ["a"]),
        ("tokenizer_config.json", "word_tokenizer_type", "mecab"),
        ("tokenizer.json", "normalizer", {"type": "NFC"}),
        ("tokenizer.json", "pre_tokenizer", {"type": "Whitespace"}),
        ("tokenizer.json", "post_processor", {"type": "ByteLevel"}),
        ("special_tokens_map.json", "image_token", "<image>"),
    ],
)
def test_what_is_not_known_is_refused_by_name(folder, name, key, value):
    if name == "tokenizer.json":
        change(folder / name, **make_tokenizer_json())
    change(folder / name, **{key: value})
    with pytest.raises(UserError) as error:
        load(folder)
    assert f"{name} has {key}" in str(error.value)


@pytest.mark.parametrize(
    "name, values",
    [
        ("config.json", {"is_decoder": False, "pruned_heads": {}}),
        ("config.json", {"architectures": ["BertModel"], "use_cache": True}),
        ("config.json", {"a_key_of_the_future": None}),
        ("tokenizer_config.json", {"model_max_length": 8, "never_split": []}),
        ("tokenizer_config.json", {"tokenizer_class": "BertTokenizerFast"}),
        ("special_tokens_map.json", {"cls_token": {"content": "[CLS]"}}),
    ],
)
def test_what_changes_nothing_is_read(bert, folder, name, values):
    path = folder / name
    content = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**content, **values}))
    one, other = load(bert), load(folder)
    np.testing.assert_array_equal(states_of(one), states_of(other))


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


def test_tokenizer_json_is_enough(bert, folder):
    for name in ("vocab.txt", "tokenizer_config.json"):
        (folder / name).unlink()
    change(folder / "tokenizer.json", **make_tokenizer_json())
    text = "The Café [SEP] was m² ."
    [one], [other] = (
        load(some).tokenizer.encode([text]) for some in (bert, folder)
    )
    assert one.tolist() == other.tolist()
    assert load(bert).special == load(folder).special


@pytest.mark.parametrize("keys", [{"lowercase": False}, {}])
@pytest.mark.parametrize("config", [{"do_lower_case": True}, {}])
def test_letters_are_small_unless_the_files_say_otherwise(folder, keys, config):
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    change(folder / "tokenizer.json", **make_tokenizer_json(**keys))
    tokenizer = load(folder).tokenizer
    assert tokenizer.lowercase == (bool(config) or not keys)


def test_accents_and_cjk_follow_the_settings(folder):
    path = folder / "tokenizer_config.json"
    change(path, strip_accents=False, tokenize_chinese_chars=False)
    tokenizer = load(folder).tokenizer
    unknown = tokenizer.unknown
    encoded = tokenizer.encode(["cafe", "café", "中文", "中 文"])
    assert unknown not in encoded[0]
    assert [row.tolist() for row in encoded[1:]] == [
        [unknown],
        [unknown],
        [unknown] * 2,
    ]


def test_weights_may_have_another_prefix_or_older_names(bert, folder):
    change_weights(
        folder,
        lambda name: (
            name.removeprefix("bert.")
            .replace("LayerNorm.weight", "LayerNorm.gamma")
            .replace("LayerNorm.bias", "LayerNorm.beta")
        ),
    )
    np.testing.assert_array_equal(
        states_of(load(bert)), states_of(load(folder))
    )


def test_a_missing_pooler_is_a_new_one(bert, folder, caplog):
    change_weights(folder, lambda n: None if "pooler" in n else n)
    assert loading.has_new_pooler(str(folder))
    assert not loading.has_new_pooler(str(bert))
    one, same, other = (
        loading.load(str(folder), "", 0.0, seed=seed) for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(states_of(one), states_of(load(bert)))
    kernels = [e.pooler.kernel.numpy() for e in (one, same, other, load(bert))]
    np.testing.assert_array_equal(kernels[0], kernels[1])
    assert all((kernels[0] != kernel).any() for kernel in kernels[2:])
    assert f"--model={folder}: has no pooler" in caplog.text


def test_a_missing_weight_is_named(folder):
    name = "encoder.layer.1.attention.self.query.weight"
    change_weights(folder, lambda n: None if n.endswith(name) else n)
    with pytest.raises(UserError, match=f"weights have no {name}"):
        load(folder)


@pytest.mark.parametrize("name", ["vocab.txt", "[CLS]", "many"])
def test_an_incomplete_vocabulary_is_refused(folder, name):
    path = folder / "vocab.txt"
    words = path.read_text().split("\n")
    if name == "vocab.txt":
        path.unlink()
    elif name == "many":
        path.write_text("\n".join([*words, "one more"]))
    else:
        path.write_text("\n".join(w.replace(name, "CLS") for w in words))
    problem = {
        "vocab.txt": "has no vocab.txt",
        "[CLS]": "has no \\[CLS\\]",
        "many": "smaller vocab_size",
    }
    with pytest.raises(UserError, match=problem[name]):
        load(folder)


@pytest.mark.parametrize(
    "name, key, value",
    [
        ("config.json", "layer_norm_eps", "small"),
        ("config.json", "num_attention_heads", 0),
        ("tokenizer_config.json", "added_tokens_decoder", [1]),
        ("special_tokens_map.json", "cls_token", 7),
    ],
)
def test_values_of_a_wrong_type_are_errors(folder, name, key, value):
    change(folder / name, **{key: value})
    with pytest.raises(UserError, match=f"--model={folder}: "):
        load(folder)
