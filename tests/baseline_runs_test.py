"""A run of the TF-IDF baseline keeps its model: it answers and is exported."""

import contextlib
import io
import json
import pathlib
import re
import shutil

import numpy as np
import pytest

import tf_transfer
from tests.support import answering, commands, own_data
from tf_transfer import experiment, train
from tf_transfer.runs import export_folder
from tf_transfer.training import checkpoint, records
from tf_transfer.utils.errors import UserError

KINDS = {
    "news": {},
    "teams": {"label": "side"},  # two classes
    "topics": {"kind": "labels", "label": "tags"},
    "stars": {"kind": "score", "label": "stars", "texts": ["title", "body"]},
    "places": {"kind": "entities", "label": "marks", "texts": "words"},
}


@pytest.fixture(scope="module", params=KINDS)
def run(request, tmp_path_factory):
    """A run of each kind."""
    folder, columns = tmp_path_factory.mktemp(request.param), own_data.news()
    columns["side"] = [
        "home" if t == "sports" else "away" for t in columns["team"]
    ]
    path = own_data.write_task(
        folder, request.param, columns, "jsonl", **KINDS[request.param]
    )
    return train.run(
        train.Settings(task=path, features="tfidf", out=str(folder / "runs"))
    )


def scored(run):
    """The test texts, and the logits that the run stored."""
    task = run.experiment.data.task
    test = run.experiment.data.examples[task.name]["test"][""]
    with np.load(f"{run.directory}/predictions.npz") as arrays:
        return test, arrays["test_logits"]


def test_a_run_that_is_opened_gives_the_stored_logits(run):
    test, logits = scored(run)
    predictor = experiment.open_run(run.directory).predictor()
    np.testing.assert_array_equal(predictor.logits(test), logits)


def test_the_temperature_divides_the_logits(run):
    test, logits = scored(run)
    predictor = experiment.open_run(run.directory).predictor()
    if predictor.task.kind in ("score", "entities"):
        with pytest.raises(UserError, match="--calibrate: is for classes"):
            predictor.calibrate()
    else:
        predictor.calibrate()
        expected = logits / predictor.temperature
        np.testing.assert_array_equal(predictor.logits(test), expected)


def test_the_example_of_the_card_gives_the_stored_logits(
    run, tmp_path, monkeypatch
):
    test, logits = scored(run)
    predictor = experiment.open_run(run.directory).predictor()
    folder = tmp_path / "export"
    export_folder.export(predictor, str(folder))
    names = {path.name for path in folder.iterdir()}
    assert names == {"README.md", "model.json", "weights.npz"}
    card = (folder / "README.md").read_text()
    [example] = re.findall(r"```python\n(.*?)```", card, re.S)
    if predictor.task.is_tagging:
        example = example.replace('["...", "..."]', repr(test.words[0]))
    else:
        for column in test.texts:
            example = example.replace('"..."', repr(column[0]), 1)
    monkeypatch.chdir(folder)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(example, {})
    if predictor.task.is_tagging:
        assert out.getvalue().strip() == str(predictor.tags(test.words[:1])[0])
    else:
        found = np.array(
            re.findall(r"-?[\d.]+(?:e-?\d+)?", out.getvalue()), float
        )
        np.testing.assert_allclose(found, logits[0], rtol=1e-4)


def test_no_folder_for_transformers_is_written(run, tmp_path):
    predictor = experiment.open_run(run.directory).predictor()
    with pytest.raises(UserError, match="--format=hugging_face: is for enc"):
        export_folder.export(predictor, str(tmp_path / "out"), "hugging_face")
    assert not (tmp_path / "out").exists()
    with pytest.raises(UserError, match="has no encoder, so no Keras model"):
        run.model()


def test_a_table_is_answered_and_scored(run, tmp_path, capsys):
    settings, task = run.experiment.settings, run.experiment.data.task
    [path] = pathlib.Path(settings.task).parent.glob("*.jsonl")
    target = tmp_path / "answers.jsonl"
    label = KINDS[task.name].get("label", "team")
    predictor = experiment.open_run(run.directory).predictor()
    answering.predict_file(
        predictor, str(path), str(target), label_column=label
    )
    lines = target.read_text().splitlines()
    assert len(lines) == 60
    assert json.loads((tmp_path / "answers.jsonl.errors.json").read_text())


def test_a_model_with_the_right_hash_that_does_not_fit_is_refused(
    run, tmp_path
):
    """Whoever can write it can write its hash as well."""
    copy = tmp_path / "run"
    shutil.copytree(run.directory, copy)
    path = str(copy / "model" / "tfidf.safetensors")
    arrays = checkpoint.read_arrays(path, None)
    for name in arrays:
        directory = records.RunDirectory(str(copy), None)
        directory.key = directory.config()["key"]
        result = directory.result()
        del result["result_sha256"]
        damaged = {**arrays, name: np.zeros([2], arrays[name].dtype)}
        directory.keep_models([directory.write_model("tfidf", damaged)])
        directory.write_result(result)
        with pytest.raises(UserError, match="its model is damaged"):
            experiment.open_run(str(copy)).predictor()


PROGRAM = """
import json, sys
from tf_transfer import experiment

[label, _], = experiment.open_run(sys.argv[1]).predictor().answer(["goal cup"])
loaded = sorted({"tensorflow", "keras"} & set(sys.modules))
print("RESULT" + json.dumps([label, loaded]))
"""


@pytest.mark.slow
def test_an_answer_needs_no_tensorflow(run):
    if run.experiment.data.task.name == "news":
        [[label, loaded]] = commands.results_of(PROGRAM, run.directory)
        assert label == "sports" and not loaded


def test_an_estimator_may_be_the_baseline(tmp_path):
    columns = own_data.news()
    options = {"features": "tfidf", "out": str(tmp_path)}
    classifier = tf_transfer.TextClassifier(**options)
    classifier.fit(columns["body"], columns["team"])
    assert classifier.score(columns["body"], columns["team"]) == 1.0
    regressor = tf_transfer.TextRegressor(**options)
    pairs = list(zip(columns["title"], columns["body"]))
    regressor.fit(pairs, columns["stars"])
    assert regressor.predict(pairs[:3]).shape == (3,)
