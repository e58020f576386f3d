"""The report on an experiment that the package does not know."""

import dataclasses

import numpy as np
import pytest

from tests.reports import synthetic
from tf_transfer.glue import experiment as glue, tables as glue_module
from tf_transfer.reports import (
    study as study_lib,
    summary as summary_lib,
)


@dataclasses.dataclass(frozen=True)
class MyOwn(glue.Settings):
    """Settings of an experiment that somebody wrote."""

    module = "my_own"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two approaches on a task, and one on another."""
    root = tmp_path_factory.mktemp("my_own")
    shared = {"cls": MyOwn, "sizes": {"train": 8, "test": 2}}
    labels = np.array([0, 1, 1, 1])
    ones, varied = np.ones((4, 1)), np.array([[1], [-1], [1], [1]])
    for layers, scores in (("all", (0.8, 0.84)), ("1", (0.72, 0.75))):
        for seed, score in enumerate(scores):
            synthetic.write(
                root,
                [0.5, score],
                trainable_layers=layers,
                seed=seed,
                seconds=20.0 if layers == "all" else 5.0,
                predictions=(labels, ones if score == 0.75 else varied),
                **shared,
            )
    synthetic.write(root, [0.9], task="mrpc", **shared)
    return root


def collect(root):
    """Studies of all runs below a folder."""
    return study_lib.collect(summary_lib.summarize_folder(str(root)))


def test_your_own_experiment_has_an_overview_of_each_task(runs):
    [study] = collect(runs)
    assert (study.experiment, study.paper, study.verdicts) == (
        "my_own",
        None,
        [],
    )
    assert [(row.task, row.name, row.seeds) for row in study.rows] == [
        ("mrpc", "everything", 1),
        ("rte", "everything", 2),
        ("rte", "last 1", 2),
    ]


def test_its_runs_know_the_majority_and_who_answers_one_class(runs):
    [study] = collect(runs)
    rte = study.runs[study.runs.task == "rte"]
    assert set(rte.majority) == {75.0}
    # It predicted 1 for everything.
    assert rte[rte.one_answer].score.tolist() == [75.0]
    assert study.runs[study.runs.task == "mrpc"].majority.isna().all()


def test_runs_with_a_test_score_are_reported_without_the_others(tmp_path):
    """Of a search the answer alone has scored the test."""
    line = {
        "epoch": 1,
        "phase": 1,
        "phase_epoch": 1,
        "elapsed_seconds": 1.0,
        "peak_memory_bytes": None,
    }
    for seed, test in enumerate((0.9, None, None)):
        scores = {"validation": {"accuracy": 0.7}, "test": None}
        if test:
            scores["test"] = {"accuracy": test}
        synthetic.write(
            tmp_path,
            None,
            seed=seed,
            cls=MyOwn,
            sizes={"train": 8, "validation": 4, "test": 2},
            lines=[{**line, **scores}],
            facts=scores,
        )
    [study] = collect(tmp_path)
    [row] = study.rows
    assert row.seeds == 1 and row.test.value == pytest.approx(90)


def test_its_settings_divide_it_into_studies_as_the_papers_do(tmp_path):
    for batch_size in (4, 8):
        synthetic.write(tmp_path, [0.8], cls=MyOwn, batch_size=batch_size)
    studies = collect(tmp_path)
    assert [study.name for study in studies] == ["A", "B"]


def test_it_is_next_to_the_papers_in_one_report(tmp_path):
    synthetic.write(tmp_path, [0.8], cls=MyOwn)
    synthetic.write(tmp_path, [0.8])
    found = [study.experiment for study in collect(tmp_path)]
    assert found == ["glue", "my_own"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("glue", glue_module),
        ("my_own", None),
        ("figures", None),  # a module, but of no experiment
        ("../glue", None),
    ],
)
def test_a_module_is_found_by_the_experiment_s_name(name, expected):
    assert study_lib.module_of(name) is expected


def test_studies_that_differ_in_no_common_setting_have_their_letters(runs):
    summary = summary_lib.summarize_folder(str(runs))
    for number, record in enumerate(summary["runs"][:2]):
        record.key[f"added_{number}"] = 1
    titles = [study.title for study in study_lib.collect(summary)]
    assert [title.rpartition(" ")[2] for title in titles] == ["A)", "B)", "C)"]
