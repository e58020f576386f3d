"""Pairs whose texts are run each by itself: (u, v, |u - v|)."""

import numpy as np
import pytest
import tensorflow as tf

from tests.conftest import tiny_settings
from tests.models import encoders
from tests.support import quick
from tf_transfer import experiment
from tf_transfer.data import batches
from tf_transfer.data.task import Examples
from tf_transfer.glue import experiment as glue
from tf_transfer.models.heads import pooled
from tf_transfer.runs import export_folder
from tf_transfer.utils.errors import UserError

SBERT = {"pairs": "sbert"}


def test_the_head_reads_both_and_their_distance():
    head = pooled.PooledHead(
        1, 2, "mean", 0.0, 0, "float32", texts_per_example=2
    )
    head.dense.kernel.assign([[1.0], [10.0], [2.0], [20.0], [0.5], [0.25]])
    vectors = tf.constant([[1.0, 2.0], [3.0, 4.0], [2.0, 2.0], [0.0, 8.0]])
    # u, v = (1, 2), (2, 2) and (3, 4), (0, 8)
    expected = [1 + 20 + 4 + 40 + 0.5, 3 + 40 + 0 + 160 + 1.5 + 1.0]
    np.testing.assert_allclose(head(vectors)[:, 0], expected)


def test_the_head_may_leave_the_distance_out():
    head = pooled.PooledHead(
        *(1, 2, "mean", 0.0, 0, "float32"),
        texts_per_example=2,
        pair_features="both",
    )
    head.dense.kernel.assign([[1.0], [10.0], [2.0], [20.0]])
    vectors = tf.constant([[1.0, 2.0], [2.0, 2.0]])
    np.testing.assert_allclose(head(vectors)[:, 0], [1 + 20 + 4 + 40])


def test_an_example_s_two_texts_stand_one_batch_apart():
    encoder = encoders.shared("bert")
    examples = Examples(
        np.arange(3),
        [["one dog", "two", "a cat"], ["rain", "sun here", "x"]],
        np.array([0, 1, 1]),
    )
    sbert, cross = (
        glue.Glue(glue.Settings(data="sample", max_length=16, **options))
        for options in (SBERT, {})
    )
    split = sbert.data.encode(examples, sbert.data.task, encoder, "")
    alone = [
        cross.data.encode(
            Examples(examples.ids, [column], examples.labels),
            cross.data.task,
            encoder,
            "",
        )
        for column in examples.texts
    ]
    assert len(split) == 3
    longest = np.maximum(*(part.lengths for part in alone))
    assert split.lengths.tolist() == longest.tolist()
    plan = batches.BatchPlan(
        np.array([[2, 0]]), np.array([2]), np.array([8], np.int32)
    )

    def batch_of(part):
        [batch] = batches.pipeline(part, plan, encoder.special.pad)
        return batch

    batch = batch_of(split)
    for name in ("ids", "mask", "segments"):
        expected = np.concatenate([batch_of(part)[name] for part in alone])
        np.testing.assert_array_equal(batch[name], expected)
    assert batch["labels"].numpy().tolist() == [1, 0]
    some = split.take(np.array([1]))
    assert batch_of(some.take(np.array([0, 0, 0])))["ids"].shape == (4, 8)


def test_a_text_alone_is_no_pair(tmp_path):
    with pytest.raises(UserError, match="--pairs=sbert: task sst2 has one"):
        glue.run(tiny_settings(tmp_path, task="sst2", **SBERT))


@pytest.mark.slow
def test_a_trained_run_answers_pairs_and_is_exported(tmp_path, one_block):
    settings = tiny_settings(
        tmp_path / "runs",
        trainable_layers="1",
        max_length=24,
        max_train_examples=16,
        max_epochs=1,
        **SBERT,
    )
    with quick.eagerly():
        result = glue.run(settings)
    predictor = experiment.open_run(result.directory).predictor()
    texts = [["It rains.", "A dog"], ["It is wet outside.", "a cat"]]
    examples = Examples(np.arange(2), texts, None)
    logits = predictor.logits(examples)
    export_folder.export(predictor, str(tmp_path / "saved"))
    served = tf.saved_model.load(str(tmp_path / "saved")).signatures[
        "serving_default"
    ](text_1=tf.constant(texts[0]), text_2=tf.constant(texts[1]))
    np.testing.assert_allclose(served["logits"], logits, atol=1e-5)
