"""An exported model names its answers, is fast in batches, and is whole."""

import contextlib
import dataclasses
import errno
import io
import os
import pathlib
import re

import numpy as np
import pytest
import tensorflow as tf

from tests import own_tasks_test
from tests.models import encoders
from tests.support import own_data, quick
from tests.utils import disks
from tf_transfer import experiment, train
from tf_transfer.data.task import Examples, Task
from tf_transfer.models import exports, serving
from tf_transfer.models.heads import pooled
from tf_transfer.models.network import Network
from tf_transfer.runs import export_folder
from tf_transfer.utils.errors import UserError

pytestmark = pytest.mark.usefixtures("one_block")
TEXTS = ["match goal team", "bank price moon", "rocket " * 30, "", "a dog"]


def train_kind(folder, name, **keys):
    """The predictor of a run of one kind of task."""
    path = own_data.write_task(folder, name, ending="jsonl", **keys)
    with quick.eagerly():
        directory = train.run(
            train.Settings(
                **{**own_tasks_test.SMALL, "max_length": 24},
                task=path,
                trainable_layers="all",
                baseline=False,
                out=str(folder / "runs"),
            )
        ).directory
        return experiment.open_run(directory).predictor()


@pytest.fixture(scope="module")
def predictors(tmp_path_factory):
    """What answers, by the name of the task."""
    folder = tmp_path_factory.mktemp("kinds")
    return {
        name: train_kind(folder, name, **keys)
        for name, keys in own_tasks_test.KEYS.items()
    }


@pytest.fixture(params=[False, pytest.param(True, marks=pytest.mark.slow)])
def serve(request, tmp_path, monkeypatch):
    """Returns the answers of the serving model: here, or loaded again."""

    def serve(predictor, **columns):
        inputs = {n: tf.constant(column) for n, column in columns.items()}
        if request.param:
            export_folder.export(predictor, str(tmp_path / "saved"))
            model = tf.saved_model.load(str(tmp_path / "saved"))
            outputs = model.signatures["serving_default"](**inputs)
        else:
            with quick.eagerly():
                model = predictor.text_model()
                texts = list(inputs.values())
                logits = model.logits(*texts)
                outputs = {"logits": logits, **model.answers(logits, texts[0])}
        return {name: output.numpy() for name, output in outputs.items()}

    return serve


def answer(predictor, *columns):
    """Logits and answers of the predictor itself."""
    with quick.eagerly():
        examples = Examples(np.arange(len(TEXTS)), list(columns), None)
        logits = predictor.logits(examples)
    return logits, [label for label, _ in predictor.answers(logits)]


@pytest.mark.slow  # traces and saves a model
@pytest.mark.parametrize("name", ["news", "topics"])
def test_a_saved_model_names_labels_and_their_probabilities(
    name, predictors, serve
):
    predictor = predictors[name]
    served = serve(predictor, text_1=TEXTS)
    logits, labels = answer(predictor, TEXTS)
    np.testing.assert_allclose(served["logits"], logits, atol=1e-6)
    np.testing.assert_allclose(
        served["probabilities"], predictor.probabilities(logits), atol=1e-6
    )
    assert [label.decode() for label in served["label"]] == labels


def test_a_saved_model_of_pairs_returns_the_score(predictors, serve):
    columns = [TEXTS, TEXTS[::-1]]
    served = serve(predictors["stars"], text_1=columns[0], text_2=columns[1])
    logits, _ = answer(predictors["stars"], *columns)
    np.testing.assert_allclose(served["score"], logits[:, 0], rtol=1e-6)


def test_a_saved_model_names_the_tags_of_words(predictors, serve):
    predictor = predictors["places"]
    sentences = [["the", "moon"], ["bank"], ["goal"] * 40]
    padded = [words + [""] * (40 - len(words)) for words in sentences]
    served = serve(predictor, words=padded)
    cut = 20  # longer sentences are cut here, and in rows elsewhere
    with quick.eagerly():
        expected = predictor.tags(sentences)
    for tags, row in zip(expected, served["tags"]):
        words = [tag.decode() for tag in row]
        assert words[: len(tags)][:cut] == tags[:cut]
        assert not any(words[len(tags) :])
    assert served["probabilities"].shape == (3, 40, 3)


@pytest.mark.parametrize(
    "name, inputs",
    [
        ("news", {"text_1": np.zeros(0, str)}),
        ("topics", {"text_1": np.zeros(0, str)}),
        ("stars", {"text_1": np.zeros(0, str), "text_2": np.zeros(0, str)}),
        ("places", {"words": np.zeros((0, 3), str)}),
        ("places", {"words": np.zeros((0, 0), str)}),
    ],
)
def test_no_texts_have_no_answers(name, inputs, predictors, serve):
    served = serve(predictors[name], **inputs)
    assert {len(output) for output in served.values()} == {0}


