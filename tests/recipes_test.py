"""What CONTRIBUTING.md says to add, added: a row makes a GLUE-like task.

Heads: tests/stacking/heads/registry_test.py.
"""

from tests.conftest import tiny_settings
from tf_transfer.data import glue as glue_data
from tf_transfer.data.task import Task
from tf_transfer.glue import experiment as glue

ROW = Task(
    name="rain",
    folder="Rain",
    texts=("sentence",),
    label="label",
    labels=("dry", "wet"),
    metric="accuracy",
)


def test_a_row_is_a_task_that_trains_and_answers(tmp_path, eager):
    folder = tmp_path / "data" / "Rain"
    folder.mkdir(parents=True)
    for name in ("train", "dev"):
        lines = ["It rains.\twet", "The sun shines.\tdry"] * 10
        text = "\n".join(["sentence\tlabel", *lines])
        (folder / f"{name}.tsv").write_text(text + "\n")
    source = glue_data.open_source(ROW, str(tmp_path / "data"), "")
    settings = tiny_settings(tmp_path / "runs", max_epochs=1)
    result = glue.run(settings, source=source)
    assert result.record["task"] == "rain"
    assert set(result.scores["test"]) == {"accuracy"}
    [(label, _)] = result.predictor().answer(["It rains."])
    assert label in ROW.labels
