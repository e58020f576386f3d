"""`--method=contrastive`: pairs of texts train blocks; a regression follows."""

import dataclasses
import json
import types

import numpy as np
import pytest
import tensorflow as tf
from sklearn.linear_model import LogisticRegression

from tests.support import own_data
from tests.warm_test import numbers
from tf_transfer import experiment, train
from tf_transfer.data.task import Examples
from tf_transfer.glue import experiment as glue
from tf_transfer.models.heads import pooled
from tf_transfer.runs import export_folder
from tf_transfer.runs.warm import WarmState
from tf_transfer.sweeps import estimate
from tf_transfer.training import objectives
from tf_transfer.utils.errors import UserError

TEXTS = ["A good film.", "The dog was not in the house, two men said."]
TASKS = {
    "score": {"kind": "score", "label": "stars"},
    "labels": {"kind": "labels", "label": "tags"},
}


def settings_of(path, out, **changes):
    return train.Settings(
        **{
            "task": path,
            "model": "tiny",
            "method": "contrastive",
            "trainable_layers": "1",
            "max_length": 16,
            "max_epochs": 2,
            "baseline": False,
            "out": str(out),
            "cache_dir": str(out),
            **changes,
        }
    )


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return own_data.write_task(tmp_path_factory.mktemp("task"))


# === The loss ===


