"""Tables of "Finetune minBERT", from runs of `multitask`.

The runs at exactly the settings of a published row fill it, on the paper's
encoder and data; a table without such runs is not shown. All runs have a table
of their own. Runs that train their tasks in turn also show what a pass over one
task does to the scores of the others; see `measures.mean_change`.
"""

import dataclasses
from collections.abc import Iterator
from typing import Any

import pandas as pd

from tf_transfer.reports import claims, frames, measures, tables, wording
from tf_transfer.reports.study import Study

METRICS = {
    "cs224n": {
        "overall": "overall",
        "sentiment_accuracy": "SST",
        "paraphrase_accuracy": "Quora",
        "similarity_pearson": "STS r",
    }
}
TRAINS = {
    "head": "output layers",
    "all": "everything",
    "head_then_all": "output layers, then everything",
}
READS = {
    "cls": "[CLS]",
    "cls_state": "[CLS] without the pooler",
    "mean": "mean",
    "cls_for_sentiment": "[CLS] for sentiment",
    "cls_state_for_sentiment": "[CLS] without the pooler for sentiment",
}
COMBINES = {
    "in_turn": "in turn",
    "sum": "sum of losses",
    "pcgrad": "PCGrad",
    "sampled": "sampled",
}
TEXTS = ("task", "data_identity")
ORDER = "paraphrase,similarity,sentiment"
# Recipes that differ only in how the tasks are combined share a table.
COMBINATION = (
    "combine",
    "head_combine",
    "idle_heads",
    "loss_weights",
    "order",
    "alpha",
    "last_alpha",
)
USUAL = {
    "combine": "in_turn",
    "head_combine": "in_turn",
    "loss_weights": "",
    "order": ORDER,
}
TASKS = {
    "sentiment": "sentiment_accuracy",
    "paraphrase": "paraphrase_accuracy",
    "similarity": "similarity_pearson",
}
LABELS = dict(zip(TASKS, ("SST accuracy", "Quora accuracy", "STS r")))


# === Words for a recipe ===


def name_approach(approach: str, settings: claims.Settings) -> str:
    """What trains, and how, but no rate: `everything; mean; decay 0.95`."""
    words = [
        TRAINS.get(settings["train"], str(settings["train"])),
        READS.get(settings["pooling"], str(settings["pooling"])),
    ]
    if settings["pairs"] != "sbert":
        words.append(f"pairs {settings['pairs']}")
    if settings["targets"] != "exact":
        words.append("targets truncated")
    if settings["short_batches"] != "mean":
        words.append(f"short batches {settings['short_batches']}")
    if settings["layer_decay"] != 1:
        words.append(f"decay {settings['layer_decay']:g}")
    in_turn = settings["combine"] == "in_turn"
    if settings["loss_weights"] or not in_turn:
        words.append(_combination(settings))
    if in_turn and settings["idle_heads"] == "still":
        words.append("idle heads still")
    return "; ".join(words)


def recipe(settings: claims.Settings) -> str:
    """All that identifies a group: `everything; mean; lr 1e-05; ...`."""
    return tables.join(
        name_approach("", settings),
        _amount(settings),
        tables.describe_cache(settings),
        mark="; ",
    )


def _combination(settings: claims.Settings) -> str:
    """How the tasks' losses are combined."""
    combine, before = (
        COMBINES.get(settings[name], str(settings[name]))
        for name in ("combine", "head_combine")
    )
    text = combine
    first, last = settings.get("alpha"), settings.get("last_alpha")
    if first is not None:
        text += f" by size^{claims.plain(first)}"
        if last != first:
            text += f" to size^{claims.plain(last)}"
    if settings["loss_weights"]:
        text += f", weights {settings['loss_weights']}"
    has_two = settings["train"] == "head_then_all"
    if has_two and settings["head_combine"] != "in_turn":
        if before == combine:
            text += " in both phases"
        else:
            text += f", output layers {before}"
    return text


def _order(settings: claims.Settings) -> str:
    """The order of the tasks, where it is not the usual one."""
    if settings["order"] == ORDER:
        return ""
    return f"order {settings['order'].replace(',', ', ')}"


def _amount(settings: claims.Settings) -> str:
    """At what rate and for how long: `lr 1e-05 after 0.001; 20 epochs`."""
    epochs = settings["max_epochs"]
    rate, count = f"lr {settings['lr']:g}", wording.count(epochs, "epoch")
    if settings["train"] == "head_then_all":
        before = settings.get("head_epochs")
        rate += f" after {claims.plain(settings.get('head_lr'))}"
        if before != epochs:
            count += f" after {before}"
    return tables.join(rate, count, _order(settings), mark="; ")


