"""The tables of stacking, its claims and its ensembles, on known scores."""

import os

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace

from tests.reports import made_up
from tests.support import commands, stacking_data
from tests.support.run_files import finished
from tf_transfer.comparison import predictions
from tf_transfer.comparison.run_record import RunRecord
from tf_transfer.reports import claims, study as study_lib, summary
from tf_transfer.stacking import tables
from tf_transfer.training import records as records_lib

TRUTH = np.array([0, 1, 1, 0, 1, 0, 1, 1])
FOLDER = os.path.join(commands.ROOT, "experiments")
PAPER = claims.read_paper(claims.find_file(FOLDER, "stacking"))
DENSE = {"head": "dense", "adaptation": "finetune_only"}
# Settings of a first phase, by what lacks them.
UNREAD = {
    "finetune_only": ("head_lr", "phase_one_gap", "phase_one_epochs"),
    "joint": ("head_lr", "phase_one_gap", "phase_one_epochs"),
    "stack_only": ("phase_one_epochs",),
}


def stacked(head, **changes):
    return {"head": head, "adaptation": "stack_and_finetune", **changes}


def write(task, settings, scores, **changes):
    """A record for each score; other metrics are 5 and 1 points above F1."""
    settings = {"model": PAPER.encoder_of[task], "lr": 2e-5, **settings}
    records = made_up.make_runs(
        PAPER, task, settings, scores, seconds=10.0, experiment="stacking"
    )
    written = []
    for record, score in zip(records, scores):
        metrics = {"accuracy": score / 100, "f1": score / 100 - 0.1}
        if task == "ner":
            record = replace(record, metric="f1")
            more = {"accuracy": 0.05, "f1": 0.0, "token_f1": 0.01}
            metrics = {n: score / 100 + points for n, points in more.items()}
        for name in UNREAD.get(settings["adaptation"], ()):
            record.key.pop(name)
        if size := record.key["max_train_examples"]:
            record.sizes["train"] = size
        facts = {"majorities": {record.metric: 0.1}, **changes}
        written.append(replace(record, metrics=metrics, **facts))
    return written


def collect(*groups):
    records = [record for group in groups for record in group]
    return study_lib.collect({"runs": records}, FOLDER)


def judged(study):
    return {verdict.claim.id: verdict for verdict in study.verdicts}


def tables_of(study):
    return {made.name: made.frame for made in tables.list_tables(study)}


def test_rows_have_scores_and_published_and_own_gains_side_by_side():
    [study] = collect(
        write("ner", DENSE, [80.0, 80.5, 81.0]),
        write("ner", {"head": "bilstm", "adaptation": "joint"}, [81.0]),
        write("ner", stacked("bilstm"), [86.0, 86.5, 87.0]),
        write("ner", stacked("bilstm", max_train_examples=300), [30.0]),
    )
    made = tables_of(study)
    assert [*made] == ["table_1", "table_2"]
    assert [*made["table_1"]["runs here"]] == ["", 3, 1 + 3]
    rows = made["table_2"]
    tuned, first = "finetune-only", "stack-and-finetune"
    score = "86.50 ± 0.50"
    assert rows[rows.measure == "entity F1"].to_numpy().tolist() == [
        [*("entity F1", f"BERT, {tuned}", "3", "80.50 ± 0.50"), "", "", ""],
        [
            *("entity F1", f"BERT, {first}", "", ""),
            *(f"BERT, {tuned}", "+6.8", ""),
        ],
        [*("entity F1", f"BERT + Bi-LSTM, {tuned}", "1", "81.00"), "", "", ""],
        [
            *("entity F1", f"BERT + Bi-LSTM, {first}", "3", score),
            *(f"BERT, {tuned}", "+6.8", "+6.00"),
        ],
        [
            *("entity F1", f"BERT + Bi-LSTM, {first}", "3", score),
            *(f"BERT + Bi-LSTM, {tuned}", "+6.8", "+5.50"),
        ],
    ]
    assert rows[rows.measure == "word F1"].here.iloc[0] == "81.50 ± 0.50"
    assert rows["gain, published"][1] == "+0.99"


def test_a_gain_over_a_model_that_did_not_train_is_marked():
    dense = {**DENSE, "pairs": "sbert"}
    [study] = collect(
        write("pairs", dense, [66.0] * 3, majorities={"accuracy": 0.684}),
        write("pairs", stacked("sim_transformer"), [80.0, 81.0, 82.0]),
    )
    [table] = [t for t in tables.list_tables(study) if t.name == "table_4"]
    gains = table.frame.set_index("gain over")["gain, here"]
    assert gains["BERT, each question by itself, finetune-only"] == "†"
    assert table.note.startswith("†: a model, or")


