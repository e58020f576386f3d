"""The report on big heads first, on runs with known scores."""

import dataclasses
import os

import numpy as np
import pytest

from tests import commands
from tests.reports import synthetic
from tf_transfer import report
from tf_transfer import stacking
from tf_transfer.data import tasks
from tf_transfer.reports import document
from tf_transfer.reports import reading
from tf_transfer.reports import stacking as section
from tf_transfer.reports import stacking_costs
from tf_transfer.reports import stacking_runs
from tf_transfer.reports import studies
from tf_transfer.reports import summary as summary_lib

BASE = {"adaptation": "finetune_only"}
LABELS = {
    "ner": np.array([0, 0, 0, 1, 2]),  # O for three words of five
    "text": np.array([0, 1, 1, 1]), "pairs": np.array([0, 0, 0, 1]),
}  # fmt: skip
KINDS = ("PER", "ORG")


@dataclasses.dataclass(frozen=True)
class Stacking(stacking.StackingSettings):
    """Settings whose files need not be there."""

    @property
    def row(self):
        metric = stacking.METRIC[self.task]
        return tasks.Task(self.task, self.task, (), "", None, metric, "", ())


def metrics_of(task, score):
    """All that a task is measured by, from one score in points."""
    score /= 100
    if task != "ner":
        return {"accuracy": score, "f1": score - 0.1}
    found = {
        "accuracy": score + 0.05, "f1": score, "token_f1": score + 0.01,
        "precision": score - 0.02, "recall": score + 0.02,
    }  # fmt: skip
    for kind in KINDS:
        found |= {f"{n}_{kind}": found[n] for n in ("precision", "recall")}
        found[f"f1_{kind}"] = score
    return found


def lines_of(settings, scores, seconds):
    """A line an epoch of both phases; training is two points better."""
    first = settings.phase_one_epochs
    if settings.adaptation != "stack_and_finetune":
        first = 0
    lines = []
    for number, score in enumerate(scores, 1):
        own = metrics_of(settings.task, score)
        sample = metrics_of(settings.task, score + 2)
        lines.append(
            {
                "phase": 1 if number <= max(first, 0) or not first else 2,
                "phase_epoch": number if number <= first else number - first,
                "validation": {
                    **own, **{f"train_{n}": v for n, v in sample.items()},
                },
                "test": own, "elapsed_seconds": seconds * number,
                "peak_memory_bytes": 1000,
            }
        )  # fmt: skip
    return lines


def phases_of(settings, scores, seconds, kept):
    """What `result.json` says of the phases."""
    trains = {"stack_and_finetune": ["head", "all"], "stack_only": ["head"]}
    found = []
    for name in trains.get(settings.adaptation, ["all"]):
        epochs = len(scores)
        if settings.adaptation == "stack_and_finetune":
            first = settings.phase_one_epochs
            epochs = first if name == "head" else epochs - first
        found.append(
            {
                "trainable_layers": name, "epochs": epochs,
                "lr": settings.head_lr if name == "head" else settings.lr,
                "seconds": seconds * epochs, "stop_reason": "max_epochs",
                **({"kept_epoch": kept} if name == "head" and kept else {}),
            }
        )  # fmt: skip
    return found


def write(
    root, task, scores, seeds=1, step=0.0, seconds=10.0, kept=None,
    logits=None, labels=None, prefix=None, **changes,
):  # fmt: skip
    """Runs with these scores in points after each epoch.

    They go up by `step` a seed.

    Args:
        kept: the epoch that the first phase ends with; unset, its last.
        logits: function from a seed to what it put out for the test set.
    """
    labels = LABELS[task] if labels is None else labels
    changes = {"task": task, "model": "tiny", **changes}
    for seed in range(seeds):
        settings = Stacking(**changes, seed=seed).resolve()
        here = [score + seed * step for score in scores]
        lines = lines_of(settings, here, seconds)
        units = 9 if task == "ner" else 1
        if logits is None:
            put_out = np.ones((len(labels), units))
        else:
            put_out = logits(seed)
        synthetic.write(
            root, None, cls=Stacking, lines=lines, seconds=seconds, seed=seed,
            sizes={"train": 10, "validation": 4, "test": 6, "sample": 4},
            predictions=(labels, put_out), prefix=prefix,
            facts={
                "validation": lines[-1]["validation"],
                "test": lines[-1]["test"],
                "phases": phases_of(settings, here, seconds, kept),
                "train_seconds": seconds * len(here),
            },
            **changes,
        )  # fmt: skip


