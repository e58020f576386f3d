"""The paper's gains from stacking beside ours, on runs with known scores."""

from tests.reports.composed import compose
from tests.reports.composed import tables
from tests.reports.synthetic_stacking import BASE
from tests.reports.synthetic_stacking import signs
from tests.reports.synthetic_stacking import write
from tf_transfer.reports import document


def test_the_paper_s_gains_stand_beside_ours_with_a_verdict(ner_report):
    found = signs(ner_report, "ner")
    pair = "BiLSTM, stack-and-finetune against two dense layers, finetune-only"
    assert set(found) == {
        (pair, name) for name in ("accuracy", "entity F1", "token F1")
    }
    assert found[pair, "entity F1"] == {
        "comparison": pair,
        "metric": "entity F1",
        "paper": "+6.8",
        "ours": "+6.00 (+4.87 to +7.13)",
        "sign": "agrees",
    }
    assert found[pair, "accuracy"]["paper"] == "+0.99"


def test_the_claims_on_pairs_are_about_two_adaptations(tmp_path):
    write(tmp_path, "pairs", [80], seeds=3, step=1.0, **BASE)
    for head, alone, tuned in (
        ("bimpm", 75, 81),
        ("bimpm_without_context", 75.1, 81.2),
        ("sim_transformer", 71, 79),
    ):
        alike = {"head": head, "step": 0.1}
        write(
            tmp_path,
            "pairs",
            [alone],
            seeds=3,
            adaptation="stack_only",
            **alike,
        )
        write(tmp_path, "pairs", [70, tuned], seeds=2, **alike)
    rows = tables(compose(tmp_path))["signs_A_pairs"]
    assert [(row["paper"], row["sign"]) for row in rows] == [
        ("+4.7", "within noise"),  # 79 against 80, over three seeds of 1
        ("almost none", "agrees"),
        ("almost none", "agrees"),
        ("nearly -4", "agrees"),
        ("above", "differs"),
    ]
    assert rows[3]["ours"].startswith("-4.00")


def test_a_head_without_runs_is_not_run_and_one_seed_not_sure(tmp_path):
    write(tmp_path, "pairs", [80], **BASE)
    write(tmp_path, "pairs", [70, 82])
    rows = tables(compose(tmp_path))["signs_A_pairs"]
    assert [row["sign"] for row in rows] == [
        "agrees, too few seeds to be sure",
        *["not run"] * 4,
    ]


def test_an_encoder_that_was_tuned_on_the_pairs_gives_no_verdict(tmp_path):
    for task in ("pairs", "ner"):
        write(tmp_path, task, [80], model="minilm", **BASE)
        write(tmp_path, task, [70, 82], model="minilm")
    parts = compose(tmp_path)
    found = tables(parts)
    assert found["signs_A_pairs"][0]["sign"] == "no verdict"
    assert found["signs_A_ner"][0]["sign"].startswith("agrees")
    assert "no verdict on Quora's pairs" in document.to_markdown(parts)
