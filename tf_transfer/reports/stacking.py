"""Tables and figures of "To Tune or Not To Tune?", from runs of `stacking`.

The paper's tables are lost, only differences survive: these are its claims. So
its rows stand here as head and adaptation, ours alone.
"""

import dataclasses
import os
from collections.abc import Iterator
from typing import Any

import pandas as pd

from tf_transfer.reports import (
    choose,
    claims,
    frames,
    infer,
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
    **stacking_ensembles.METHODS,
}
METRICS = {  # of each task, and what the tables call them
    "ner": {"accuracy": "accuracy", "f1": "entity F1", "token_f1": "word F1"},
    "text": {"accuracy": "accuracy", "f1": "F1", "f1_macro": "macro F1"},
    "pairs": {"accuracy": "accuracy", "f1": "F1"},
}
PHASES = {"head": "head alone", "all": "everything"}
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
THIN = {"linewidth": 1, "alpha": 0.55, "marker": "."}
END = {"linestyle": "none", "markersize": 7}

ensembles = stacking_ensembles.join_predictions  # see `summary`


# === Words ===


def name_groups(runs: pd.DataFrame) -> pd.DataFrame:
    """Runs, with head and adaptation as approach."""
    return runs.assign(
        approach=[f"{_head(s)}, {_adaptation(s)}" for s in runs.settings]
    )


def _head(settings: claims.Settings) -> str:
    """A head in words, with what is not usual of it."""
    is_dense = settings["head"] == "dense"
    return tables.join(
        HEADS.get(settings["head"], str(settings["head"])),
        "[CLS] without the pooler"
        * (is_dense and settings.get("pooling") == "cls_state"),
        "each text by itself" * (is_dense and settings.get("pairs") == "sbert"),
        *(
            f"{name} {settings[name]}"
            for name, usual in stacking_ensembles.USUAL_SIZES.items()
            if settings.get(name, usual) != usual
        ),
    )


def _adaptation(settings: claims.Settings) -> str:
    return ADAPTATIONS[settings["adaptation"]]


def amount(settings: claims.Settings) -> str:
    """Rate and epochs of each phase: `0.001 for 1, then 2e-05 for 3`."""
    first = phase_one(settings)
    last = f"{settings['lr']:g} for {settings['max_epochs']}"
    last += _gap(settings) * (not first)
    return tables.join(
        ", then ".join(filter(None, [first, last])),
        tables.describe_cache(settings),
    )


def phase_one(settings: claims.Settings) -> str:
    """Rate and epochs of the first of two phases: `0.001 for 1`, or nothing."""
    if "phase_one_epochs" not in settings:
        return ""
    rate, epochs = settings["head_lr"], settings["phase_one_epochs"]
    return f"{rate:g} for {epochs}{_gap(settings)}"


def _gap(settings: claims.Settings) -> str:
    """By which gap a phase on the frozen encoder is left: ` (gap 0.01)`."""
    gap = settings.get("phase_one_gap", -1)
    return f" (gap {gap:g})" * (gap >= 0)


# === Groups ===


def _divide(study: Study) -> Iterator[tables.Part]:
    """Runs by task and data, by head, adaptation and rates."""
    settings = study.runs.settings
    runs = study.runs.assign(
        head=pd.Categorical(settings.str["head"], [*HEADS]),
        adaptation=pd.Categorical(settings.str["adaptation"], [*ADAPTATIONS]),
        rates=settings.map(amount),
        examples=[-sizes.get("train", 0) for sizes in study.runs.sizes],
        is_ensemble=["members" in record for record in study.runs.record],
    ).sort_values(["task", "examples", "head", "adaptation", "rates", "seed"])
    for task, of_task in runs.groupby("task"):
        for number, (_, members) in enumerate(
            of_task.groupby("data_identity", sort=False), 1
        ):
            first = members.iloc[0]
            yield tables.Part(
                study,
                members,
                f"{study.name}_{task}" + f"_{number}" * (number > 1),
                {
                    "task": task,
                    "data": os.path.basename(first.data.rstrip("/")),
                    "metric": METRICS[first.task].get(
                        first.metric, first.metric
                    ),
                    "metrics": {
                        name: title
                        for name, title in METRICS[first.task].items()
                        if all(name in metrics for metrics in members.metrics)
                    },
                    "types": {
                        name: name.removeprefix("f1_")
                        for name in first.metrics
                        if task == "ner" and name.startswith("f1_")
                    },
                },
            )