def compose(root):
    made = summary_lib.make(str(root))
    return report.compose(made, os.path.join(commands.ROOT, "experiments"))


def tables(parts):
    return {
        part.name: [dict(zip(part.columns, row)) for row in part.rows]
        for part in parts
        if isinstance(part, document.Table)
    }


def signs(root, name):
    """Dict from (comparison, metric) to the cells of its line."""
    return {
        (row["one against the other"], row["metric"]): row
        for row in tables(compose(root))[f"signs_A_{name}"]
    }


# === Tables 2 to 4 ===


@pytest.fixture
def ner(tmp_path):
    """Entities: every adaptation, the BiLSTM stacked first the best."""
    three = {"seeds": 3, "step": 0.5}
    write(tmp_path, "ner", [60, 70, 80], **three, **BASE)
    write(tmp_path, "ner", [50, 55], adaptation="stack_only")
    write(
        tmp_path, "ner", [55, 60, 58, 81, 86], **three, seconds=8.0, kept=2,
        phase_one_epochs=3, phase_one_gap=0.02, max_epochs=3,
    )  # fmt: skip
    write(tmp_path, "ner", [60, 70, 81], adaptation="joint")
    return tmp_path


def test_every_head_and_adaptation_is_a_row_with_its_rates(ner):
    rows = tables(compose(ner))["scores_A_ner"]
    assert [
        (row["head"], row["adaptation"], row["rates and epochs"], row["n"])
        for row in rows
    ] == [
        ("two dense layers", "finetune-only", "2e-05 for 3", "3"),
        ("BiLSTM", "stack-only", "0.001 for 3", "1"),
        (
            "BiLSTM", "stack-and-finetune",
            "0.001 for 3 (gap 0.02), then 2e-05 for 3", "3",
        ),
        ("BiLSTM", "joint", "2e-05 for 3", "1"),
        ("the majority class", "", "", ""),
    ]  # fmt: skip
    assert [row["entity F1"] for row in rows] == [
        "80.50 ± 0.50", "55.00", "86.50 ± 0.50", "81.00", "0.00",
    ]  # fmt: skip
    assert rows[2]["token F1"] == "87.50 ± 0.50"
    assert rows[2]["precision"] == "84.50 ± 0.50"
    # Half a point of deviation on both sides, three seeds: t(4) 2.776 * 0.408.
    assert rows[2]["entity F1 against finetune-only"] == (
        "+6.00 (+4.87 to +7.13)"
    )
    assert rows[1]["entity F1 against finetune-only"] == "-25.50"
    assert rows[0]["entity F1 against finetune-only"] == ""


def test_of_entities_the_majority_is_o_for_every_word(ner):
    last = tables(compose(ner))["scores_A_ner"][-1]
    assert (last["accuracy"], last["entity F1"], last["recall"]) == (
        "60.00", "0.00", "0.00",
    )  # fmt: skip


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
    rows = tables(compose(tmp_path))["scores_A_ner"]
    against = {
        row["rates and epochs"]: row["entity F1 against finetune-only"]
        for row in rows
    }
    assert against["0.01 for 1, then 2e-05 for 3"] == "+3.50"
    assert against["0.001 for 1, then 2e-05 for 3"] == "+0.50"
    assert against["1e-05 for 3"].startswith("-10.00")
    row = signs(tmp_path, "ner")[
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
    found = tables(compose(tmp_path))
    assert {"scores_A_ner", "scores_A_text", "scores_B_text"} <= set(found)
    assert "scores_C_text" not in found and "scores_B_ner" not in found
    assert [row["n"] for row in found["scores_A_text"][:-1]] == ["1", "1", "1"]


# === The paper's differences ===


def test_the_paper_s_gains_stand_beside_ours_with_a_verdict(ner):
    found = signs(ner, "ner")
    pair = "BiLSTM, stack-and-finetune against two dense layers, finetune-only"
    assert set(found) == {
        (pair, name) for name in ("accuracy", "entity F1", "token F1")
    }
    assert found[pair, "entity F1"] == {
        "one against the other": pair, "metric": "entity F1", "paper": "+6.8",
        "ours": "+6.00 (+4.87 to +7.13)", "sign": "agrees",
    }  # fmt: skip
    assert found[pair, "accuracy"]["paper"] == "+0.99"


def test_the_claims_on_pairs_are_about_two_adaptations(tmp_path):
    write(tmp_path, "pairs", [80], seeds=3, step=1.0, **BASE)
    for head, alone, tuned in (
        ("bimpm", 75, 81), ("bimpm_without_context", 75.1, 81.2),
        ("sim_transformer", 71, 79),
    ):  # fmt: skip
        alike = {"head": head, "step": 0.1}
        write(
            tmp_path, "pairs", [alone], seeds=3, adaptation="stack_only",
            **alike,
        )  # fmt: skip
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
        "agrees, too few seeds to be sure", *["not run"] * 4,
    ]  # fmt: skip


