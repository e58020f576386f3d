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
    overview,
    stacking_ensembles,
    tables,
    wording,
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
    adaptations = map(ADAPTATIONS.get, settings.str["adaptation"])
    phases = settings.map(_describe_phases)
    caches = settings.map(tables.describe_cache)
    runs = runs.assign(
        # Also of runs that were timed apart: those may be compared, too.
        seconds=study.runs.seconds,
        head=settings.map(_head),
        head_order=pd.Categorical(settings.str["head"], [*HEADS]),
        adaptation=pd.Categorical([*adaptations], [*ADAPTATIONS.values()]),
        rates=[*map(tables.join, phases.str.join(", then "), caches)],
        phase_one=phases.str[:-1].str.join(""),
        folder=runs.data.str.rstrip("/").str.rpartition("/")[2],
        examples=[sizes.get("train", 0) for sizes in runs.sizes],
        is_ensemble=["members" in record for record in runs.record],
        has_curve=[bool(record["curve"]) for record in runs.record],
    )
    most = runs.groupby([*TEXTS]).examples.transform("max")
    bases = {
        number: _find_base(group, runs)
        for number, group in runs.groupby("group")
    }
    return runs.assign(
        base=runs.group.map(bases),
        has_most=runs.examples == most,
    ).sort_values(
        [
            "task",
            "examples",
            "head_order",
            "adaptation",
            "head",
            "rates",
            "seed",
        ],
        ascending=[True, False, True, True, True, True, True],
    )


def _split(runs: pd.DataFrame) -> list[pd.DataFrame]:
    return [group for _, group in runs.groupby("group", sort=False)]


def _best_of(groups: list[pd.DataFrame]) -> pd.DataFrame:
    """The group that is best on validation, over the seeds that all have."""
    return groups[
        selection.best_on_validation(
            {n: [*zip(g.seed, g.validation)] for n, g in enumerate(groups)}
        )
    ]


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
    bases = _split(
        runs[
            (runs.task == first.task)
            & (runs.data_identity == first.data_identity)
            & (runs.examples == first.examples)
            & (runs.adaptation == "finetune-only")
        ]
    )
    epochs = first.settings["max_epochs"]
    usual = {**stacking_ensembles.USUAL, "max_epochs": epochs}
    for name, value in usual.items():
        similar = [
            b for b in bases if b.settings.iloc[0].get(name, value) == value
        ]
        bases = similar or bases
    return (_best_of(bases) if bases else group).group.iloc[0]


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
    varied = {*frames.VARIED, "max_epochs", *(paper.varied if paper else ())}
    wanted = part.runs.settings.map(
        lambda s: {n: s[n] for n in sorted(varied - {"lr"}) if n in s}
    )
    # Runs on the frozen encoder have the rate of the first phase.
    tried = part.runs[part.runs.adaptation != "stack-only"]
    for _, runs in tried.groupby(wanted.map(frames.dump), sort=False):
        rates = sorted({*runs.lr})
        chosen = _choose(part.runs, paper, wanted[runs.index[0]])
        if len(rates) > 1 and chosen:
            best, base = chosen
            tried_rates = {"tried": ", ".join(map("{:g}".format, rates))}
            yield tables.Line(part, best, base=base, values=tried_rates)


def _list_members(part: tables.Part) -> list[tables.Line]:
    """An ensemble's members of the same seeds, then it, by each method."""
    methods = tables.list_groups(part)
    by_path = part.study.labelled.set_index("path", drop=False)
    members = [
        by_path.loc[[*paths]]
        for paths in zip(*methods[0].runs.record.str["members"])
    ]
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


def _share(group: pd.DataFrame, base: pd.DataFrame) -> str:
    """Time in percent of that of a base."""
    cells = measures.Cells().measure(("seconds", "seconds"), (group, base))
    ours, theirs = (wording.mean(cell.values) for cell in cells)
    return wording.ranged(overview.Ranged(100 * ours / theirs), 0, unit=" %")


