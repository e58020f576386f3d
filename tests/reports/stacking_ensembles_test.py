"""The ensemble of three stacked models, on known predictions."""

import json
import os

import numpy as np
import pytest

from tests.reports.made_up_stacking import collect, DENSE, stacked, write
from tests.support import stacking_data
from tests.support.run_files import finished
from tf_transfer.reports import predictions, summary
from tf_transfer.stacking import tables
from tf_transfer.training import records

TRUTH = np.array([0, 1, 1, 0, 1, 0, 1, 1])


def put_out(root, record, *wrong, sure=1.0, labels=TRUTH):
    """Writes predictions that err on some texts; validation has the first."""
    logits = np.where(TRUTH == 1, 1.0, -1.0)
    logits[list(wrong)] *= -sure
    record["path"] = f"{record['key']['head']}_{id(record)}"
    folder = os.path.join(root, record["path"])
    os.makedirs(folder)
    arrays = {}
    for split, count in (("test", 8), ("validation", 4)):
        arrays[f"{split}_ids"] = np.arange(count)
        arrays[f"{split}_labels"] = labels[:count]
        arrays[f"{split}_logits"] = logits[:count, None]
    np.savez(os.path.join(folder, "predictions.npz"), **arrays)
    records.RunDirectory(folder, record["key"]).write_result(finished())
    return record


def trio(root, **changes):
    """The paper's three models; each errs on other texts, one is very sure."""
    [base] = write("text", {**DENSE, **changes}, [75.0])
    [densenet] = write("text", stacked("densenet", **changes), [75.0])
    [highway] = write("text", stacked("highway", **changes), [87.5])
    return [
        put_out(root, base, 0, 1),
        put_out(root, densenet, 2, 3, sure=9.0),
        put_out(root, highway, 0),
    ]


def join(root, runs):
    return tables.ensembles(runs, predictions.Predictions(str(root)))


def test_an_ensemble_is_a_record_with_the_cost_of_its_members(tmp_path):
    members = trio(tmp_path)
    [ensemble], refused = join(tmp_path, members)
    assert not refused
    # Two of three err on text 0; the mean follows the very sure one on 2, 3.
    assert ensemble["metrics"]["accuracy"] == 5 / 8
    assert ensemble["validation"] == 1 / 4
    assert ensemble["majorities"]["accuracy"] == 5 / 8
    # Its own scores on resampled texts, not those of the first member.
    base = predictions.Predictions(str(tmp_path)).describe(members[0])
    assert ensemble["resampled"] != base["resampled"]
    assert ensemble["seconds"] == 90.0
    assert ensemble["trainable_parameters"] == 3000
    assert json.loads(json.dumps(ensemble)) == ensemble
    [study] = collect(members, [ensemble])
    frame = {t.name: t.frame for t in tables.list_tables(study)}["texts"]
    assert frame["gain, here"][3] == "-12.50"


def test_members_are_found_by_the_settings_that_runs_record(tmp_path):
    """Sizes of one head do not count, and stand in the ensemble's settings."""

    def put(settings):
        changed = stacking_data.settings_of(tmp_path, "text", **settings)
        [record] = write("text", settings, [80.0])
        record["key"] = {**changed.hashed(), "data_identity": "x"}
        return put_out(tmp_path, record)

    members = [put(DENSE), put(stacked("densenet")), put(stacked("highway"))]
    joined, _ = join(tmp_path, [*members, put(stacked("densenet", growth=8))])
    assert [record["key"]["growth"] for record in joined] == [64, 8]


@pytest.mark.parametrize(
    "name, value", [("lr", 1e-5), ("max_epochs", 7), ("batch_size", 8)]
)
def test_members_differ_in_nothing_else(tmp_path, name, value):
    base, densenet, highway = trio(tmp_path)
    *_, other = trio(tmp_path, **{name: value})
    assert join(tmp_path, [base, densenet, other]) == ([], [])
    joined, _ = join(tmp_path, [base, densenet, highway, other])
    assert len(joined) == 1


def test_cached_members_share_the_build_and_two_machines_no_timing(tmp_path):
    base, densenet, highway = trio(tmp_path)
    for record, paid in ((densenet, 8.0), (highway, 0.5)):
        record["key"] |= {"frozen_prefix": "cached", "cache_dtype": "float16"}
        record |= {"prefix_seconds": paid, "prefix_build_seconds": 8.0}
        record["cached"] = True
    base |= {"prefix_seconds": None, "prefix_build_seconds": None}
    base["timing_environment"] = {**base["timing_environment"], "threads": 7}
    [ensemble], _ = join(tmp_path, [base, densenet, highway])
    assert ensemble["cached"] and ensemble["prefix_build_seconds"] == 8.0
    assert ensemble["prefix_seconds"] == 8.5
    assert ensemble["timing_environment"]["mixed"]


def test_a_report_joins_ensembles_and_names_members_with_other_labels(tmp_path):
    members = trio(tmp_path)
    [other] = write("text", stacked("highway"), [80.0])
    put_out(tmp_path, other, labels=1 - TRUTH)
    runs = [{**run, "versions": {}, "commit": ""} for run in [*members, other]]
    made = summary.summarize(runs, [], str(tmp_path))
    [ensemble] = made["runs"][4:]
    assert ensemble["members"] == [member["path"] for member in members]
    [(path, reason)] = made["left_out"]
    assert path == other["path"] and "has other labels than" in reason
