"""The report on big heads first: its tables, on runs with known scores."""

from tests.reports.composed import compose
from tests.reports.composed import tables
from tests.reports.synthetic_stacking import BASE
from tests.reports.synthetic_stacking import signs
from tests.reports.synthetic_stacking import write
from tf_transfer.reports import document
from tf_transfer.reports import stacking as section
from tf_transfer.reports import stacking_runs
from tf_transfer.reports import studies
from tf_transfer.reports import summary as summary_lib

# === Tables 2 to 4 ===


def test_every_head_and_adaptation_is_a_row_with_its_rates(ner_report):
    rows = tables(ner_report)["scores_A_ner"]
    assert [
        (row["head"], row["adaptation"], row["rates and epochs"], row["n"])
        for row in rows
    ] == [
        ("two dense layers", "finetune-only", "2e-05 for 3", "3"),
        ("BiLSTM", "stack-only", "0.001 for 3", "1"),
        (
            "BiLSTM",
            "stack-and-finetune",
            "0.001 for 3 (gap 0.02), then 2e-05 for 3",
            "3",
        ),
        ("BiLSTM", "joint", "2e-05 for 3", "1"),
        ("the majority class", "", "", ""),
    ]
    assert [row["entity F1"] for row in rows] == [
        "80.50 ± 0.50",
        "55.00",
        "86.50 ± 0.50",
        "81.00",
        "0.00",
    ]
    assert rows[2]["token F1"] == "87.50 ± 0.50"
    assert rows[2]["precision"] == "84.50 ± 0.50"
    # Half a point of deviation on both sides, three seeds: t(4) 2.776 * 0.408.
    assert rows[2]["entity F1 against finetune-only"] == (
        "+6.00 (+4.87 to +7.13)"
    )
    assert rows[1]["entity F1 against finetune-only"] == "-25.50"
    assert rows[0]["entity F1 against finetune-only"] == ""


def test_of_entities_the_majority_is_o_for_every_word(ner_report):
    last = tables(ner_report)["scores_A_ner"][-1]
    assert (last["accuracy"], last["entity F1"], last["recall"]) == (
        "60.00",
        "0.00",
        "0.00",
    )


def test_of_texts_the_majority_is_the_commonest_class(tmp_path):
    write(tmp_path, "text", [60], **BASE)
    write(tmp_path, "pairs", [60], **BASE)
    found = tables(compose(tmp_path))
    last = found["scores_A_text"][-1]
    assert (last["accuracy"], last["F1"]) == ("75.00", "85.71")
    last = found["scores_A_pairs"][-1]
    assert (last["accuracy"], last["F1"]) == ("75.00", "0.00")


def test_rates_of_either_phase_are_rows_and_the_better_one_is_compared(
    tmp_path,
):
    write(tmp_path, "ner", [80], seeds=2, step=1.0, **BASE)
    write(tmp_path, "ner", [70], seeds=2, step=1.0, lr=1e-5, **BASE)
    write(tmp_path, "ner", [50, 81])
    write(tmp_path, "ner", [50, 84], head_lr=1e-2)
    parts = compose(tmp_path)
    rows = tables(parts)["scores_A_ner"]
    against = {
        row["rates and epochs"]: row["entity F1 against finetune-only"]
        for row in rows
    }
    assert against["0.01 for 1, then 2e-05 for 3"] == "+3.50"
    assert against["0.001 for 1, then 2e-05 for 3"] == "+0.50"
    assert against["1e-05 for 3"].startswith("-10.00")
    row = signs(parts, "ner")[
        "BiLSTM, stack-and-finetune against two dense layers, finetune-only",
        "entity F1",
    ]
    assert row["ours"] == "+3.50"


def test_other_settings_make_another_study_and_other_tasks_do_not(tmp_path):
    write(tmp_path, "ner", [80], **BASE)
    write(tmp_path, "text", [80], **BASE)
    write(tmp_path, "text", [50, 80], head="highway")
    write(tmp_path, "text", [50, 80], batch_size=8)
    write(tmp_path, "text", [50], adaptation="stack_only", phase_one_gap=0.1)
    write(tmp_path, "text", [50], adaptation="stack_only", max_epochs=8)
    found = tables(compose(tmp_path))
    assert {"scores_A_ner", "scores_A_text", "scores_B_text"} <= set(found)
    assert "scores_C_text" not in found and "scores_B_ner" not in found
    assert [row["n"] for row in found["scores_A_text"][:-1]] == ["1"] * 4


def test_each_head_s_best_adaptation_is_shown_by_type(ner_report):
    rows = tables(ner_report)["types_A_ner"]
    assert [(row["head, adaptation"], row["type"]) for row in rows] == [
        ("two dense layers, finetune-only", "PER"),
        ("two dense layers, finetune-only", "ORG"),
        ("BiLSTM, stack-and-finetune", "PER"),
        ("BiLSTM, stack-and-finetune", "ORG"),
    ]
    assert (rows[2]["precision"], rows[2]["recall"], rows[2]["F1"]) == (
        "84.50 ± 0.50",
        "88.50 ± 0.50",
        "86.50 ± 0.50",
    )


# === Footnotes ===


def test_the_footnotes_say_what_is_lost_and_what_is_ours(ner_report):
    text = document.to_markdown(ner_report)
    assert "Its tables 1 to 4 are lost" in text
    assert "such gains should not be expected" in text
    assert "docstring of tf_transfer/stacking.py" in text
    said = "Not as in the paper, ner: "
    assert f"{said}model is tiny, there bert_base_en." in text
    assert f"{said}number of examples is 20, there 20744." in text
    assert f"{said}dropout" not in text and f"{said}head_lr" not in text


def test_a_first_phase_at_another_rate_is_said(tmp_path):
    write(tmp_path, "ner", [60, 80], head_lr=0.003)
    text = document.to_markdown(compose(tmp_path))
    assert "head_lr is 0.003, there 0.001." in text


def test_a_report_without_the_paper_s_figures_shows_what_was_run(ner):
    made = summary_lib.summarize_folder(str(ner))
    records = section.prepare(made["runs"])
    [study] = studies.sort_into_studies(records)
    found = tables(section.sections(study, made, {}))
    assert set(found) == {"scores_A_ner", "costs_A_ner", "types_A_ner"}


def test_every_recipe_is_named_by_all_that_differs():
    recipe = {
        "head": "bilstm",
        "adaptation": "stack_and_finetune",
        "head_lr": 1e-3,
        "phase_one_epochs": 1,
        "phase_one_gap": -1.0,
        "lr": 2e-5,
        "epochs": 3,
    }
    others = {
        "head_lr": 1e-2,
        "phase_one_epochs": 2,
        "phase_one_gap": 0.01,
        "lr": 1e-5,
        "epochs": 4,
    }
    recipes = [recipe, *({**recipe, n: value} for n, value in others.items())]
    assert len(set(map(stacking_runs.amount, recipes))) == len(recipes)