def make_vectors(count, rng):
    vectors = rng.normal(size=(count, 4)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.arange(count) % 2, vectors


def test_equal_and_unequal_pairs_weigh_the_same():
    labels, vectors = make_vectors(7, np.random.default_rng(0))
    errors = {True: [], False: []}
    for i in range(7):
        for j in range(i):
            is_equal = bool(labels[i] == labels[j])
            errors[is_equal].append((vectors[i] @ vectors[j] - is_equal) ** 2)
    loss = objectives.contrastive_loss(
        tf.constant(labels), tf.constant(vectors), tf.fill([7], 1 / 7)
    )
    expected = sum(np.mean(some) for some in errors.values())
    assert float(loss) == pytest.approx(expected, rel=1e-5)


def test_what_only_fills_a_batch_makes_no_pairs():
    labels, vectors = make_vectors(6, np.random.default_rng(0))
    weights = np.array([0.25] * 4 + [0, 0], np.float32)
    parts = [
        objectives.contrastive_loss(labels[:n], vectors[:n], weights[:n])
        for n in (4, 6)
    ]
    assert float(parts[0]) == pytest.approx(float(parts[1]))


def test_a_batch_of_one_class_has_no_unequal_pairs():
    _, vectors = make_vectors(3, np.random.default_rng(0))
    weights = np.full(3, 1 / 3, np.float32)
    loss = objectives.contrastive_loss(np.zeros(3, int), vectors, weights)
    assert np.isfinite(loss) and loss > 0


# === Runs ===


@pytest.fixture
def result(path, tmp_path, one_block, eager):
    return train.run(settings_of(path, tmp_path / "runs"))


def read_head(result):
    [head] = result.network.heads.values()
    assert isinstance(head, pooled.UnitMeanHead)
    return head


def test_the_head_is_a_regression_on_the_trained_encoder(result, path):
    data = result.experiment.data
    train_texts = data.read_splits(data.task)["train"][""]
    encoder = result.network.encoder
    split = data.encode(train_texts, data.task, encoder, "train")
    ids = [
        split.tokens.flat[s : s + n]
        for s, n in zip(split.tokens.starts, split.tokens.lengths)
    ]
    vectors = []
    for row in ids:
        batch = {
            "ids": tf.constant(row[None]),
            "segments": tf.zeros([1, len(row)], tf.int32),
            "mask": tf.ones([1, len(row)], tf.bool),
        }
        x = encoder.embed(batch["ids"], batch["segments"], False)
        x = encoder.run_blocks(x, batch["mask"], 1, 1, False)
        mean = tf.reduce_mean(x, axis=1)
        vectors.append((mean / tf.norm(mean))[0].numpy())
    model = LogisticRegression(max_iter=1000).fit(vectors, split.labels)
    kernel, bias = read_head(result).dense.get_weights()
    np.testing.assert_allclose(kernel, model.coef_.T, atol=2e-3)
    np.testing.assert_allclose(bias, model.intercept_, atol=2e-3)


@pytest.mark.slow  # trains whole runs
def test_the_result_is_the_last_epoch_and_its_run_answers_again(
    result, tmp_path
):
    assert result.record["best_epoch"] == 2
    assert result.record["approach"] == "last_1_contrastive"
    first = result.predictor().answer(TEXTS)
    again = experiment.open_run(result.directory).predictor()
    assert again.answer(TEXTS) == first


@pytest.mark.slow
def test_a_saved_model_answers_as_the_run(result, tmp_path):
    predictor = result.predictor()
    folder = str(tmp_path / "saved")
    export_folder.export(predictor, folder)
    served = tf.saved_model.load(folder).signatures["serving_default"]
    logits = served(text_1=tf.constant(TEXTS))["logits"].numpy()
    examples = Examples(np.arange(2), [TEXTS], None)
    np.testing.assert_allclose(logits, predictor.logits(examples), atol=1e-5)


@pytest.mark.slow  # traces and saves a model
def test_transformers_has_no_such_head(result, tmp_path):
    with pytest.raises(UserError, match="have no such head"):
        export_folder.export(
            result.predictor(), str(tmp_path / "hf"), "hugging_face"
        )


@pytest.mark.slow  # trains whole runs
@pytest.mark.usefixtures("one_block", "eager")
def test_a_resumed_run_is_the_one_that_was_not_interrupted(path, tmp_path):
    def run(out, epochs):
        settings = settings_of(
            path,
            tmp_path / out,
            max_epochs=epochs,
            schedule="constant",
            warmup_fraction=0.0,
        )
        return train.run(settings)

    run("resumed", 1)
    resumed, whole = run("resumed", 2), run("whole", 2)
    assert resumed.record["epochs_run"] == 2
    assert numbers(resumed) == numbers(whole)


@pytest.mark.slow
def test_a_warm_process_gives_the_numbers_of_a_new_one(path, tmp_path):
    warm = WarmState()
    for changes in ({}, {"method": "full"}, {"seed": 1}, {"rerun": True}):
        alone = train.Train(settings_of(path, tmp_path / "alone", **changes))
        together = train.Train(
            settings_of(path, tmp_path / "together", **changes), warm=warm
        )
        assert numbers(together.train()) == numbers(alone.train())


def run_mirrored(path, out):
    settings = settings_of(path, out, strategy="mirrored", cpu_devices=2)
    result = train.run(settings)
    shapes = [weight.shape for weight in read_head(result).dense.get_weights()]
    print(f"RESULT{json.dumps([shapes, result.record['test']['accuracy']])}")


@pytest.mark.slow
def test_two_replicas_train_and_fit_one_head(path, forks, tmp_path):
    out = str(tmp_path)
    [(shapes, accuracy)] = forks.start(
        run_mirrored, path, out, folder=out
    ).results()
    assert shapes == [[32, 3], [3]]
    assert accuracy > 0.5  # chance is a third


@pytest.mark.usefixtures("one_block", "eager")
def test_it_needs_no_validation_texts(path, tmp_path):
    settings = settings_of(path, tmp_path / "runs", validation_fraction=0.0)
    record = train.run(settings).record
    assert record["validation"] is None and record["test"]["accuracy"] > 0


@pytest.mark.slow  # trains whole runs
@pytest.mark.usefixtures("one_block", "eager")
def test_rare_classes_may_weigh_the_same(path, tmp_path):
    columns = own_data.news()
    kept = [n for n in range(60) if columns["team"][n] != "space" or n % 4 == 2]
    columns = {name: [c[n] for n in kept] for name, c in columns.items()}
    path = own_data.write_task(tmp_path, columns=columns)
    kernels = [
        read_head(
            train.run(
                settings_of(path, tmp_path / "runs", class_weights=weights)
            )
        ).dense.get_weights()[0]
        for weights in ("none", "balanced")
    ]
    assert np.abs(kernels[1] - kernels[0]).max() > 1e-3


# === Settings ===


@pytest.mark.parametrize("texts, epochs", [(16, 30), (40, 15), (1000, 1)])
def test_few_texts_make_thirty_updates(texts, epochs):
    settings = train.Settings(task="rte", method="contrastive").resolve()
    assert train.usual_epochs(texts, settings) == epochs


@pytest.mark.parametrize("kind", TASKS)
def test_only_classes_are_compared(kind, tmp_path):
    path = own_data.write_task(tmp_path, **TASKS[kind])
    with pytest.raises(UserError, match="^--method=contrastive: .*classes"):
        train.run(settings_of(path, tmp_path / "runs"))


def test_flags_of_another_head_are_not_read(path, tmp_path):
    settings = settings_of(path, tmp_path)
    unread = settings.unread()
    for name in ("pooling", "head", "pairs", "head_dropout", "select"):
        assert name in unread
        assert name not in settings.resolve().hashed()
    full = dataclasses.replace(settings, method="full")
    assert "pooling" in full.resolve().hashed()


def test_commands_of_papers_refuse_it():
    with pytest.raises(UserError, match="^--method=contrastive: "):
        glue.Settings(method="contrastive").resolve()


def test_its_operations_are_of_all_tokens_and_of_whole_pairs(tmp_path):
    def count(**changes):
        path = own_data.write_task(tmp_path, texts=["title", "body"])
        run = train.Train(settings_of(path, tmp_path, **changes))
        planned = types.SimpleNamespace(experiment=run, settings=run.settings)
        return estimate.count_work(planned)

    ours = count(pairs="sbert")  # which it does not read
    assert ours.epoch == count(method="full", pooling="mean").epoch
