"""The report on an experiment that the package does not know."""

import dataclasses

import numpy as np
import pytest

from tests.reports import synthetic
from tests.reports.composed import compose
from tests.reports.composed import tables
from tf_transfer import glue
from tf_transfer.reports import document
from tf_transfer.reports import figures
from tf_transfer.reports import generic
from tf_transfer.reports import glue as glue_section
from tf_transfer.reports import sections
from tf_transfer.reports import summary as summary_lib


@dataclasses.dataclass(frozen=True)
class MyOwn(glue.Settings):
    """Settings of an experiment that somebody wrote."""

    module = "my_own"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two approaches on a task, and one on another."""
    root = tmp_path_factory.mktemp("my_own")
    own = {"cls": MyOwn, "sizes": {"train": 8, "test": 2}}
    predictions = (np.array([0, 1, 1, 1]), np.ones((4, 1)))
    for layers, scores in (("all", (0.8, 0.84)), ("1", (0.7, 0.7))):
        for seed, score in enumerate(scores):
            synthetic.write(
                root,
                [0.5, score],
                trainable_layers=layers,
                seed=seed,
                seconds=20.0 if layers == "all" else 5.0,
                predictions=predictions,
                **own,
            )
    synthetic.write(
        root,
        [0.7],
        trainable_layers="1",
        lr=1e-2,
        frozen_prefix="cached",
        prefix=(0.0, 5.0),
        **own,
    )
    synthetic.write(root, [0.9], task="mrpc", **own)
    return root


def test_an_experiment_of_ones_own_has_a_narrow_table_for_each_task(runs):
    parts = compose(runs)
    assert parts[2] == document.Heading(2, "my_own: tiny")
    found = tables(parts)
    assert set(found) == {"scores_A_rte", "scores_A_mrpc"}
    assert found["scores_A_rte"] == [
        dict(zip(generic.COLUMNS, row))
        for row in (
            (
                "fine-tuning",
                "2e-05",
                "2",
                "82.00 ± 2.83",
                "82.00 ± 2.83",
                "20.0 ± 0.0",
                "100.0 %",
            ),
            (
                "last 1",
                "0.001",
                "2",
                "70.00 ± 0.00",
                "70.00 ± 0.00",
                "5.0 ± 0.0",
                "10.0 %",
            ),
            ("last 1, cached", "0.01", "1", "70.00", "70.00", "10.0", "10.0 %"),
        )
    ]


def test_its_summary_knows_the_majority_and_compares_no_predictions(runs):
    made = summary_lib.summarize_folder(str(runs))
    facts = {key.split("|")[2]: f for key, f in made["datasets"].items()}
    assert facts == {"rte": {"majority": 0.75, "test": 4}, "mrpc": {}}
    assert made["paired"] == {} and made["ensembles"] == []


def test_its_settings_divide_it_into_studies_as_the_papers_do(runs, tmp_path):
    for batch_size in (4, 8):
        synthetic.write(tmp_path, [0.8], cls=MyOwn, batch_size=batch_size)
    found = tables(compose(tmp_path))
    assert [row["setting"] for row in found["studies_my_own"]] == ["batch_size"]
    assert {"scores_A_rte", "scores_B_rte"} < set(found)


def test_it_stands_beside_the_papers_in_one_report(tmp_path):
    synthetic.write(tmp_path, [0.8], cls=MyOwn)
    synthetic.write(tmp_path, [0.8])
    headings = [p.text for p in compose(tmp_path) if hasattr(p, "level")]
    assert [text for text in headings if text.endswith(": tiny")] == [
        "glue: tiny",
        "my_own: tiny",
    ]


@pytest.mark.parametrize(
    "name, expected",
    [
        ("glue", glue_section),
        ("my_own", generic),
        ("figures", generic),  # a module, but no section
        ("../glue", generic),
    ],
)
def test_a_section_is_found_by_the_experiment_s_name(name, expected):
    assert sections.section_of(name) is expected
    assert not hasattr(figures, "sections")