def _divide_ensembles(study: Study) -> Iterator[tables.Part]:
    """The ensembles of each data set, both methods of those trained alike."""
    for part in _divide(study):
        alone = part.runs[~part.runs.is_ensemble]
        alike = part.runs.drop(alone.index).groupby("rates")
        for number, (words, runs) in enumerate(alike, 1):
            yield tables.Part(
                study,
                pd.concat([alone, runs]),
                f"{part.name}_{number}",
                {**part.words, "amount": words},
            )


def _groups(runs: pd.DataFrame, **settings: Any) -> list[pd.DataFrame]:
    """The groups of some runs that have some settings."""
    return [
        group
        for _, group in runs.groupby("group", sort=False)
        if settings.items() <= group.settings.iloc[0].items()
    ]


def _with_most_examples(runs: pd.DataFrame) -> pd.DataFrame:
    return runs[runs.examples == runs.examples.min()]


def _best_of(groups: list[pd.DataFrame]) -> pd.DataFrame:
    """The group that is best on validation, over the seeds that all have."""
    return groups[
        selection.best_on_validation(
            {n: [*zip(g.seed, g.validation)] for n, g in enumerate(groups)}
        )
    ]


def _base_of(group: pd.DataFrame, runs: pd.DataFrame) -> pd.DataFrame:
    """Of the groups of finetune-only, the one to compare a group with.

    It has as many examples and epochs, is of the usual size and reads a text as
    usual, as far as there is such a one; of several rates it has the one that
    is best on validation. Without any it is the group itself.
    """
    bases = _groups(
        runs[runs.examples == group.examples.iloc[0]],
        adaptation="finetune_only",
    )
    epochs = group.settings.iloc[0]["max_epochs"]
    usual = {**stacking_ensembles.USUAL, "max_epochs": epochs}
    for name, value in usual.items():
        alike = [
            b for b in bases if b.settings.iloc[0].get(name, value) == value
        ]
        bases = alike or bases
    return _best_of(bases) if bases else group


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
    """Each group with its base, see `_base_of`."""
    for line in tables.list_groups(part):
        base = _base_of(line.runs, part.runs)
        hidden = {"against_base": ""} if tables.describe_failure(base) else {}
        yield dataclasses.replace(line, values={"base": base, **hidden})


def _list_best_rates(part: tables.Part) -> Iterator[tables.Line]:
    """Each head at its own best rate, where several were tried."""
    paper = part.study.paper
    varied = {*frames.VARIED, "max_epochs", *(paper.varied if paper else ())}
    wanted = part.runs.settings.map(
        lambda s: {n: s[n] for n in sorted(varied - {"lr"}) if n in s}
    )
    # Runs on the frozen encoder have the rate of the first phase.
    tried = part.runs[part.runs.adaptation != "stack_only"]
    for _, runs in tried.groupby(wanted.map(frames.dump), sort=False):
        rates = sorted({*runs.lr})
        chosen = _choose(part.runs, paper, wanted[runs.index[0]])
        if len(rates) > 1 and chosen:
            best, base = chosen
            yield tables.Line(
                part,
                best,
                values={
                    "rates": ", ".join(map("{:g}".format, rates)),
                    "base": base,
                },
            )


def _list_members(part: tables.Part) -> list[tables.Line]:
    """An ensemble's members of the same seeds, then it, by each method."""
    first, *_ = methods = _groups(part.runs[part.runs.is_ensemble])
    by_path = part.runs.set_index("path", drop=False)
    members = [
        by_path.loc[[*paths]] for paths in zip(*first.record.str["members"])
    ]
    best = max(members, key=lambda group: group.validation.mean())
    pairs = [(member, member) for member in members]
    pairs += [(method, best) for method in methods]
    return [
        tables.Line(part, group, values={"base": members[0], "best": other})
        for group, other in pairs
    ]


# === Measures ===


def _compare(group: pd.DataFrame, base: pd.DataFrame) -> str:
    """The difference to a base; nothing where this is the group itself."""
    is_same = group is base or group.index.equals(base.index)
    return "" if is_same else wording.difference(group.score, base.score)


def _share(group: pd.DataFrame, base: pd.DataFrame) -> str:
    """Time in percent of that of a base."""
    cells = measures.Cells().measure(("seconds", "seconds"), (group, base))
    ours, theirs = (wording.mean(cell.values) for cell in cells)
    return wording.ranged(overview.Ranged(100 * ours / theirs), 0, unit=" %")


