"""What is read, what is left out, and what is never averaged together."""

import json
import os

import numpy as np
import pytest

from tests.reports import synthetic
from tf_transfer.reports import predictions
from tf_transfer.reports import reading
from tf_transfer.reports import studies
from tf_transfer.reports import summary
from tf_transfer.utils.errors import UserError


def sorted_runs(root):
    found, left_out = reading.read_runs(str(root))
    return studies.sort_into_studies(found), left_out


def only_cell(root):
    [study], _ = sorted_runs(root)
    [dataset] = study.datasets
    [cell] = dataset.cells.values()
    return cell


# === Reading ===


def rewrite(folder, name, change):
    path = os.path.join(folder, name)
    value = json.load(open(path))
    change(value)
    json.dump(value, open(path, "w"))


@pytest.mark.parametrize(
    "damage, reason",
    [
        (lambda f: os.remove(f"{f}/result.json"), "is not finished"),
        (lambda f: os.remove(f"{f}/config.json"), "has no config.json"),
        (lambda f: os.remove(f"{f}/epochs.jsonl"), "has no epochs.jsonl"),
        (lambda f: open(f"{f}/result.json", "w").write("{"), "is damaged"),
        (lambda f: open(f"{f}/epochs.jsonl", "a").write("{"), "is damaged"),
        (
            lambda f: rewrite(f, "result.json", lambda r: r.pop("lr")),
            "is of another version: KeyError 'lr'",
        ),
        (
            lambda f: rewrite(f, "config.json", lambda r: r.pop("starts")),
            "is of another version: KeyError 'starts'",
        ),
        (
            lambda f: open(f"{f}/config.json", "w").write("[]"),
            "is of another version",
        ),
    ],
)
def test_what_is_not_whole_is_left_out_with_the_reason(
    damage, reason, tmp_path
):
    good = synthetic.write(tmp_path, [0.8], seed=0)
    bad = synthetic.write(tmp_path, [0.9], seed=1)
    damage(bad)
    found, left_out = reading.read_runs(str(tmp_path))
    assert [r["path"] for r in found] == [os.path.relpath(good, tmp_path)]
    [(path, said)] = left_out
    assert path == os.path.relpath(bad, tmp_path)
    assert said.startswith(reason)


def test_the_same_run_twice_counts_once(tmp_path):
    first = synthetic.write(tmp_path, [0.8])
    synthetic.write(tmp_path, [0.9])
    found, [(path, reason)] = reading.read_runs(str(tmp_path))
    assert [r["test"] for r in found] == [0.8]
    assert path.endswith(".2")
    assert reason == f"is the same run as {os.path.relpath(first, tmp_path)}"


def test_what_a_sweep_and_a_report_write_is_no_run(tmp_path):
    synthetic.write(tmp_path, [0.8])
    for name in (".sweep/failed", "report"):
        os.makedirs(tmp_path / name)
    (tmp_path / ".sweep/failed/result.json").write_text("{}")
    (tmp_path / "report/summary.json").write_text("{}")
    found, left_out = reading.read_runs(str(tmp_path))
    assert len(found) == 1 and not left_out


@pytest.mark.parametrize(
    "place, said", [("nowhere", "no such folder"), ("", "no finished run")]
)
def test_a_folder_without_runs_says_so(place, said, tmp_path):
    with pytest.raises(UserError, match=said):
        summary.summarize_folder(str(tmp_path / place))


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: open(path, "r+b").truncate(200),
        lambda path: open(path, "w").close(),
        lambda path: open(path, "w").write("no archive"),
    ],
)
def test_damaged_predictions_are_said_and_the_run_stays(damage, tmp_path):
    predictions = (np.array([0, 1]), np.ones((2, 1)))
    folder = synthetic.write(tmp_path, [0.8], predictions=predictions)
    damage(os.path.join(folder, "predictions.npz"))
    made = summary.summarize_folder(str(tmp_path))
    assert len(made["runs"]) == 1
    [(path, reason)] = made["left_out"]
    assert path == os.path.relpath(folder, tmp_path)
    assert "damaged predictions" in reason


