"""The tables of stacking, and what its claims are about, on known scores."""

import pytest

from tests.reports.made_up_stacking import (
    collect,
    DENSE,
    judged,
    stacked,
    write,
)
from tf_transfer.stacking import tables


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
    assert [*made["table_1"].runs] == [0, 3, 1 + 3]
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


def test_gains_that_the_text_gives_in_words_stand_beside_ours():
    alone = {"adaptation": "stack_only", "lr": 1e-3, "phase_one_gap": -1.0}
    [study] = collect(
        write("pairs", {"head": "bimpm", **alone}, [75.0]),
        write("pairs", {"head": "sim_transformer", **alone}, [71.0]),
    )
    row = tables_of(study)["table_4"].iloc[6]
    assert row["model and strategy"] == "BERT + Sim-Transformer, stack-only"
    assert row["gain, published"] == "nearly four lower"
    assert row["gain, here"] == "-4.00"


def test_each_row_has_the_rate_that_is_best_on_validation():
    [study] = collect(
        *(
            write("ner", {**DENSE, "lr": rate}, [score] * 3)
            for rate, score in ((2e-5, 80.0), (5e-5, 84.0))
        ),
        *(
            write("ner", stacked("bilstm", lr=rate), [score] * 3)
            for rate, score in ((2e-5, 86.0), (5e-5, 82.0))
        ),
    )
    assert tables_of(study)["table_2"]["gain, here"][3] == "+2.00"
    assert judged(study)["entities_f1"].value == pytest.approx(2.0)


def test_minilm_has_seen_quora_s_pairs_but_not_microsoft_s():
    for data, has_seen in (("QQP", True), ("MRPC", False)):
        records = []
        for settings in (DENSE, stacked("sim_transformer")):
            made = write("pairs", {**settings, "model": "minilm"}, [80.0, 80.1])
            records += made
        for record in records:
            record["key"]["data_identity"] = f"{data} sha256:0"
        [study] = collect(records)
        reason = judged(study)["pairs_gain"].reason
        assert ("minilm has seen pairs before" in reason) == has_seen