def _seconds_to_base(line: tables.Line) -> str:
    """Seconds until runs reach their base's validation score at its end."""
    target = line.values["base"].validation.mean()
    records = line.runs.record[line.runs.timed]
    if pd.isna(target) or not any(record["epochs"] for record in records):
        return ""
    times = [measures.seconds_to_score(record, target) for record in records]
    count = len(wording.known(times))
    few = f" ({count} of {len(times)} runs)" * (0 < count < len(times))
    return (wording.spread(times, 1) or "never") + few


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
    for part in _divide(study):
        groups = [
            group
            for group in _groups(_with_most_examples(part.runs), **STACKED)
            if group.record.iloc[0]["curve"]
        ]
        groups.sort(
            key=lambda group: (
                len(group),
                group.settings.iloc[0]["head"] != "dense",
                group.validation.mean(),
            )
        )
        for group in groups[-1:]:
            run = group.sort_values("seed").iloc[0]
            phases = [
                f"{PHASES[phase['trainable_layers']]}, {phase['lr']:g}"
                for phase in run.record["phases"]
            ]
            epochs = pd.RangeIndex(1, len(run.record["curve"]) + 1)
            curve = pd.DataFrame(run.record["curve"], epochs)
            ends = curve.groupby("phase").size().cumsum()
            yield tables.Part(
                study,
                group,
                f"{run.task}: {_head(run.settings)}, seed {run.seed}\n"
                + ", then ".join(phases),
                {"run": run, "curve": curve, "bounds": ends[:-1]},
            )


def _list_phases(part: tables.Part) -> Iterator[tables.Line]:
    """Accuracies epoch by epoch, and the epochs that phases end with."""
    record, curve = part.words["run"].record, part.words["curve"]
    for split, key in SPLITS.items():
        points = (100 * curve[key]).to_dict()
        yield tables.Line(part, values={"split": split, "curve": points})
    begins = [0, *part.words["bounds"]]
    ends = [n + kept_epoch(record, i) for i, n in enumerate(begins, 1)]
    yield tables.Line(
        part,
        values={
            "split": "kept epoch",
            "curve": {n: points[n] for n in ends},
            "style": RING,
        },
    )


def _divide_lengths(study: Study) -> Iterator[tables.Part]:
    """Runs that differ in nothing but when the first phase ended."""
    own = {"phase_one_epochs", "phase_one_gap"}
    for part in _divide(study):
        stacked = part.runs[part.runs.settings.map(phase_one) != ""]
        rest = stacked.settings.map(
            lambda s: frames.dump({n: v for n, v in s.items() if n not in own})
        )
        for _, runs in stacked.groupby(rest, sort=False):
            if runs.settings.str["phase_one_epochs"].nunique() > 1:
                first, base = runs.settings.iloc[0], _base_of(runs, part.runs)
                examples = tables.count_examples(runs)
                few = examples != tables.count_examples(part.runs)
                title = tables.join(
                    f"{part.words['task']}: {_head(first)}",
                    f"{first['head_lr']:g} first",
                    f"then {first['lr']:g} for {first['max_epochs']}",
                    f"{examples:,} examples" * few,
                    tables.describe_cache(first),
                )
                level = {"finetune-only": base.score.mean()}
                words = {"levels": {} if base is runs else level}
                yield tables.Part(study, runs, title, {**part.words, **words})


def _list_lengths(part: tables.Part) -> list[tables.Line]:
    """Each group, by its epochs in the first phase.

    A line joins those with as many as were asked for, none those with a gap.
    """
    apart = {"style": {"linestyle": "none"}}
    lines = [
        dataclasses.replace(line, values=apart if _gap(line.settings) else {})
        for line in tables.list_groups(part)
    ]
    return sorted(lines, key=MEASURES["kept_epochs"])


def _list_best_groups(part: tables.Part) -> list[tables.Line]:
    """Each head and adaptation at the better rates, live and cached apart.

    Two lines of each: its epochs, and the end. A single one has nothing beside
    it, so it is left out.
    """
    runs = _with_most_examples(part.runs[part.runs.timed])
    own = runs[~runs.is_ensemble & runs.validation.notna()]
    lines = []
    for name, alike in own.groupby(["approach", "cached"], sort=False):
        group = _best_of(_groups(alike))
        epochs = frames.epochs_frame(group).groupby("epoch").mean(True)
        end = wording.deviation(group.seconds), wording.deviation(group.score)
        for curve, style in (
            (dict(zip(epochs.seconds, epochs.test)), THIN),
            (dict([end]), END),
        ):
            values = {
                "curve_name": f"{name}, {style}",
                "curve": curve,
                "style": style,
            }
            lines.append(tables.Line(part, group, values=values))
    return lines if len(lines) > 2 else []