def test_the_temperature_is_exported(predictors, serve):
    predictor = experiment.open_run(predictors["topics"].directory).predictor()
    predictor.calibrate()
    served = serve(predictor, text_1=TEXTS)
    logits, labels = answer(predictor, TEXTS)
    np.testing.assert_allclose(served["logits"], logits, atol=1e-6)
    assert [label.decode() for label in served["label"]] == labels
    kernel, bias = exports._output_layer(
        predictor.network, "topics", "labels", predictor.task.labels
    )
    raw = predictor.network.heads["topics"].dense.get_weights()
    np.testing.assert_allclose(kernel * predictor.temperature, raw[0], 1e-5)
    np.testing.assert_allclose(bias * predictor.temperature, raw[1], 1e-5)


@pytest.mark.slow  # traces and saves a model
@pytest.mark.parametrize("texts_per_example", [1, 2])
def test_a_batch_of_mixed_lengths_has_the_logits_of_single_texts(
    texts_per_example, eager
):
    encoder = encoders.FAMILIES["bert"]()
    head = pooled.PooledHead(
        2,
        encoder.hidden,
        "mean",
        0.1,
        0,
        "float32",
        texts_per_example=texts_per_example,
        name="head_mine",
    )
    task = Task("mine", "", ("a", "b")[:texts_per_example], "", ("x", "y"), "")
    task = dataclasses.replace(task, loss_head="softmax")
    model = serving.TextModel(
        Network(encoder, {"mine": head}), task, 40, "head"
    )
    draw = np.random.default_rng(0)
    columns = [
        [" ".join(["dog"] * n) for n in draw.integers(0, 45, 8)]
        for _ in task.texts
    ]
    logits = model.logits(*map(tf.constant, columns))
    assert logits.shape == (8, 2)
    for row, texts in zip(logits, zip(*columns)):
        single = model.logits(*(tf.constant([text]) for text in texts))
        np.testing.assert_allclose(single[0], row, atol=1e-6)


# === The model card ===


@pytest.mark.slow
@pytest.mark.parametrize("name", ["topics", "stars", "places"])
def test_the_example_of_the_card_runs(name, predictors, tmp_path, monkeypatch):
    predictor = predictors[name]
    folder = tmp_path / "saved"
    export_folder.export(predictor, str(folder))
    card = (folder / "README.md").read_text()
    monkeypatch.chdir(folder)
    [example] = re.findall(r"```python\n(.*?)```", card, re.S)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(example, {})
    assert out.getvalue().startswith("[")
    assert re.search(r"- Size on disk: [\d.]+ [kMG]B\.", card)
    times = re.findall(
        r"- Seconds per text of .* in a batch: ([\d.e-]+),", card
    )
    assert len(times) == 2 and all(float(time) > 0 for time in times)


# === Full disks ===


@pytest.mark.parametrize("form", export_folder.FORMATS)
def test_a_disk_without_room_gets_nothing(
    form, predictors, tmp_path, monkeypatch
):
    folder = tmp_path / "out"
    monkeypatch.setattr(os, "posix_fallocate", disks.fail(errno.ENOSPC))
    with pytest.raises(UserError, match=f"{folder}: the disk is full"):
        export_folder.export(predictors["news"], str(folder), form)
    assert not os.listdir(folder)


@pytest.mark.slow  # traces and saves a model
def test_a_disk_that_fills_leaves_nothing(predictors, tmp_path, monkeypatch):
    folder = tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr(pathlib.Path, "write_bytes", disks.fail(errno.EDQUOT))
        with pytest.raises(UserError, match="the disk is full"):
            export_folder.export(
                predictors["news"], str(folder), "hugging_face"
            )
    assert not os.listdir(folder)
    export_folder.export(predictors["news"], str(folder), "hugging_face")
    assert "model.safetensors" in os.listdir(folder)


@pytest.mark.parametrize("form", ["hugging_face", "keras_preset"])
def test_other_formats_would_not_read_the_ends_of_texts(
    form, predictors, monkeypatch, tmp_path
):
    predictor = predictors["news"]
    settings = dataclasses.replace(
        predictor.experiment.settings, long_texts="head_tail"
    )
    monkeypatch.setattr(predictor.experiment, "settings", settings)
    with pytest.raises(UserError, match="has --long_texts=head_tail. Give --f"):
        export_folder.export(predictor, str(tmp_path / "out"), form)
    assert not (tmp_path / "out").exists()
