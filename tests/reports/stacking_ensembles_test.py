"""The ensemble of three stacked models, on known predictions."""

import json
import os

import numpy as np
import pytest

from tests.reports.made_up_stacking import (
    collect,
    DENSE,
    judged,
    stacked,
    write,
)
from tests.support import run_files, stacking_data
from tf_transfer.reports import (
    predictions as predictions_lib,
    stacking_ensembles,
    tables as tables_lib,
)
from tf_transfer.training import records as runs_lib

TRUTH = np.array([0, 1, 1, 0, 1, 0, 1, 1])


def put_out(root, records, *wrong, sure=1.0, labels=TRUTH):
    """Writes predictions that err on some texts, and how sure they are.

    What validates are the first half of the texts.
    """
    logits = np.where(TRUTH == 1, 1.0, -1.0)
    logits[list(wrong)] *= -sure
    for number, record in enumerate(records):
        record["path"] = f"{record['approach']}_{number}_{id(record)}"
        folder = os.path.join(root, record["path"])
        os.makedirs(folder)
        np.savez(
            os.path.join(folder, "predictions.npz"),
            test_ids=np.arange(len(labels)),
            test_labels=labels,
            test_logits=logits[:, None],
            validation_ids=np.arange(4),
            validation_labels=labels[:4],
            validation_logits=logits[:4, None],
        )
        run = runs_lib.RunDirectory(folder, record["key"])
        run.write_result(run_files.finished())
    return records


def trio(root, scores=(75.0, 75.0, 87.5), seeds=3, **changes):
    """The paper's three models; each errs on other texts, one is very sure."""
    base, densenet, highway = scores
    return [
        *put_out(
            root, write("text", {**DENSE, **changes}, [base] * seeds), 0, 1
        ),
        *put_out(
            root,
            write("text", stacked("densenet", **changes), [densenet] * seeds),
            *(2, 3),
            sure=9.0,
        ),
        *put_out(
            root,
            write("text", stacked("highway", **changes), [highway] * seeds),
            0,
        ),
    ]


def join(root, records):
    return stacking_ensembles.join_predictions(
        records, predictions_lib.Predictions(str(root))
    )


def test_an_ensemble_is_a_record_with_the_cost_of_its_members(tmp_path):
    records = trio(tmp_path)
    joined, refused = join(tmp_path, records)
    assert not refused and len(joined) == 3  # three seeds
    scores = {r["key"]["adaptation"]: r["metrics"]["accuracy"] for r in joined}
    # Two of three err on text 0; the mean follows the very sure one on 2, 3.
    assert scores == {"mean": 5 / 8}
    assert {record["seed"] for record in joined} == {0, 1, 2}
    validated = {r["key"]["adaptation"]: r["validation"] for r in joined}
    assert validated == {"mean": 1 / 4}
    first = joined[0]
    assert first["key"]["head"] == "ensemble"
    assert first["seconds"] == 90.0 and first["trainable_parameters"] == 3000
    assert len(first["members"]) == 3
    assert json.loads(json.dumps(joined)) == joined  # a summary can hold it


def test_members_are_found_by_the_settings_that_runs_record(tmp_path):
    """Each has sizes of its own head in its key; only usual ones are joined."""

    def put(head, adaptation, **changes):
        settings = stacking_data.settings_of(
            tmp_path, "text", head=head, adaptation=adaptation, **changes
        )
        [record] = write(
            "text", {"head": head, "adaptation": adaptation}, [80.0]
        )
        record["key"] = {**settings.hashed(), "data_identity": "x"}
        return put_out(tmp_path, [record])[0]

    base = put("dense", "finetune_only")
    stacks = [
        put(head, "stack_and_finetune") for head in ("densenet", "highway")
    ]
    assert "growth" in stacks[0]["key"] and "pooling" in base["key"]
    joined, _ = join(tmp_path, [base, *stacks])
    assert len(joined) == 1
    small = put("densenet", "stack_and_finetune", growth=8)
    assert join(tmp_path, [base, small, stacks[1]]) == ([], [])