MEASURES: dict[str, tables.Measure] = {
    "head": lambda line: _head(line.settings),
    "name_or_failure": lambda line: tables.join(
        _head(line.settings), tables.describe_failure(line.runs)
    ),
    "adaptation": lambda line: _adaptation(line.settings),
    "amount": lambda line: amount(line.settings),
    "phase_one": lambda line: phase_one(line.settings),
    "types": lambda line: {
        title: measures.measure_runs(name, line.runs)
        for name, title in line.part.words["types"].items()
    },
    "against_base": lambda line: _compare(line.runs, line.values["base"]),
    "against_best": lambda line: _compare(line.runs, line.values["best"]),
    "base_rate": lambda line: (
        line.values["base"].lr.iloc[0]
        if _compare(line.runs, line.values["base"])
        else ""
    ),
    "n_timed": lambda line: int(line.runs.timed.sum()),
    "share": lambda line: (
        ""
        if line.values["base"].index.equals(line.runs.index)
        else _share(line.runs, line.values["base"])
    ),
    "seconds_to_base": _seconds_to_base,
    "timed_prefix": lambda line: tables.MEASURES["prefix_seconds"](
        dataclasses.replace(line, runs=line.runs[line.runs.timed])
    ),
    "phases": _seconds_by_phase,
    "gap": lambda line: _gap(line.settings).strip(" ()") or "no gap",
    "kept_epochs": lambda line: wording.mean(
        kept_epoch(record, 1) for record in line.runs.record
    ),
}
ROWS = {
    "groups": _list_groups,
    "groups_and_majority": lambda part: [
        *_list_groups(part),
        tables.describe_majority(part),
    ],
    "best_rates": _list_best_rates,
    "entities": lambda part: (
        tables.list_groups(part) if part.words["types"] else []
    ),
    "members": _list_members,
    "phases": _list_phases,
    "lengths": _list_lengths,
    "best_groups": _list_best_groups,
}
PARTS = {
    "data": _divide,
    "ensembles": _divide_ensembles,
    "phases": _divide_phases,
    "lengths": _divide_lengths,
}


# === Sentences ===


def describe_study(study: Study, rows: object) -> list[str]:
    """What stacking a big head first gains and costs, a sentence a task.

    The head is the one that is best on validation. It and finetune-only have
    their own best of equally many rates.

    Args:
        study: see there.
        rows: of the overview, which are not looked at.
    """
    sentences = []
    for part in _divide(study):
        whole = _with_most_examples(part.runs)
        heads = {str(settings["head"]) for settings in whole.settings}
        pairs = [
            pair
            for head in sorted(heads - {"dense", stacking_ensembles.HEAD})
            if (pair := _choose(whole, study.paper, {"head": head, **STACKED}))
        ]
        if pairs:
            best = _best_of([first for first, _ in pairs])
            [base] = [second for first, second in pairs if first is best]
            sentences.append(
                f"On {part.words['task']}, {_describe_gain(best, base)}"
            )
    return sentences


def _describe_gain(best: pd.DataFrame, base: pd.DataFrame) -> str:
    name = best.approach.iloc[0]
    both = {name: best, "finetune-only": base}
    failed = [n for n, runs in both.items() if tables.describe_failure(runs)]
    if failed:
        are = "is" if len(failed) == 1 else "are"
        return (
            f"{' and '.join(failed)} {are} {infer.FAILED}, so nothing is "
            "compared."
        )
    share, n = _share(best, base), min(len(best), len(base))
    return (
        f"{name}, is {_compare(best, base)} points against finetune-only"
        + f", in {share} of its time" * bool(share)
        + f" ({wording.count(n, 'seed')})."
    )


def notes(study: Study) -> list[str]:
    """What to know of the times, of failed runs, and of the sample."""
    adaptations = {settings["adaptation"] for settings in study.runs.settings}
    notes = {
        "`joint` trains the large head and everything else from the first "
        "step. It is ours, unless the paper's finetune-only on entities has "
        "the BiLSTM, which its text leaves open.": "joint" in adaptations,
        "`sample` is a few examples to try the command with.": "sample"
        in {*study.runs.data},
    }
    return tables.explain_tables(study) + tables.select_notes(notes)
