"""Pairs whose texts are run each by itself: (u, v, |u - v|)."""

import numpy as np
import pytest
import tensorflow as tf

from tests.conftest import run_folder
from tests.training.conftest import CACHED
from tests.training.conftest import settings_of
from tf_transfer import glue
from tf_transfer import predict
from tf_transfer import text_task
from tf_transfer.data import batches
from tf_transfer.data import sources
from tf_transfer.data import tasks
from tf_transfer.models import loading
from tf_transfer.models import network as network_lib
from tf_transfer.models import tiny
from tf_transfer.utils.errors import UserError

SBERT = {"pairs": "sbert"}


def test_the_head_reads_both_and_their_distance():
    head = network_lib.PooledHead(1, 2, "mean", 0.0, 0, "float32", sides=2)
    head.dense.kernel.assign([[1.0], [10.0], [2.0], [20.0], [0.5], [0.25]])
    pooled = tf.constant([[1.0, 2.0], [3.0, 4.0], [2.0, 2.0], [0.0, 8.0]])
    # u, v = (1, 2), (2, 2) and (3, 4), (0, 8)
    expected = [1 + 20 + 4 + 40 + 0.5, 3 + 40 + 0 + 160 + 1.5 + 1.0]
    np.testing.assert_allclose(head(pooled)[:, 0], expected)


def test_an_example_s_two_texts_stand_one_batch_apart():
    encoder = loading.load("tiny", "", 0.0)
    examples = sources.Examples(
        np.arange(3),
        [["one dog", "two", "a cat"], ["rain", "sun here", "x"]],
        np.array([0, 1, 1]),
    )
    settings = glue.GlueSettings(max_length=16, **SBERT)
    task = tasks.GLUE["rte"]
    split = text_task.tokenise(examples, encoder, settings, task, "")
    alone = [
        text_task.tokenise(
            sources.Examples(examples.ids, [column], examples.labels),
            encoder,
            glue.GlueSettings(max_length=16),
            task,
            "",
        )
        for column in examples.texts
    ]
    assert len(split) == 3
    assert (
        split.lengths.tolist()
        == np.maximum(*(one.lengths for one in alone)).tolist()
    )
    plan = batches.Plan(
        np.array([[2, 0]]), np.array([2]), np.array([8], np.int32)
    )

    def batch_of(part):
        [batch] = batches.pipeline(part, plan, encoder.special.pad)
        return batch

    batch = batch_of(split)
    for name in ("ids", "mask", "segments"):
        expected = np.concatenate([batch_of(one)[name] for one in alone])
        np.testing.assert_array_equal(batch[name], expected)
    assert batch["labels"].numpy().tolist() == [1, 0]
    some = split.take(np.array([1]))
    assert batch_of(some.take(np.array([0, 0, 0])))["ids"].shape == (4, 8)


@pytest.mark.parametrize(
    "options",
    [
        {"trainable_layers": "1"},
        {"trainable_layers": "0"},
        {"trainable_layers": "0", "pooling": "mean"},
    ],
    ids=str,
)
def test_a_cached_prefix_gives_what_a_live_one_gives(run, options):
    losses, logits, result = run(**options, **SBERT)
    cached_losses, cached_logits, _ = run(**options, **SBERT, **CACHED)
    np.testing.assert_allclose(cached_losses, losses, rtol=2e-4)
    np.testing.assert_allclose(cached_logits, logits, atol=2e-4)
    if options == {"trainable_layers": "0", "pooling": "mean"}:
        assert result["trainable_parameters"] == 3 * tiny.HIDDEN + 1


def test_it_is_another_answer_and_another_run(run):
    _, packed, _ = run(trainable_layers="0")
    _, apart, _ = run(trainable_layers="0", **SBERT)
    assert np.abs(packed - apart).max() > 1e-4


def test_a_text_alone_has_no_other_side(run):
    with pytest.raises(UserError, match="--pairs=sbert: task sst2 has one"):
        run(task="sst2", **SBERT)


def test_a_trained_run_answers_pairs_and_is_exported(tmp_path, two_blocks):
    settings = settings_of(tmp_path, max_epochs=1, **SBERT)
    glue.run(settings)
    predictor = predict.Predictor(run_folder(settings))
    texts = [["It rains.", "A dog"], ["It is wet outside.", "a cat"]]
    examples = sources.Examples(np.arange(2), texts, None)
    logits = predictor.logits(examples)
    predict.export(predictor, str(tmp_path / "saved"))
    served = tf.saved_model.load(str(tmp_path / "saved")).signatures[
        "serving_default"
    ](text_1=tf.constant(texts[0]), text_2=tf.constant(texts[1]))
    np.testing.assert_allclose(served["logits"], logits, atol=1e-5)