# === What belongs together ===


def test_seeds_are_averaged_and_nothing_else(tmp_path):
    for seed, score in enumerate((0.8, 0.84)):
        synthetic.write(tmp_path, [score], seed=seed)
    synthetic.write(tmp_path, [0.5], seed=0, lr=1e-3)
    synthetic.write(tmp_path, [0.6], seed=0, trainable_layers="2")
    cached = {"frozen_prefix": "cached", "prefix": (1.0, 2.0)}
    synthetic.write(tmp_path, [0.7], seed=0, trainable_layers="2", **cached)
    [study], _ = sorted_runs(tmp_path)
    [dataset] = study.datasets
    found = {key: cell.score.mean for key, cell in dataset.cells.items()}
    assert found == {
        ("fine_tuning", False, 2e-5): pytest.approx(82.0),
        ("fine_tuning", False, 1e-3): 50.0,
        ("last_2", False, 1e-3): 60.0,
        ("last_2", True, 1e-3): 70.0,
    }


@pytest.mark.parametrize(
    "changes",
    [
        {"model_identity": "another"},
        {"batch_size": 8},
        {"dropout": 0.0},
        {"max_train_examples": 100},
        {"precision": "mixed_bfloat16"},
    ],
    ids=str,
)
def test_runs_with_other_settings_are_studies_of_their_own(changes, tmp_path):
    synthetic.write(tmp_path, [0.8], seed=0)
    synthetic.write(tmp_path, [0.8], seed=1)
    synthetic.write(tmp_path, [0.9], seed=0, **changes)
    found, _ = sorted_runs(tmp_path)
    assert [len(study.records) for study in found] == [2, 1]
    assert list(studies.differing_settings(found)) == list(changes)


def test_other_data_of_a_task_is_a_data_set_of_its_own(tmp_path):
    synthetic.write(tmp_path, [0.8])
    synthetic.write(tmp_path, [0.9], data_identity="RTE 2")
    [study], _ = sorted_runs(tmp_path)
    assert [d.name for d in study.datasets] == ["rte (1)", "rte (2)"]
    assert all(len(d.cells) == 1 for d in study.datasets)


def test_cached_dtypes_are_not_averaged_together(tmp_path):
    cached = {"frozen_prefix": "cached", "prefix": (0.0, 1.0)}
    for dtype in ("float16", "float32"):
        synthetic.write(
            tmp_path, [0.8], trainable_layers="1", cache_dtype=dtype, **cached
        )
    [study], _ = sorted_runs(tmp_path)
    assert study.variants() == [("last_1", True), ("last_1, float32", True)]


# === Times ===


def test_times_are_compared_only_in_like_environments(tmp_path):
    for seed in range(3):
        synthetic.write(tmp_path, [0.8], seconds=10.0, seed=seed)
    for seed, environment in enumerate(
        ({"threads": 4}, {"concurrent_runs": 2}, {"processor": "b"}), 3
    ):
        synthetic.write(
            tmp_path, [0.6], seconds=1.0, seed=seed, environment=environment
        )
    cell = only_cell(tmp_path)
    assert cell.seconds.mean == 10.0 and cell.seconds.n == 3
    assert cell.score.mean == pytest.approx(70.0) and cell.score.n == 6


def test_each_data_set_has_the_environment_of_its_own_runs(tmp_path):
    """Two machines that share a sweep by task."""
    synthetic.write(tmp_path, [0.8], task="rte", seconds=10.0)
    synthetic.write(tmp_path, [0.8], task="rte", seed=1, seconds=10.0)
    synthetic.write(
        tmp_path,
        [0.8],
        task="mrpc",
        seconds=5.0,
        environment={"processor": "b"},
    )
    [study], _ = sorted_runs(tmp_path)
    seconds = [d.base.seconds.mean for d in study.datasets]
    assert seconds == [5.0, 10.0] and study.untimed == 0


