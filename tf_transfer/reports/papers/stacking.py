"""Tables and figures of "To Tune or Not To Tune?", from runs of `stacking`.

The contents of the paper's tables are not in our copy. The differences in its
text are its claims. So its rows are head and adaptation, with our scores alone.
"""

from collections.abc import Iterator

import pandas as pd

from tf_transfer.reports import (
    claims,
    frames,
    groups as groups_lib,
    measures,
    stacking_ensembles,
    tables,
)
from tf_transfer.reports.study import Study
from tf_transfer.training.progress import SAMPLE

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
    stacking_ensembles.METHOD: "mean of probabilities",
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

    `has_most`: on the most examples of their texts.
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
    runs = runs.assign(has_most=runs.examples == most)
    order = ["head_order", "adaptation", "head", "rates", "seed"]
    return runs.sort_values(
        ["task", "examples", *order],
        ascending=[True, False, *[True] * len(order)],
    )


def _split(runs: pd.DataFrame) -> list[pd.DataFrame]:
    return [group for _, group in runs.groupby("group", sort=False)]


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
        chosen = groups_lib.find_groups(
            groups_lib.list_groups(runs), paper, [wanted, base]
        )
    except groups_lib.NotFound:
        return []
    return [group.runs for group in chosen]


# === Rows of tables ===


def _list_best_rates(part: tables.Part) -> Iterator[tables.Line]:
    """Each head at its own best rate, and finetune-only at its own."""
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
        chosen = _choose(part.runs, paper, runs.wanted.iloc[0])
        if chosen and not tables.describe_failure(chosen[1]):
            best, base = chosen
            rates = ", ".join(f"{rate:g}" for rate in sorted({*runs.lr}))
            yield tables.Line(part, best, base=base, values={"tried": rates})


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
    """Accuracies epoch by epoch."""
    record = part.runs.record.iloc[0]
    for split, key in SPLITS.items():
        points = {}
        for number, epoch in enumerate(record["curve"], 1):
            points[number] = 100 * epoch[key]
        yield tables.Line(part, values={"split": split, "curve": points})


MEASURES: dict[str, tables.Measure] = {
    "name_or_failure": _name_or_failure,
    "types": _measure_types,
    "base_rate": _show_base_rate,
}
ROWS = {
    "best_rates": _list_best_rates,
    "members": _list_members,
    "phases": _list_phases,
}
PARTS = {"phases": _divide_phases}
