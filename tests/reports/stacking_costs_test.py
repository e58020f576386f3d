"""What stacking costs and how it learns, on runs with known times."""

from tests.reports.composed import compose
from tests.reports.composed import figures
from tests.reports.composed import tables
from tests.reports.synthetic_stacking import BASE
from tests.reports.synthetic_stacking import write
from tf_transfer.reports import document
from tf_transfer.reports import reading
from tf_transfer.reports import stacking_costs
from tf_transfer.reports import stacking_runs
from tf_transfer.reports import studies


def test_time_is_reported_by_phase_and_with_the_whole_prefix(tmp_path):
    write(tmp_path, "ner", [60, 80], **BASE, max_epochs=2)
    write(tmp_path, "ner", [60, 81], seconds=6.0, max_epochs=2)
    write(
        tmp_path,
        "ner",
        [60, 79],
        seconds=5.0,
        prefix=(1.0, 4.0),
        frozen_prefix="cached",
        max_epochs=2,
    )
    parts = compose(tmp_path)
    rows = {
        row["rates and epochs"]: row for row in tables(parts)["costs_A_ner"]
    }
    live = rows["0.001 for 1, then 2e-05 for 2"]
    assert (live["time, s"], live["of finetune-only's"]) == ("12.0", "60.0 %")
    assert (live["head alone, s"], live["everything, s"]) == ("6.0", "6.0")
    cached = rows["0.001 for 1, then 2e-05 for 2, cached"]
    # Ten seconds as it ran; three of the build were paid by another run.
    assert (cached["time, s"], cached["prefix, s"]) == ("13.0", "4.0")
    assert rows["2e-05 for 2"]["head alone, s"] == ""
    text = document.to_markdown(parts)
    assert (
        "BiLSTM, stack-and-finetune (0.001 for 1, then 2e-05 for 2): 12.0 s, "
        "60.0 % of that time, so less, for +1.00 points; it scores as much "
        "after 12.0 s, 60.0 %."
    ) in text
    assert "for -1.00 points; after no epoch does it score as much." in text


def test_phases_and_kept_epochs_are_read_for_the_curves(ner, ner_report):
    found = reading.read_runs(str(ner))[0]
    record = next(r for r in found if "stack_and" in r["approach"])
    assert [(p["phase"], p["epoch"]) for p in record["curve"]] == [
        (1, 1),
        (1, 2),
        (1, 3),
        (2, 1),
        (2, 2),
    ]
    assert record["curve"][0].keys() == {
        "phase",
        "epoch",
        "accuracy",
        "f1",
        "train_accuracy",
        "train_f1",
    }
    assert [phase.get("kept_epoch") for phase in record["phases"]] == [2, None]
    assert [stacking_costs.kept_epoch(record, n) for n in (1, 2)] == [2, 2]
    assert figures(ner_report) == {"phases_A", "costs_A"}


def test_runs_that_were_never_stacked_have_no_phase_curves(tmp_path):
    write(tmp_path, "ner", [60, 70, 80], **BASE)
    parts = compose(tmp_path)
    assert not figures(parts)
    write(tmp_path, "ner", [60, 71, 82], head="bilstm", adaptation="joint")
    parts = compose(tmp_path)
    assert figures(parts) == {"costs_A"}  # a single cell has nothing beside it
    assert "cost less" not in document.to_markdown(parts)


def test_phase_curves_are_of_the_best_big_head(tmp_path):
    write(tmp_path, "pairs", [70, 85], head="dense", max_epochs=1)
    write(tmp_path, "pairs", [70, 60], head="bimpm", max_epochs=1)
    write(tmp_path, "pairs", [70, 80], head="bimpm", lr=1e-5, max_epochs=1)
    write(tmp_path, "pairs", [70, 75], head="sim_transformer", max_epochs=1)
    records = stacking_runs.prepare(reading.read_runs(str(tmp_path))[0])
    [study] = studies.sort_into_studies(records)
    [dataset] = study.datasets
    record = stacking_costs.representative(dataset.cells.values())
    assert (record["recipe"]["head"], record["recipe"]["lr"]) == ("bimpm", 1e-5)