def _seconds_by_phase(line: tables.Line) -> dict[str, list[float]]:
    """Seconds of the phases that train so, of each run that has such."""
    records = line.runs.record[line.runs.timed]
    return {
        title: [
            sum(times)
            for record in records
            if (
                times := [
                    phase["seconds"]
                    for phase in record["phases"]
                    if phase["trainable_layers"] == layers
                ]
            )
        ]
        for layers, title in PHASES.items()
    }


# === Curves of figures ===


def kept_epoch(record: frames.Record, number: int) -> int:
    """The epoch whose weights a phase ended with, counted within it."""
    *before, phase = record["phases"][:number]
    is_last = number == len(record["phases"])
    chosen = phase.get("kept_epoch", phase["epochs"])  # by a rule, or none
    if (
        is_last
        and "kept_epoch" not in phase
        and record["key"]["select"] != "last"
    ):
        chosen = record["best_epoch"] - sum(p["epochs"] for p in before)
    return chosen


def _divide_phases(study: Study) -> Iterator[tables.Part]:
    """Of each data set a run that stacked first.

    It is the first run of the group with most runs; of several groups, of one
    with a big head, and of those of the one that is best on validation.
    """
    stacked = ADAPTATIONS["stack_and_finetune"]
    only = {"has_most": True, "has_curve": True, "adaptation": stacked}
    for part in tables.divide_runs(study, TEXTS, only):
        group = max(
            _split(part.runs),
            key=lambda group: (
                len(group),
                group.settings.iloc[0]["head"] != "dense",
                group.validation.mean(),
            ),
        )
        record = group.record.iloc[0]
        phases = [
            f"{PHASES[phase['trainable_layers']]}, {phase['lr']:g}"
            for phase in record["phases"]
        ]
        name = (
            f"{part.name}: {group['head'].iloc[0]}, seed {record['seed']}\n"
            + ", then ".join(phases)
        )
        curve = pd.DataFrame(record["curve"])
        words = {"bounds": curve.groupby("phase").size().cumsum()[:-1]}
        yield tables.Part(study, group, name, words)


def _list_phases(part: tables.Part) -> Iterator[tables.Line]:
    """Accuracies epoch by epoch, and the epochs that phases end with."""
    record = part.runs.record.iloc[0]
    for split, key in SPLITS.items():
        accuracies = (100 * epoch[key] for epoch in record["curve"])
        points = dict(enumerate(accuracies, 1))
        yield tables.Line(part, values={"split": split, "curve": points})
    begins = [0, *part.words["bounds"]]
    ends = [n + kept_epoch(record, i) for i, n in enumerate(begins, 1)]
    kept = {"split": "kept epoch", "curve": {n: points[n] for n in ends}}
    yield tables.Line(part, values={**kept, "style": RING})


MEASURES: dict[str, tables.Measure] = {
    "name_or_failure": lambda line: tables.join(
        line.runs["head"].iloc[0], tables.describe_failure(line.runs)
    ),
    "types": lambda line: {
        name.removeprefix("f1_"): measures.measure_runs(name, line.runs)
        for name in line.runs.metrics.iloc[0]
        if name.startswith("f1_")
    },
    "base_rate": lambda line: (
        line.base.lr.iloc[0] if tables.compare(line.runs, line.base) else ""
    ),
    "n_timed": lambda line: int(line.runs.timed.sum()),
    "base_share": lambda line: (
        ""
        if line.base.index.equals(line.runs.index)
        else _share(line.runs, line.base)
    ),
    "timed_prefix": lambda line: tables.MEASURES["prefix_seconds"](
        dataclasses.replace(line, runs=line.runs[line.runs.timed])
    ),
    "phases": _seconds_by_phase,
}
ROWS = {
    "groups": _list_groups,
    "groups_and_majority": lambda part: [
        *_list_groups(part),
        tables.describe_majority(part),
    ],
    "best_rates": _list_best_rates,
    "members": _list_members,
    "phases": _list_phases,
}
PARTS = {"phases": _divide_phases}
