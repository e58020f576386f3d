"""`--model=mpnet` on its real weights, where they were fetched before."""

import os

import numpy as np
import pytest
import tensorflow as tf

from tests.models import published
from tests.models.tokenizer_test import assert_same, is_in_fast_tables
from tests.support import odd_texts
from tf_transfer.models import loading, presets
from tf_transfer.utils import wheels

# The user's own, which each test hides.
CACHE = os.path.join(
    os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"),
    "tf_transfer",
)
PAIRS = [
    ["A film to remember.", "the dog " * 150, "one two"],
    ["What is this?", "hello world " * 40, "x"],
]


@pytest.fixture(scope="module")
def folder():
    path = os.path.join(CACHE, "wheels", f"{wheels.MPNET.package}-0.0.1")
    if not os.path.isdir(path):
        pytest.skip("--model=mpnet was not fetched")
    return path


@pytest.fixture(scope="module")
def encoder(folder):
    return loading.load("mpnet", CACHE, 0.0)


def test_its_shape_is_known_before_it_is_fetched(encoder):
    shape = presets.find_shape("mpnet")
    assert shape.blocks == len(encoder.blocks)
    assert shape.hidden == encoder.hidden
    assert encoder.max_positions == loading.find_positions("mpnet")
    assert loading.has_new_pooler("mpnet")


@pytest.mark.slow
def test_its_ids_are_those_of_transformers(folder, encoder):
    transformers = pytest.importorskip("transformers")
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    texts = [text for text in odd_texts.make() if is_in_fast_tables(text)]
    ours = encoder.tokenizer.encode(texts)
    assert_same(texts, ours, published.encode(theirs, texts))


@pytest.mark.slow
def test_the_states_of_its_blocks_are_those_of_transformers(folder, encoder):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder).eval()
    batch = tokenizer(*PAIRS, padding=True, return_tensors="pt")
    with torch.no_grad():
        theirs = model(**batch, output_hidden_states=True).hidden_states
    ids = tf.constant(batch["input_ids"].numpy(), tf.int32)
    mask = batch["attention_mask"].numpy() > 0
    states = [encoder.embed(ids, None, False)]
    top = len(encoder.blocks)
    encoder.run_blocks(
        states[0], tf.constant(mask), 1, top, False, collect=states.append
    )
    assert len(states) == len(theirs) == 13
    for one, other in zip(states, theirs, strict=True):
        np.testing.assert_allclose(
            one.numpy()[mask], other.numpy()[mask], atol=1e-4
        )
