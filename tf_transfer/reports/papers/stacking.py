"""Tables and figures of "To Tune or Not To Tune?", from runs of `stacking`.

The contents of the paper's tables are not in our copy. The differences in its
text are its claims. So its rows are head and adaptation, with our scores alone.
"""

import dataclasses
from collections.abc import Iterator

import pandas as pd

from tf_transfer.reports import (
    choose,
    claims,
    frames,
    measures,
    stacking_ensembles,
    tables,
)
from tf_transfer.reports.study import Study
from tf_transfer.training.progress import SAMPLE
from tf_transfer.utils import selection

HEADS = {
    "dense": "two dense layers",
    "bilstm": "BiLSTM",
    "densenet": "DenseNet",
    "highway": "Highway LSTM",
    "highway_cells": "Highway LSTM from cell to cell",
    "bimpm": "BiMPM",
    "bimpm_without_context": "BiMPM without its first BiLSTM",
    "sim_transformer": "Sim-Transformer",
    stacking_ensembles.HEAD: "ensemble of three",
}
ADAPTATIONS = {
    "finetune_only": "finetune-only",
    "stack_only": "stack-only",
    "stack_and_finetune": "stack-and-finetune",
    "joint": "joint",
    "two_rates": "joint at two rates",
    **stacking_ensembles.METHODS,
}
METRICS = {  # of each task, and what the tables call them
    "ner": {"accuracy": "accuracy", "f1": "entity F1", "token_f1": "word F1"},
    "text": {"accuracy": "accuracy", "f1": "F1", "f1_macro": "macro F1"},
    "pairs": {"accuracy": "accuracy", "f1": "F1"},
}
PHASES = {"head": "head alone", "all": "everything"}
TEXTS = ("task", "data_identity")  # equal for runs on the same texts
STACKED = {"adaptation": "stack_and_finetune"}
BASE = {"head": "dense", "adaptation": "finetune_only"}
SHARED = ("max_epochs", "max_train_examples")  # by all that are compared
SPLITS = {"training sample": f"{SAMPLE}_accuracy", "validation": "accuracy"}
# How curves of figures look.
RING = {
    "marker": "o",
    "markersize": 12,
    "markerfacecolor": "none",
    "linestyle": "none",
}

ensembles = stacking_ensembles.join_predictions  # see `summary`


# === Words ===


def name_approach(approach: str, settings: claims.Settings) -> str:
    """The head and the adaptation, in words."""
    return f"{_head(settings)}, {ADAPTATIONS[settings['adaptation']]}"


def _head(settings: claims.Settings) -> str:
    """A head in words, with the settings that are not its defaults."""
    words = [HEADS.get(settings["head"], str(settings["head"]))]
    if settings["head"] == "dense":
        if settings.get("pooling") == "cls_state":
            words.append("[CLS] without the pooler")
        if settings.get("pairs") == "sbert":
            words.append("each text by itself")
    for name, usual in stacking_ensembles.USUAL_SIZES.items():
        if settings.get(name, usual) != usual:
            words.append(f"{name} {settings[name]}")
    return ", ".join(words)


def _describe_phases(settings: claims.Settings) -> list[str]:
    """Rate and epochs of each phase: `0.001 for 1` and `2e-05 for 3`."""
    phases = [f"{settings['lr']:g} for {settings['max_epochs']}"]
    if "phase_one_epochs" in settings:
        first = f"{settings['head_lr']:g} for {settings['phase_one_epochs']}"
        phases = [first, *phases]
    phases[0] += _gap(settings)
    return phases


def _describe_rates(settings: claims.Settings) -> str:
    """`0.001 for 1, then 2e-05 for 3, cached`."""
    phases = ", then ".join(_describe_phases(settings))
    return tables.join(phases, tables.describe_cache(settings))


def _gap(settings: claims.Settings) -> str:
    """The gap that ends a phase on the frozen encoder: ` (gap 0.01)`."""
    gap = settings.get("phase_one_gap", -1)
    return f" (gap {gap:g})" if gap >= 0 else ""


# === Groups ===