def test_a_gain_is_of_models_whose_heads_have_one_rate():
    alone = {"adaptation": "stack_only", "phase_one_gap": -1.0}
    [study] = collect(
        write("pairs", {"head": "bimpm", "lr": 1e-3, **alone}, [79.0]),
        write("pairs", {"head": "bimpm", "lr": 3e-4, **alone}, [78.0]),
        write(
            "pairs", {"head": "sim_transformer", "lr": 3e-4, **alone}, [80.0]
        ),
    )
    frame = tables_of(study)["table_4"]
    gains = frame.set_index("gain over")["gain, here"]
    base = "BERT + BIMPM, stack-only"
    assert gains[f"{base}, both at 3e-4"] == "+2.00"


def test_gains_that_the_text_gives_in_words_are_next_to_ours():
    alone = {"adaptation": "stack_only", "lr": 1e-3, "phase_one_gap": -1.0}
    [study] = collect(
        write("pairs", {"head": "bimpm", **alone}, [75.0]),
        write("pairs", {"head": "sim_transformer", **alone}, [71.0]),
    )
    row = tables_of(study)["table_4"].iloc[6]
    assert row["model and strategy"] == "BERT + Sim-Transformer, stack-only"
    assert row["gain, published"] == "nearly four lower"
    assert row["gain, here"] == "-4.00"


def test_minilm_has_seen_quora_s_pairs_but_not_microsoft_s():
    for data, has_seen in (("QQP", True), ("MRPC", False)):
        records = []
        for settings in (DENSE, stacked("sim_transformer")):
            made = write("pairs", {**settings, "model": "minilm"}, [80.0, 80.1])
            records += made
        for record in records:
            record.key["data_identity"] = f"{data} sha256:0"
        [study] = collect(records)
        reason = judged(study)["pairs_gain"].reason
        assert ("minilm has seen pairs before" in reason) == has_seen


# === The ensemble ===


def put_out(root, record, *wrong, sure=1.0, labels=TRUTH):
    """Writes predictions that err on some texts; validation has the first."""
    logits = np.where(TRUTH == 1, 1.0, -1.0)
    logits[list(wrong)] *= -sure
    record = replace(
        record, path=f"{record.key['head']}_{len(os.listdir(root))}"
    )
    folder = os.path.join(root, record.path)
    os.makedirs(folder)
    arrays = {}
    for split, count in (("test", 8), ("validation", 4)):
        arrays[f"{split}_ids"] = np.arange(count)
        arrays[f"{split}_labels"] = labels[:count]
        arrays[f"{split}_logits"] = logits[:count, None]
    np.savez(os.path.join(folder, "predictions.npz"), **arrays)
    records_lib.RunDirectory(folder, record.key).write_result(finished())
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
    assert ensemble.metrics["accuracy"] == 5 / 8
    assert ensemble.validation == 1 / 4
    assert ensemble.majorities["accuracy"] == 5 / 8
    # Its own scores on resampled texts, not those of the first member.
    base = predictions.Predictions(str(tmp_path)).describe_record(members[0])
    assert ensemble.resampled != base.resampled
    assert ensemble.seconds == 90.0
    assert ensemble.trainable_parameters == 3000
    assert msgspec.convert(msgspec.to_builtins(ensemble), RunRecord) == ensemble
    [study] = collect(members, [ensemble])
    frame = tables_of(study)["texts"]
    assert frame["gain, here"][3] == "†"  # it scores as the majority


def test_members_are_found_by_the_settings_that_runs_record(tmp_path):
    """Sizes of one head do not count, and stand in the ensemble's settings."""

    def put(settings):
        changed = stacking_data.settings_of(tmp_path, "text", **settings)
        [record] = write("text", settings, [80.0])
        key = {**changed.hashed(), "data_identity": "x"}
        return put_out(tmp_path, replace(record, key=key))

    members = [put(DENSE), put(stacked("densenet")), put(stacked("highway"))]
    joined, _ = join(tmp_path, [*members, put(stacked("densenet", growth=8))])
    assert [record.key["growth"] for record in joined] == [64, 8]


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
    cached = {"frozen_prefix": "cached", "cache_dtype": "float16"}
    members = [
        replace(
            record,
            key={**record.key, **cached},
            prefix_seconds=paid,
            prefix_build_seconds=8.0,
            cached=True,
        )
        for record, paid in ((densenet, 8.0), (highway, 0.5))
    ]
    elsewhere = replace(base.timing_environment, threads=7)
    base = replace(
        base,
        prefix_seconds=None,
        prefix_build_seconds=None,
        timing_environment=elsewhere,
    )
    [ensemble], _ = join(tmp_path, [base, *members])
    assert ensemble.cached and ensemble.prefix_build_seconds == 8.0
    assert ensemble.prefix_seconds == 8.5
    assert ensemble.timing_environment.mixed


def test_a_report_joins_ensembles_and_names_members_with_other_labels(tmp_path):
    members = trio(tmp_path)
    [other] = write("text", stacked("highway"), [80.0])
    other = put_out(tmp_path, other, labels=1 - TRUTH)
    made = summary.summarize([*members, other], [], str(tmp_path))
    [ensemble] = made["runs"][4:]
    assert ensemble.members == [member.path for member in members]
    [(path, reason)] = made["left_out"]
    assert path == other.path and "has other labels than" in reason