# === Rows of tables ===


def label_runs(study: Study, runs: pd.DataFrame) -> pd.DataFrame:
    """Runs with columns of their own, those of the best group first.

    `rest`: equal for runs that differ in how the tasks are combined alone;
    `has_combinations`: such runs with several combinations.
    """
    settings = runs.settings
    runs = runs.assign(
        recipe=settings.map(recipe),
        shared_recipe=settings.map(lambda s: recipe({**s, **USUAL})),
        rates=settings.map(_amount),
        combination=settings.map(_combination_and_order),
        rest=settings.map(_rest),
        mean=-runs.groupby("group").score.transform("mean"),
    )
    several = runs.groupby(["data_identity", "rest"]).group.transform("nunique")
    return runs.assign(has_combinations=several > 1).sort_values(
        ["mean", "group", "seed"], kind="stable"
    )


def _combination_and_order(settings: claims.Settings) -> str:
    return tables.join(_combination(settings), _order(settings))


def _rest(settings: claims.Settings) -> str:
    """All settings but how the tasks are combined, as a text."""
    rest = {n: v for n, v in settings.items() if n not in COMBINATION}
    return frames.dump(rest)


def _list_published(part: tables.Part) -> Iterator[tables.Line]:
    """The rows of a published table with our scores, if any was run."""
    for _, runs in part.runs.groupby("data_identity", sort=False):
        known = []
        for row in part.words["rows"]:
            ours = tables.find_published(
                runs, part.study.paper, row["settings"]
            )
            known.append((row, ours))
        if not any(len(ours) for _, ours in known):
            continue
        for row, ours in known:
            if "reading" in row and not len(ours):
                continue  # another reading of a row is shown where it was run
            figures: dict[str, Any] = {}
            titles = METRICS["cs224n"].items()
            for (metric, title), theirs in zip(titles, row["figures"]):
                figures[title] = measures.measure_runs(metric, ours)
                figures[f"{title}, paper"] = f"{100 * theirs:.1f}"
            values = {"name": row["name"], "runs": len(ours) or ""}
            values["figures"] = figures
            yield tables.Line(part, values=values)


def _list_combinations(part: tables.Part) -> list[tables.Line]:
    """Recipes in the order of `COMBINES`, each compared with the first."""
    lines = sorted(tables.list_groups(part), key=_rank_combination)
    base = lines[0].runs
    return [dataclasses.replace(line, base=base) for line in lines]


def _rank_combination(line: tables.Line) -> tuple[int, bool, str]:
    combine = line.settings["combine"]
    names = [*COMBINES, combine]
    has_other_order = line.settings["order"] != ORDER
    return names.index(combine), has_other_order, line.settings["loss_weights"]


def _measure_changes(
    group: pd.DataFrame, trained: str
) -> dict[str, list[float]]:
    """Mean changes of each task's score in passes over one, for each run."""
    changes = {}
    for task, metric in TASKS.items():
        measure = f"{measures.PASS}{trained}:{metric}"
        known = wording.known(measures.measure_runs(measure, group))
        changes[LABELS[task]] = known
    return changes


def _list_passes(part: tables.Part) -> list[tables.Line]:
    """A line for each group and each of the paper's tasks passed over."""
    lines = []
    for line in tables.list_groups(part):
        for trained in TASKS:
            changes = _measure_changes(line.runs, trained)
            if changes[LABELS[trained]]:
                values = {"pass": trained, "changes": changes}
                lines.append(dataclasses.replace(line, values=values))
    return lines


def _time_last_phase(line: tables.Line) -> list[float]:
    """Seconds of an epoch of the last, expensive phase."""
    phases = line.runs.record[line.runs.timed].str["phases"]
    return [p[-1]["seconds"] / p[-1]["epochs"] for p in phases if p]


def _name_or_failure(line: tables.Line) -> str:
    return tables.join(
        line.runs.approach.iloc[0],
        tables.describe_cache(line.settings),
        tables.describe_failure(line.runs),
        mark="; ",
    )


MEASURES: dict[str, tables.Measure] = {
    "name_or_failure": _name_or_failure,
    "last_phase": _time_last_phase,
}
ROWS = {
    "published": _list_published,
    "combinations": _list_combinations,
    "passes": _list_passes,
}