def test_an_encoder_that_was_tuned_on_the_pairs_gives_no_verdict(tmp_path):
    for task in ("pairs", "ner"):
        write(tmp_path, task, [80], model="minilm", **BASE)
        write(tmp_path, task, [70, 82], model="minilm")
    parts = compose(tmp_path)
    found = tables(parts)
    assert found["signs_A_pairs"][0]["sign"] == "no verdict"
    assert found["signs_A_ner"][0]["sign"].startswith("agrees")
    assert "no verdict on Quora's pairs" in document.markdown(parts, None)


# === What it costs ===


def test_time_is_told_by_phase_and_with_the_whole_prefix(tmp_path):
    write(tmp_path, "ner", [60, 80], **BASE, max_epochs=2)
    write(tmp_path, "ner", [60, 81], seconds=6.0, max_epochs=2)
    write(
        tmp_path, "ner", [60, 79], seconds=5.0, prefix=(1.0, 4.0),
        frozen_prefix="cached", max_epochs=2,
    )  # fmt: skip
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
    text = document.markdown(parts, None)
    assert (
        "BiLSTM, stack-and-finetune (0.001 for 1, then 2e-05 for 2): 12.0 s, "
        "60.0 % of that time, so less, for +1.00 points; it scores as much "
        "after 12.0 s, 60.0 %."
    ) in text
    assert "for -1.00 points; after no epoch does it score as much." in text


def test_phases_and_kept_epochs_are_read_for_the_curves(ner):
    found = reading.read(str(ner))[0]
    record = next(r for r in found if "stack_and" in r["approach"])
    assert [(p["phase"], p["epoch"]) for p in record["curve"]] == [
        (1, 1), (1, 2), (1, 3), (2, 1), (2, 2),
    ]  # fmt: skip
    assert record["curve"][0].keys() == {
        "phase", "epoch", "accuracy", "f1", "train_accuracy", "train_f1",
    }  # fmt: skip
    assert [phase.get("kept_epoch") for phase in record["phases"]] == [2, None]
    assert [stacking_costs._kept(record, n) for n in (1, 2)] == [2, 2]
    figures = {
        part.name for part in compose(ner) if isinstance(part, document.Figure)
    }
    assert figures == {"phases_A", "costs_A"}


def test_runs_that_were_never_stacked_have_no_phase_curves(tmp_path):
    write(tmp_path, "ner", [60, 70, 80], **BASE)
    parts = compose(tmp_path)
    names = {p.name for p in parts if isinstance(p, document.Figure)}
    assert names == {"costs_A"}
    assert "cost less" not in document.markdown(parts, None)


# === The ensemble ===

TRUTH = np.array([0, 1, 1, 0, 1, 0, 1, 1])


def trio(root, seeds=2, **changes):
    """The paper's three models; each errs on other texts, one is very sure."""

    def right_but(*wrong, sure=1.0):
        logits = np.where(TRUTH == 1, 1.0, -1.0)
        logits[list(wrong)] *= -sure
        return lambda seed: logits[:, None]

    same = {"seeds": seeds, "labels": TRUTH, **changes}
    write(root, "text", [75], logits=right_but(0, 1), **same, **BASE)
    stacked = {**same, "logits": right_but(2, 3, sure=9.0)}
    write(root, "text", [70, 75], head="densenet", **stacked)
    stacked["logits"] = right_but(0)
    write(root, "text", [70, 87.5], head="highway", **stacked)


def test_the_ensemble_stands_against_its_members(tmp_path):
    trio(tmp_path)
    rows = {
        row[""]: row for row in tables(compose(tmp_path))["ensemble_A_text_1"]
    }
    assert list(rows) == [
        "two dense layers, finetune-only", "DenseNet, stack-and-finetune",
        "Highway LSTM, stack-and-finetune", "mean of probabilities",
        "majority vote", "the majority class",
    ]  # fmt: skip
    # Two of three err on text 0; the mean follows the very sure one on 2, 3.
    vote, mean = rows["majority vote"], rows["mean of probabilities"]
    assert vote["accuracy"] == "87.50 ± 0.00" and vote["n"] == "2"
    assert mean["accuracy"] == "62.50 ± 0.00"
    assert vote["against finetune-only"] == "+12.50"
    assert vote["against the best member"] == "+0.00"
    assert rows["DenseNet, stack-and-finetune"]["time, s"] == "20.0 ± 0.0"
    assert vote["time, s"] == "50.0 ± 0.0"  # 10 + 20 + 20