def label_runs(study: Study, runs: pd.DataFrame) -> pd.DataFrame:
    """Runs with columns of their own, by task, head, adaptation and rates.

    `has_most`: on the most examples of their texts; `base`: the number of the
    group that its group is compared with, see `_find_base`.
    """
    settings = runs.settings
    adaptations = settings.str["adaptation"].map(ADAPTATIONS)
    phases = settings.map(_describe_phases)
    runs = runs.assign(
        head=settings.map(_head),
        head_order=pd.Categorical(settings.str["head"], [*HEADS]),
        adaptation=pd.Categorical(adaptations, [*ADAPTATIONS.values()]),
        rates=settings.map(_describe_rates),
        phase_one=phases.str[:-1].str.join(""),
        folder=runs.data.str.rstrip("/").str.rpartition("/")[2],
        examples=runs.sizes.str.get("train").fillna(0).astype(int),
        is_ensemble=runs.record.map(lambda record: "members" in record),
        has_curve=runs.record.map(lambda record: bool(record["curve"])),
    )
    most = runs.groupby([*TEXTS]).examples.transform("max")
    bases = {}
    for number, group in runs.groupby("group"):
        bases[number] = _find_base(group, runs)
    runs = runs.assign(
        base=runs.group.map(bases), has_most=runs.examples == most
    )
    order = ["head_order", "adaptation", "head", "rates", "seed"]
    return runs.sort_values(
        ["task", "examples", *order],
        ascending=[True, False, *[True] * len(order)],
    )


def _split(runs: pd.DataFrame) -> list[pd.DataFrame]:
    return [group for _, group in runs.groupby("group", sort=False)]


def _best_of(groups: list[pd.DataFrame]) -> pd.DataFrame:
    """The group that is best on validation, over the seeds that all have."""
    validated = {}
    for number, group in enumerate(groups):
        validated[number] = [*zip(group.seed, group.validation)]
    return groups[selection.best_on_validation(validated)]


def _find_base(group: pd.DataFrame, runs: pd.DataFrame) -> int:
    """The number of the group of finetune-only that a group is compared with.

    It has as many examples and epochs, the usual sizes and pairs, as far as
    there is such a group; of several rates, the one that is best on validation.
    Without any, it is the group itself.

    Args:
        group: runs that differ by seed alone.
        runs: of the study.
    """
    first = group.iloc[0]
    is_alike = runs.adaptation == "finetune-only"
    for name in (*TEXTS, "examples"):
        is_alike &= runs[name] == first[name]
    bases = _split(runs[is_alike])
    epochs = first.settings["max_epochs"]
    usual = {**stacking_ensembles.USUAL, "max_epochs": epochs}
    for name, value in usual.items():
        similar = []
        for base in bases:
            if base.settings.iloc[0].get(name, value) == value:
                similar.append(base)
        bases = similar or bases
    best = _best_of(bases) if bases else group
    return int(best.group.iloc[0])


def _take_base(runs: pd.DataFrame, study: Study) -> pd.DataFrame:
    """The runs of the group that some runs are compared with."""
    return study.labelled[study.labelled.group == runs.base.iloc[0]]


def _choose(
    runs: pd.DataFrame, paper: claims.Paper | None, wanted: claims.Settings
) -> list[pd.DataFrame]:
    """Runs with some settings and finetune-only, as the groups of a claim.

    Both have the best of equally many rates; empty where that cannot be.

    Args:
        runs: of a task on the same data.
        paper: without it nothing says which settings may vary.
        wanted: of the first group.
    """
    base = {n: v for n, v in wanted.items() if n in SHARED} | BASE
    if paper is None:
        return []
    try:
        chosen = choose.choose_groups(
            choose.list_groups(runs), paper, [wanted, base]
        )
    except choose.NotFound:
        return []
    return [choose.take_rows(runs, groups) for groups in chosen]


# === Rows of tables ===


def _list_groups(part: tables.Part) -> Iterator[tables.Line]:
    """Each group with its base."""
    for line in tables.list_groups(part):
        base = _take_base(line.runs, part.study)
        hidden = {"against": ""} if tables.describe_failure(base) else {}
        yield dataclasses.replace(line, base=base, values=hidden)


def _list_best_rates(part: tables.Part) -> Iterator[tables.Line]:
    """Each head at its own best rate, where several were tried."""
    paper = part.study.paper
    varied = {*frames.VARIED, "max_epochs"} - {"lr"}
    if paper:
        varied.update(name for name in paper.varied if name != "lr")
    # Runs on the frozen encoder have the rate of the first phase.
    tried = part.runs[part.runs.adaptation != "stack-only"]
    wanted = []
    for settings in tried.settings:
        wanted.append({n: settings[n] for n in sorted(varied) if n in settings})
    tried = tried.assign(wanted=wanted)
    for _, runs in tried.groupby(tried.wanted.map(frames.dump), sort=False):
        rates = sorted({*runs.lr})
        chosen = _choose(part.runs, paper, runs.wanted.iloc[0])
        if len(rates) > 1 and chosen:
            best, base = chosen
            names = ", ".join(f"{rate:g}" for rate in rates)
            yield tables.Line(part, best, base=base, values={"tried": names})