def test_an_ensemble_has_the_best_of_its_rates_as_its_base_has(tmp_path):
    records = [
        record
        for rate, scores in ((2e-5, (75.0,) * 3), (5e-5, (90.0,) * 3))
        for record in trio(tmp_path, scores, lr=rate)
    ]
    joined, _ = join(tmp_path, records)
    assert len(joined) == 6
    for record in joined:  # 2e-5 is the best on validation
        record["validation"] += 0.1 * (record["lr"] == 2e-5)
    [study] = collect(records, joined)
    verdict = judged(study)["ensemble_accuracy"]
    assert verdict.runs == 3
    assert verdict.value == pytest.approx(62.5 - 90)


def test_it_meets_the_paper_s_claim_and_stands_against_its_members(tmp_path):
    records = trio(tmp_path)
    joined, _ = join(tmp_path, records)
    [study] = collect(records, joined)
    verdict = judged(study)["ensemble_accuracy"]
    assert verdict.value == pytest.approx(62.5 - 75)
    assert verdict.runs == 3
    assert verdict.word == "inconclusive"  # all seeds score the same
    tables = {
        table.name: table.frame for table in tables_lib.fill_tables(study)
    }
    rows = tables["ensemble_1_text"].set_index("")
    assert list(rows.index) == [
        "two dense layers, finetune-only",
        "DenseNet, stack-and-finetune",
        "Highway LSTM, stack-and-finetune",
        "ensemble of three, mean of probabilities",
    ]
    ensemble = rows.loc["ensemble of three, mean of probabilities"]
    assert ensemble["accuracy"] == "62.50 ± 0.00" and ensemble["n"] == 3
    assert ensemble["against finetune-only"].startswith("-12.50")
    assert ensemble["time, s"] == "90.0 ± 0.0"


def test_members_have_trained_for_as_many_epochs(tmp_path):
    """Ensembles once joined members of 1, 3 and 7 epochs."""
    base, *_ = trio(tmp_path, seeds=1, max_epochs=1)
    _, densenet, _ = trio(tmp_path, seeds=1, max_epochs=3)
    *_, highway = trio(tmp_path, seeds=1, max_epochs=7)
    assert join(tmp_path, [base, densenet, highway]) == ([], [])


@pytest.mark.parametrize(
    "changes",
    [
        {"lr": 1e-5},
        {"head_lr": 1e-2},
        {"phase_one_epochs": 2},
        {"max_epochs": 7},
        {"frozen_prefix": "cached"},
        {"max_train_examples": 300},
        {"batch_size": 8},
    ],
)
def test_members_differ_in_nothing_else(tmp_path, changes):
    base, densenet, highway = trio(tmp_path, seeds=1)
    *_, other = trio(tmp_path, seeds=1, **changes)
    assert join(tmp_path, [base, densenet, other]) == ([], [])
    joined, _ = join(tmp_path, [base, densenet, highway, other])
    assert {tuple(record["members"]) for record in joined} == {
        (base["path"], densenet["path"], highway["path"])
    }


def test_cached_members_share_the_build_of_their_prefix(tmp_path):
    base, densenet, highway = trio(tmp_path, seeds=1)
    for record, paid in ((densenet, 8.0), (highway, 0.5)):
        record["cached"] = True
        record["key"] |= {"frozen_prefix": "cached", "cache_dtype": "float16"}
        record |= {"prefix_seconds": paid, "prefix_build_seconds": 8.0}
    joined, _ = join(tmp_path, [base, densenet, highway])
    assert joined[0]["prefix_build_seconds"] == 8.0
    assert joined[0]["prefix_seconds"] == 8.5
    assert joined[0]["cached"]
    assert joined[0]["key"]["frozen_prefix"] == "cached"


def test_members_of_two_machines_make_an_ensemble_that_is_not_timed(tmp_path):
    records = trio(tmp_path, seeds=1)
    environment = {**records[0]["timing_environment"], "threads": 7}
    records[0]["timing_environment"] = environment
    records[1]["memory"] = None  # as of a warm worker's later runs
    joined, _ = join(tmp_path, records)
    assert all(r["timing_environment"]["mixed"] for r in joined)
    assert all(r["memory"] is None for r in joined)


def test_runs_with_other_labels_are_in_no_ensemble_and_that_is_said(tmp_path):
    base, densenet, _ = trio(tmp_path, seeds=1)
    [highway] = put_out(
        tmp_path,
        write("text", stacked("highway"), [80.0]),
        labels=1 - TRUTH,
    )
    joined, [(path, reason)] = join(tmp_path, [base, densenet, highway])
    assert joined == [] and path == highway["path"]
    assert "has other labels than" in reason
