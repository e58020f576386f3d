"""A probe on means of tokens is exported to transformers; others are refused
before anything is loaded."""

import contextlib
import io
import re
from unittest import mock

import numpy as np
import pytest
import safetensors.numpy

from tests.support import commands, own_data, quick
from tf_transfer import experiment, predict, train
from tf_transfer.baselines.probe import Probe, States
from tf_transfer.config import command_line
from tf_transfer.data.task import Examples
from tf_transfer.models import exports
from tf_transfer.runs import export_folder

TEXTS = ["match goal team", "bank price", "a moon and a rocket and more words"]
CASES = {
    "block_means": {},
    "mean": {"kind": "labels", "label": "tags"},
    "words": {},
    "cosine": {"texts": ["title", "body"]},
    "cls_state": {},
}
# States of these cases, which the folds would not choose.
CHOSEN = {
    "mean": ("mean",),
    "cosine": ("mean", "cosine"),
    "cls_state": ("cls_state",),
}


def fit(name, folder):
    """The directory of a probe that reads these states, or words."""
    count = 150 if name == "words" else 60  # of few texts it reads no words
    columns = own_data.news(count)
    path = own_data.write_task(
        folder, name, columns, ending="jsonl", **CASES[name]
    )
    settings = train.Settings(
        task=path,
        model="tiny",
        max_length=16,
        features="frozen",
        baseline=False,
        out=str(folder / "runs"),
        cache_dir=str(folder / "cache"),
    )
    with contextlib.ExitStack() as stack:
        stack.enter_context(quick.eagerly(3))
        if name in CHOSEN:
            chosen = [States(block, *CHOSEN[name]) for block in (2, 1)]
            listed = mock.patch.object(Probe, "_candidates", lambda _: chosen)
            stack.enter_context(listed)
        return train.run(settings).directory


@pytest.fixture(scope="module")
def directories(tmp_path_factory):
    """The run of each case, fitted once."""
    made = {}

    def find(name):
        if name not in made:
            made[name] = fit(name, tmp_path_factory.mktemp(name))
        return made[name]

    return find


@pytest.mark.slow  # exports
@pytest.mark.parametrize("name", ["block_means", "mean"])
def test_a_probe_on_means_is_an_encoder_with_a_dense_layer(
    name, directories, tmp_path, monkeypatch, eager
):
    predictor = experiment.open_run(directories(name)).predictor()
    folder = tmp_path / "out"
    predictor.calibrate()
    export_folder.export(predictor, str(folder), "hugging_face")
    arrays = safetensors.numpy.load_file(folder / exports.HEAD_FILE)
    encoder = predictor.network.encoder
    blocks = len(encoder.blocks) + 1 if name == "block_means" else 1
    assert arrays["weight"].shape == (3, blocks * encoder.hidden)
    weights = safetensors.numpy.load_file(folder / "model.safetensors")
    assert not [key for key in weights if key.startswith("classifier")]
    assert '"BertModel"' in (folder / "config.json").read_text()
    card = (folder / "README.md").read_text()
    [code] = re.findall(r"```python\n(.*?)```", card, re.S)
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    monkeypatch.chdir(folder)
    names, out = {}, io.StringIO()
    listed = ", ".join(map(repr, TEXTS))
    with contextlib.redirect_stdout(out):
        exec(code.replace('"..."', listed), names)
    examples = Examples(np.arange(len(TEXTS)), [TEXTS], None)
    expected = predictor.logits(examples)
    np.testing.assert_allclose(names["logits"], expected, atol=1e-4)
    if name == "block_means":
        answers = [label for label, _ in predictor.answers(expected)]
        assert out.getvalue() == f"{answers}\n"


@pytest.mark.parametrize(
    "name, form, problem",
    [
        ("words", "hugging_face", "fit the probe with --words=false"),
        ("words", "keras_preset", "this probe reads words"),
        ("cosine", "hugging_face", "what this probe reads (cosine)"),
        ("cls_state", "hugging_face", "reads ([CLS] without the pooler)"),
        ("block_means", "keras_preset", "only --format=hugging_face has"),
    ],
)
def test_other_probes_are_refused_before_the_encoder_is_loaded(
    name, form, problem, directories, tmp_path, monkeypatch, capsys
):
    path = directories(name)
    capsys.readouterr()

    def load():
        raise AssertionError

    monkeypatch.setattr(command_line, "import_tensorflow", load)
    folder = tmp_path / "out"
    words = [f"--run={path}", f"--export={folder}", f"--format={form}"]
    assert commands.call(predict.main, predict.Settings, *words) == 2
    error = capsys.readouterr().err
    assert problem in error and "--format=saved_model" in error
    assert not folder.exists()
