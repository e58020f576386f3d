"""Layer by layer, an encoder is what keras-nlp makes of it in one call."""

import keras
import numpy as np
import pytest

from tests.models import encoders
from tests.models.encoders import batch_of, states
from tf_transfer.models import encoder as encoder_module, tiny

SINGLES = encoders.PAIRS[:1]


@pytest.fixture(scope="module", params=encoders.FAMILIES)
def encoder(request):
    return encoders.shared(request.param)


@pytest.fixture
def bert():
    return encoders.shared("bert")


def whole(encoder, batch):
    """What keras-nlp's own backbone returns."""
    inputs = {"token_ids": batch["ids"], "padding_mask": batch["mask"]}
    if encoder.family == "bert":
        inputs["segment_ids"] = batch["segments"]
    return encoder.backbone(inputs, training=False)


# === States ===


@pytest.mark.parametrize("texts", [SINGLES, encoders.PAIRS], ids=["one", "two"])
def test_the_states_are_those_of_the_whole_backbone(encoder, texts):
    batch = batch_of(encoder, texts)
    expected = whole(encoder, batch)
    if encoder.family == "bert":
        expected = expected["sequence_output"]
    np.testing.assert_allclose(states(encoder, batch), expected, atol=1e-6)


def test_the_pooler_of_bert_is_its_own(bert):
    batch = batch_of(bert, encoders.PAIRS)
    np.testing.assert_allclose(
        bert.pooler(states(bert, batch)[:, 0]),
        whole(bert, batch)["pooled_output"],
        atol=1e-6,
    )


def test_the_pooler_of_roberta_is_a_new_tanh_layer_on_the_first_token():
    encoder = encoders.shared("roberta")
    x = np.random.default_rng(0).normal(size=(3, 7, 16)).astype(np.float32)
    kernel, bias = (weight.numpy() for weight in encoder.pooler.weights)
    assert kernel.shape == (16, 16) and not bias.any()
    expected = np.tanh(x[:, 0] @ kernel)
    np.testing.assert_allclose(encoder.pooler(x[:, 0]), expected, atol=1e-6)


def test_the_pooler_of_roberta_is_drawn_from_the_seed():
    encoder = encoders.shared("roberta")
    one, same, other = (
        encoder_module.Encoder(
            encoder.backbone, encoder.tokenizer, seed
        ).pooler.kernel
        for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(one, same)
    assert np.abs(one - other).max() > 1e-3


@pytest.mark.parametrize("cut", [0, 1, 2])
def test_the_blocks_can_be_run_in_two_parts(encoder, cut):
    batch = batch_of(encoder, encoders.PAIRS)
    x = encoder.embed(batch["ids"], batch["segments"], training=False)
    below = encoder.run_blocks(x, batch["mask"], 1, cut, training=False)
    above = encoder.run_blocks(
        below, batch["mask"], cut + 1, len(encoder.blocks), training=False
    )
    assert (cut == 0) == np.array_equal(x, below)
    np.testing.assert_allclose(states(encoder, batch), above, atol=1e-6)


def test_padding_further_changes_no_state_of_a_real_token(encoder):
    near = batch_of(encoder, encoders.PAIRS)
    far = batch_of(encoder, encoders.PAIRS, 60)
    np.testing.assert_array_equal(near["mask"], far["mask"][:, :40])
    difference = states(encoder, near) - states(encoder, far)[:, :40]
    assert np.abs(difference[near["mask"].numpy()]).max() < 1e-5


def test_what_stands_behind_the_mask_does_not_matter(encoder):
    batch = batch_of(encoder, encoders.PAIRS)
    mask = batch["mask"].numpy()
    other = {**batch, "ids": np.where(mask, batch["ids"], 7)}
    difference = states(encoder, batch) - states(encoder, other)
    assert np.abs(difference[mask]).max() < 1e-5


def test_segments_matter_to_bert(bert):
    batch = batch_of(bert, encoders.PAIRS)
    other = {**batch, "segments": np.zeros_like(batch["segments"])}
    assert np.abs(states(bert, batch) - states(bert, other)).max() > 1e-3


def test_dropout_is_active_in_training_only(encoder):
    batch = batch_of(encoder, SINGLES)
    still = [states(encoder, batch) for _ in range(2)]
    moving = [states(encoder, batch, training=True) for _ in range(2)]
    np.testing.assert_array_equal(*still)
    assert np.abs(moving[0] - moving[1]).max() > 1e-3


def test_the_layers_hold_every_weight_once(encoder):
    found = [id(w) for layer in encoder.layers for w in layer.weights]
    held = {id(w) for w in encoder.backbone.weights}
    held |= {id(w) for w in encoder.pooler.weights}
    assert len(found) == len(set(found))
    assert set(found) == held


# === Tokens ===


def test_special_tokens_are_those_of_the_family(encoder):
    encode = encoder.tokenizer.encode
    batch = batch_of(encoder, [["dog"], ["the"]], tokenize=encode)
    ids = batch["ids"][0].numpy()[batch["mask"][0]]
    words = [encoder.tokenizer.vocabulary[i] for i in ids]
    first, second = words.index("dog"), len(words) - 2
    if encoder.family == "bert":
        assert words == ["[CLS]", "dog", "[SEP]", "the", "[SEP]"]
        segments = batch["segments"][0].numpy()[: len(ids)]
        assert segments.tolist() == [0, 0, 0, 1, 1]
    else:
        assert words == ["<s>", "dog", "</s>", "</s>", "the", "</s>"]
    assert (first, words[second]) == (1, "the")


def test_tokenising_gives_ids_without_special_tokens(bert):
    words = tiny.vocabulary()
    found = bert.tokenizer.encode(["The dog, zip", "", "good"])
    pieces = [[words[number] for number in text] for text in found]
    assert pieces == [
        ["the", "dog", ",", "z", "##i", "##p"],
        [],
        ["good"],
    ]


def test_an_uncased_tokeniser_strips_accents(bert):
    accented, plain = bert.tokenizer.encode(["Café ÉTÉ Noël", "cafe ete noel"])
    assert accented.tolist() == plain.tolist()
    assert bert.special.pad not in plain


# === Precision ===


def test_in_mixed_precision_the_weights_stay_float32():
    backbone, tokenizer = tiny.build(dropout=0.0, dtype="mixed_bfloat16")
    encoder = encoder_module.Encoder(backbone, tokenizer)
    batch = batch_of(encoder, SINGLES)
    assert str(states(encoder, batch).dtype) == "bfloat16"
    weights = [w for layer in encoder.layers for w in layer.weights]
    assert {keras.backend.standardize_dtype(w.dtype) for w in weights} == {
        "float32"
    }


@pytest.mark.parametrize("first", [1, 2])
def test_the_first_token_alone_is_the_first_of_all(encoder, first):
    batch = batch_of(encoder, encoders.PAIRS)
    top = len(encoder.blocks)
    x = encoder.embed(batch["ids"], batch["segments"], training=False)
    whole = encoder.run_blocks(x, batch["mask"], first, top, False)
    short = encoder.run_blocks(x, batch["mask"], first, top, False, True)
    assert short.shape[1] == 1
    np.testing.assert_allclose(short, whole[:, :1], atol=1e-6)


def test_below_the_top_block_every_token_is_kept(encoder):
    batch = batch_of(encoder, encoders.PAIRS)
    x = encoder.embed(batch["ids"], batch["segments"], training=False)
    top = len(encoder.blocks)
    below = encoder.run_blocks(x, batch["mask"], 1, top - 1, False, True)
    assert below.shape == x.shape