def test_the_ensemble_is_in_the_summary_and_meets_the_paper_s_claim(tmp_path):
    trio(tmp_path, seeds=3)
    made = summary_lib.make(str(tmp_path))
    assert [one["seed"] for one in made["ensembles"]] == [0, 1, 2]
    row = signs(tmp_path, "text")[
        "ensemble, mean of probabilities against two dense layers, "
        "finetune-only",
        "accuracy",
    ]
    assert row["paper"] == "+0.72" and row["ours"].startswith("-12.50")


def test_an_ensemble_takes_members_of_the_same_seed_and_rates_only(tmp_path):
    trio(tmp_path, seeds=1)
    trio(tmp_path, seeds=2, lr=1e-5)
    write(
        tmp_path, "text", [70, 75], head="highway", labels=TRUTH, seeds=3,
        head_lr=1e-2,
    )  # fmt: skip
    made = summary_lib.make(str(tmp_path))
    assert len(made["ensembles"]) == 3
    found = tables(report.compose(made))
    assert found["ensemble_A_text_1"][3]["n"] == "2"
    assert found["ensemble_A_text_2"][3]["n"] == "1"


def test_runs_with_other_labels_are_in_no_ensemble_and_that_is_said(tmp_path):
    trio(tmp_path, seeds=1)
    [path] = {
        record["path"]
        for record in reading.read(str(tmp_path))[0]
        if record["key"]["head"] == "highway"
    }
    name = os.path.join(tmp_path, path, "predictions.npz")
    arrays = dict(np.load(name))
    np.savez(name, **{**arrays, "test_labels": 1 - TRUTH})
    made = summary_lib.make(str(tmp_path))
    assert made["ensembles"] == []
    [(left, reason)] = made["left_out"]
    assert left == path and "has other labels than" in reason


# === Types, footnotes ===


def test_each_head_s_best_adaptation_is_shown_by_type(ner):
    rows = tables(compose(ner))["types_A_ner"]
    assert [(row["head, adaptation"], row["type"]) for row in rows] == [
        ("two dense layers, finetune-only", "PER"),
        ("two dense layers, finetune-only", "ORG"),
        ("BiLSTM, stack-and-finetune", "PER"),
        ("BiLSTM, stack-and-finetune", "ORG"),
    ]
    assert (rows[2]["precision"], rows[2]["recall"], rows[2]["F1"]) == (
        "84.50 ± 0.50", "88.50 ± 0.50", "86.50 ± 0.50",
    )  # fmt: skip


def test_the_footnotes_say_what_is_lost_and_what_is_ours(ner):
    text = document.markdown(compose(ner), None)
    assert "Its tables 1 to 4 are lost" in text
    assert "such gains should not be expected" in text
    assert "docstring of tf_transfer/stacking.py" in text
    said = "Not as in the paper, ner: "
    assert f"{said}model is tiny, there bert_base_en." in text
    assert f"{said}number of examples is 20, there 20744." in text
    assert f"{said}dropout" not in text and f"{said}head_lr" not in text


def test_a_first_phase_at_another_rate_is_said(tmp_path):
    write(tmp_path, "ner", [60, 80], head_lr=0.003)
    text = document.markdown(compose(tmp_path), None)
    assert "head_lr is 0.003, there 0.001." in text


def test_a_report_without_the_paper_s_figures_shows_what_was_run(ner):
    made = summary_lib.make(str(ner))
    records = section.prepared(made["runs"])
    [study] = studies.sort_into_studies(records)
    found = tables(section.sections(study, made, {}))
    assert set(found) == {"scores_A_ner", "costs_A_ner", "types_A_ner"}


def test_every_way_is_named_by_all_that_tells_it_from_others():
    way = {
        "head": "bilstm", "adaptation": "stack_and_finetune", "head_lr": 1e-3,
        "phase_one_epochs": 1, "phase_one_gap": -1.0, "lr": 2e-5, "epochs": 3,
    }  # fmt: skip
    others = {
        "head_lr": 1e-2, "phase_one_epochs": 2, "phase_one_gap": 0.01,
        "lr": 1e-5, "epochs": 4,
    }  # fmt: skip
    ways = [way, *({**way, name: value} for name, value in others.items())]
    assert len({stacking_runs.amount(way) for way in ways}) == len(ways)