def test_a_run_that_went_on_in_another_environment_is_not_timed(tmp_path):
    synthetic.write(tmp_path, [0.8], seconds=10.0, seed=0)
    folder = synthetic.write(tmp_path, [0.8], seconds=50.0, seed=1)
    rewrite(
        folder,
        "config.json",
        lambda c: c["starts"].append({**c["starts"][0], "threads": 8}),
    )
    cell = only_cell(tmp_path)
    assert (cell.seconds.n, cell.score.n) == (1, 2)


def test_a_cached_run_is_timed_with_the_whole_cost_of_its_prefix(tmp_path):
    """Whether it paid the build itself or found it done."""
    for seed, paid in enumerate((30.0, 0.0)):
        synthetic.write(
            tmp_path,
            [0.7, 0.8],
            seconds=5.0,
            seed=seed,
            trainable_layers="1",
            frozen_prefix="cached",
            prefix=(paid, 30.0),
        )
    cell = only_cell(tmp_path)
    assert cell.seconds.mean == 40.0 and cell.seconds.deviation == 0.0
    assert cell.at_epoch(1)[1].mean == 35.0
    assert cell.reached(34.0) is None
    assert cell.reached(35.0).mean == pytest.approx(70.0)


def test_a_budget_counts_epochs_that_are_over_and_best_on_validation(tmp_path):
    folder = synthetic.write(tmp_path, [0.6, 0.9, 0.7], seconds=10.0)
    lines = [json.loads(x) for x in open(f"{folder}/epochs.jsonl")]
    lines[2]["validation"] = {"accuracy": 0.95}  # best there, not on test
    with open(f"{folder}/epochs.jsonl", "w") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    cell = only_cell(tmp_path)
    reached = [cell.reached(budget) for budget in (9.9, 10.0, 29.0, 30.0)]
    assert reached[0] is None
    assert [r.mean for r in reached[1:]] == pytest.approx([60, 90, 70])


def test_a_budget_takes_the_last_epoch_where_runs_do(tmp_path):
    synthetic.write(
        tmp_path, [0.9, 0.7], seconds=10.0, select="last", patience=0
    )
    assert only_cell(tmp_path).reached(20.0).mean == pytest.approx(70.0)


def test_a_budget_needs_every_seed(tmp_path):
    synthetic.write(tmp_path, [0.6], seconds=10.0, seed=0)
    synthetic.write(tmp_path, [0.8], seconds=20.0, seed=1)
    cell = only_cell(tmp_path)
    assert cell.reached(15.0) is None
    assert cell.reached(20.0).mean == pytest.approx(70.0)


# === The better rate, the majority ===


def test_the_better_rate_is_chosen_on_validation(tmp_path):
    synthetic.write(tmp_path, [0.8], lr=1e-3)
    folder = synthetic.write(tmp_path, [0.9], lr=2e-5)
    rewrite(
        folder,
        "result.json",
        lambda r: r.update(validation={"accuracy": 0.7}),
    )
    [study], _ = sorted_runs(tmp_path)
    assert study.datasets[0].best(("fine_tuning", False)).lr == 1e-3


@pytest.mark.parametrize(
    "metric, labels, expected",
    [
        ("accuracy", [0, 1, 1, 2], 0.5),
        ("f1", [1, 1, 1, 0], 2 * 3 / (2 * 3 + 1)),
        ("f1", [1, 0, 0, 0], 0.0),
        ("matthews", [1, 0, 0, 0], 0.0),
        ("spearman", [1.0, 2.0, 2.0], 0.0),
    ],
)
def test_the_majority_is_the_commonest_answer_scored(metric, labels, expected):
    found = predictions.majority(metric, np.array(labels))
    assert found == pytest.approx(expected)