def _list_members(part: tables.Part) -> list[tables.Line]:
    """An ensemble's members of the same seeds, then it, by each method."""
    methods = tables.list_groups(part)
    by_path = part.study.labelled.set_index("path", drop=False)
    members = []
    for paths in zip(*methods[0].runs.record.str["members"]):
        members.append(by_path.loc[[*paths]])
    best = max(members, key=lambda group: group.validation.mean())
    lines = []
    for group in members:
        unknown = {"against_best": ""}
        lines.append(tables.Line(part, group, None, members[0], unknown))
    for line in methods:
        against = {"against_best": tables.compare(line.runs, best)}
        lines.append(tables.Line(part, line.runs, None, members[0], against))
    return lines


# === Measures ===


def _name_or_failure(line: tables.Line) -> str:
    failure = tables.describe_failure(line.runs)
    return tables.join(line.runs["head"].iloc[0], failure)


def _measure_types(line: tables.Line) -> dict[str, list[float]]:
    """F1 of entities by type."""
    types = {}
    for name in line.runs.metrics.iloc[0]:
        if name.startswith("f1_"):
            scores = measures.measure_runs(name, line.runs)
            types[name.removeprefix("f1_")] = scores
    return types


def _show_base_rate(line: tables.Line) -> float | str:
    """The rate of the base, unless it is the group itself."""
    if tables.compare(line.runs, line.base):
        return float(line.base.lr.iloc[0])
    return ""


# === Curves of figures ===


def kept_epoch(record: frames.Record, number: int) -> int:
    """The epoch whose weights a phase ended with, counted within it."""
    *before, phase = record["phases"][:number]
    if "kept_epoch" in phase:  # chosen by a rule
        return int(phase["kept_epoch"])
    is_last = number == len(record["phases"])
    if is_last and record["key"]["select"] != "last":
        return int(record["best_epoch"] - sum(p["epochs"] for p in before))
    return int(phase["epochs"])


def _divide_phases(study: Study) -> Iterator[tables.Part]:
    """Of each data set a run that stacked first.

    It is the first run of the group with most runs; of several groups, of one
    with a big head, and of those of the one that is best on validation.
    """
    stacked = ADAPTATIONS["stack_and_finetune"]
    only = {"has_most": True, "has_curve": True, "adaptation": stacked}
    for part in tables.divide_runs(study, TEXTS, only):
        group = max(_split(part.runs), key=_rank_for_phases)
        record = group.record.iloc[0]
        phases = []
        for phase in record["phases"]:
            layers = PHASES[phase["trainable_layers"]]
            phases.append(f"{layers}, {phase['lr']:g}")
        head = group["head"].iloc[0]
        name = f"{part.name}: {head}, seed {record['seed']}\n"
        name += ", then ".join(phases)
        curve = pd.DataFrame(record["curve"])
        words = {"bounds": curve.groupby("phase").size().cumsum()[:-1]}
        yield tables.Part(study, group, name, words)


def _rank_for_phases(group: pd.DataFrame) -> tuple[int, bool, float]:
    """What the group that a figure shows has most of."""
    has_head = group.settings.iloc[0]["head"] != "dense"
    return len(group), has_head, group.validation.mean()


def _list_phases(part: tables.Part) -> Iterator[tables.Line]:
    """Accuracies epoch by epoch, and the epochs that phases end with."""
    record = part.runs.record.iloc[0]
    for split, key in SPLITS.items():
        points = {}
        for number, epoch in enumerate(record["curve"], 1):
            points[number] = 100 * epoch[key]
        yield tables.Line(part, values={"split": split, "curve": points})
    kept = {}
    for number, begin in enumerate([0, *part.words["bounds"]], 1):
        end = begin + kept_epoch(record, number)
        kept[end] = points[end]
    values = {"split": "kept epoch", "curve": kept, "style": RING}
    yield tables.Line(part, values=values)


def _list_groups_and_majority(part: tables.Part) -> Iterator[tables.Line]:
    """Each group with its base, then the majority baseline."""
    yield from _list_groups(part)
    yield tables.describe_majority(part)


MEASURES: dict[str, tables.Measure] = {
    "name_or_failure": _name_or_failure,
    "types": _measure_types,
    "base_rate": _show_base_rate,
}
ROWS = {
    "groups": _list_groups,
    "groups_and_majority": _list_groups_and_majority,
    "best_rates": _list_best_rates,
    "members": _list_members,
    "phases": _list_phases,
}
PARTS = {"phases": _divide_phases}
