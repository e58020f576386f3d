"""Tables and figures of "To Tune or Not To Tune?", from runs of `stacking`.

The paper's tables are lost, only differences survive: these are its claims. So
its rows stand here as head and adaptation, ours alone.
"""

import dataclasses
import os
from collections.abc import Iterator
from typing import Any

import pandas as pd

from tf_transfer.reports import claims
from tf_transfer.reports import frames
from tf_transfer.reports import measures
from tf_transfer.reports import sides
from tf_transfer.reports import stacking_ensembles
from tf_transfer.reports import tables
from tf_transfer.reports import verdicts
from tf_transfer.reports import wording
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

Settings = claims.Group

ensembles = stacking_ensembles.join_predictions  # see `summary`


# === Words ===


def name_groups(runs: pd.DataFrame) -> pd.DataFrame:
    """Runs, with head and adaptation as approach."""
    return runs.assign(approach=runs.settings.map(_head_and_adaptation))


def _head_and_adaptation(settings: Settings) -> str:
    return f"{_head(settings)}, {_adaptation(settings)}"


def _head(settings: Settings) -> str:
    """A head in words, with what is not usual of it."""
    is_dense = settings["head"] == "dense"
    usual_sizes = stacking_ensembles.USUAL_SIZES
    return ", ".join(
        [
            HEADS.get(settings["head"], str(settings["head"])),
            *["[CLS] without the pooler"]
            * (is_dense and settings.get("pooling") == "cls_state"),
            *["each text by itself"]
            * (is_dense and settings.get("pairs") == "sbert"),
            *(
                f"{name} {settings[name]}"
                for name, usual in usual_sizes.items()
                if settings.get(name, usual) != usual
            ),
        ]
    )


def _adaptation(settings: Settings) -> str:
    name = str(settings["adaptation"])
    return ADAPTATIONS.get(name, name.replace("_", "-"))


def amount(settings: Settings) -> str:
    """Rate and epochs of each phase: `0.001 for 1, then 2e-05 for 3`."""
    first = phase_one(settings)
    last = f"{settings['lr']:g} for {settings['max_epochs']}"
    words = f"{first}, then {last}" if first else last + _gap(settings)
    return ", ".join(filter(None, [words, tables.describe_cache(settings)]))


def phase_one(settings: Settings) -> str:
    """Rate and epochs of the first of two phases: `0.001 for 1`, or nothing."""
    if "phase_one_epochs" not in settings:
        return ""
    epochs = settings["phase_one_epochs"]
    return f"{settings['head_lr']:g} for {epochs}{_gap(settings)}"


def _gap(settings: Settings) -> str:
    """By which gap a phase on the frozen encoder is left: ` (gap 0.01)`."""
    gap = settings.get("phase_one_gap", -1)
    return "" if gap < 0 else f" (gap {gap:g})"


def _or_failure(words: str, group: pd.DataFrame) -> str:
    return ", ".join(filter(None, [words, tables.describe_failure(group)]))


# === Groups ===


def _divide(study: Study) -> Iterator[tables.Part]:
    """Runs by task and data, by head, adaptation and rates."""
    order = [*HEADS], [*ADAPTATIONS]
    places = [
        [names.index(v) if v in names else len(names) for v in values]
        for names, values in zip(
            order,
            zip(*((s["head"], s["adaptation"]) for s in study.runs.settings)),
        )
    ]
    runs = study.runs.assign(
        head=places[0],
        adaptation=places[1],
        rates=study.runs.settings.map(amount),
        examples=[-sizes.get("train", 0) for sizes in study.runs.sizes],
    ).sort_values(["task", "examples", "head", "adaptation", "rates", "seed"])
    for task, of_task in runs.groupby("task"):
        sets = of_task.groupby("data_identity", sort=False)
        for number, (_, members) in enumerate(sets, 1):
            metric = members.metric.iloc[0]
            yield tables.Part(
                study,
                members,
                f"{study.name}_{task}" + f"_{number}" * (number > 1),
                {
                    "task": task,
                    "data": os.path.basename(members.data.iloc[0].rstrip("/")),
                    "metric": METRICS[str(task)].get(metric, metric),
                },
            )


def _divide_ensembles(study: Study) -> Iterator[tables.Part]:
    """The ensembles of each data set, both methods of those trained alike."""
    for part in _divide(study):
        joined = part.runs[part.runs.record.map(lambda r: "members" in r)]
        alike = joined.groupby(joined.settings.map(amount))
        for number, (words, runs) in enumerate(alike, 1):
            yield tables.Part(
                study,
                pd.concat([part.runs.drop(joined.index), runs]),
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


def _base_of(group: pd.DataFrame, runs: pd.DataFrame) -> pd.DataFrame | None:
    """Of the groups of finetune-only, the one to compare a group with, or None.

    It has as many examples and epochs, is of the usual size and reads a text as
    usual, as far as there is such a one; of several rates it has the one that
    is best on validation.
    """
    same_size = runs[runs.examples == group.examples.iloc[0]]
    bases = _groups(same_size, adaptation="finetune_only")
    epochs = group.settings.iloc[0]["max_epochs"]
    usual = {**stacking_ensembles.USUAL, "max_epochs": epochs}
    for name, value in usual.items():
        alike = [
            b for b in bases if b.settings.iloc[0].get(name, value) == value
        ]
        bases = alike or bases
    base = _best_of(bases) if bases else group
    return None if base.index.equals(group.index) else base


def _choose(
    runs: pd.DataFrame, paper: claims.Paper | None, wanted: Settings
) -> list[pd.DataFrame]:
    """Runs with some settings and finetune-only, as sides of a claim.

    Both have the best of equally many rates; empty where that cannot be.

    Args:
        runs: of a task on the same data.
        paper: without it nothing says which settings may vary.
        wanted: of the first side.
    """
    if paper is None:
        return []
    base = {n: v for n, v in wanted.items() if n in SHARED} | BASE
    repeats = sides.list_repeats(runs)
    try:
        chosen = sides.choose_sides(repeats, paper, [wanted, base])
    except sides.NotFound:
        return []
    return [sides.take_rows(runs, side) for side in chosen]


def _pick(settings: Settings, names: set[str]) -> dict[str, Any]:
    """Some of the settings, as far as a run has them."""
    return {n: settings[n] for n in sorted(names) if n in settings}


# === Rows of tables ===


def _list_groups(part: tables.Part) -> Iterator[tables.Line]:
    """Each group with its base, see `_base_of`."""
    for line in tables.list_groups(part):
        base = _base_of(line.runs, part.runs)
        values: dict[str, Any] = {"base": base}
        if base is not None and not tables.describe_failure(base):
            values["against_base"] = wording.difference(
                line.runs.score, base.score
            )
        yield dataclasses.replace(line, values=values)


def _list_with_majority(part: tables.Part) -> Iterator[tables.Line]:
    """Each group; last of all the majority baseline: of words, `O` for all."""
    yield from _list_groups(part)
    known = part.runs.record.iloc[0]["majorities"]
    scores = {
        title: [100 * known[name]]
        for name, title in _metrics_of(part.runs).items()
        if name in known
    }
    values = {"head_or_failure": "the majority baseline", "scores": scores}
    yield tables.Line(part, values=values)


def _list_best_rates(part: tables.Part) -> Iterator[tables.Line]:
    """Each head at its own best rate, where several were tried."""
    paper = part.study.paper
    varied = {*frames.VARIED, "max_epochs", *(paper.varied if paper else ())}
    # Runs on the frozen encoder have the rate of the first phase.
    is_tried = part.runs.settings.map(lambda s: s["adaptation"] != "stack_only")
    wanted = part.runs.settings.map(lambda s: _pick(s, varied - {"lr"}))
    alike = part.runs[is_tried].groupby(wanted.map(frames.dump), sort=False)
    for _, runs in alike:
        rates = sorted({*runs.lr})
        chosen = _choose(part.runs, paper, wanted[runs.index[0]])
        if len(rates) > 1 and chosen:
            best, base = chosen
            values = {"rates": ", ".join(f"{rate:g}" for rate in rates)}
            if not best.index.equals(base.index):
                gain = wording.difference(best.score, base.score)
                rate = f"{base.lr.iloc[0]:g}"
                values |= {"base_rate": rate, "against_base": gain}
            yield tables.Line(part, best, values=values)


def _list_members(part: tables.Part) -> list[tables.Line]:
    """An ensemble's members of the same seeds, then it, by each method."""
    joined = part.runs[part.runs.record.map(lambda r: "members" in r)]
    first, *_ = methods = _groups(joined)
    by_path = part.runs.set_index("path", drop=False)
    members = [
        by_path.loc[list(paths)]
        for paths in zip(*(record["members"] for record in first.record))
    ]
    best = max(members, key=lambda group: group.validation.mean())

    def compare(group: pd.DataFrame, other: pd.DataFrame) -> str:
        return (
            ""
            if group is other
            else wording.difference(group.score, other.score)
        )

    return [
        tables.Line(
            part,
            group,
            values={
                "against_base": compare(group, members[0]),
                "against_best": compare(group, best) if number >= 3 else "",
            },
        )
        for number, group in enumerate([*members, *methods])
    ]


# === Measures ===


def _metrics_of(runs: pd.DataFrame) -> dict[str, str]:
    """Metrics that all runs have, with the tables' names."""
    return {
        name: title
        for name, title in METRICS[runs.task.iloc[0]].items()
        if all(name in metrics for metrics in runs.metrics)
    }


def _types_of(runs: pd.DataFrame) -> list[str]:
    """Metrics of each type of entity; of texts there are none."""
    names = runs.metrics.iloc[0] if runs.task.iloc[0] == "ner" else ()
    return [name for name in names if name.startswith("f1_")]


def _share(group: pd.DataFrame, base: pd.DataFrame | None) -> str:
    """Time in percent of that of a base."""
    if base is None:
        return ""
    ours, theirs = (
        cell.values
        for cell in measures.Cells().measure(
            ("seconds", "seconds"), (group, base)
        )
    )
    if not (len(ours) and len(theirs)):
        return ""
    return f"{100 * ours.mean() / theirs.mean():.0f} %"


def _seconds_to_base(line: tables.Line) -> str:
    """Seconds until runs reach their base's validation score at its end."""
    base = line.values["base"]
    target = (line.runs if base is None else base).validation.mean()
    records = [*line.runs.record[line.runs.timed]]
    if pd.isna(target) or not any(record["epochs"] for record in records):
        return ""
    times = [measures.seconds_to_score(record, target) for record in records]
    reached = wording.known(times)
    few = f" ({len(reached)} of {len(times)} runs)"
    return (
        wording.spread(reached, 1) + few * (0 < len(reached) < len(times))
        or "never"
    )


def _seconds_by_phase(line: tables.Line) -> dict[str, list[float]]:
    """Seconds of the phases that train so, of each run that has such."""
    records = line.runs.record[line.runs.timed]
    found = [
        (
            title,
            [p["seconds"] for p in r["phases"] if p["trainable_layers"] == n],
        )
        for n, title in PHASES.items()
        for r in records
    ]
    return {
        title: [sum(times) for name, times in found if name == title and times]
        for title in PHASES.values()
    }


# === Curves of figures ===


def kept_epoch(record: frames.Record, number: int) -> int:
    """The epoch whose weights a phase ended with, counted within it."""
    phases: list[dict[str, Any]] = record["phases"][:number]
    *before, phase = phases
    if "kept_epoch" in phase:  # a rule chose it
        return phase["kept_epoch"]
    is_last = number == len(record["phases"])
    if not is_last or record["key"]["select"] == "last":
        return phase["epochs"]
    return record["best_epoch"] - sum(p["epochs"] for p in before)


def _divide_phases(study: Study) -> Iterator[tables.Part]:
    """Of each data set a run that stacked first.

    It is the first run of the group with most runs; of several groups, of one
    with a big head, and of those of the one that is best on validation.
    """
    for part in _divide(study):
        groups = _groups(_with_most_examples(part.runs), **STACKED)
        group = max(
            (group for group in groups if group.record.iloc[0]["curve"]),
            key=lambda group: (
                len(group),
                group.settings.iloc[0]["head"] != "dense",
                group.validation.mean(),
            ),
            default=None,
        )
        if group is not None:
            run = group.sort_values("seed").iloc[0]
            title = f"{run.task}: {_head(run.settings)}, seed {run.seed}\n"
            phases = [
                f"{PHASES[phase['trainable_layers']]}, {phase['lr']:g}"
                for phase in run.record["phases"]
            ]
            yield tables.Part(
                study, group, title + ", then ".join(phases), {"run": run}
            )


def _list_phases(part: tables.Part) -> Iterator[tables.Line]:
    """Accuracies epoch by epoch, and the epochs that phases end with."""
    record, begin = part.words["run"].record, 0
    ring = {"marker": "o", "markersize": 12, "markerfacecolor": "none"}
    for number, _ in enumerate(record["phases"], 1):
        points = [p for p in record["curve"] if p["phase"] == number]
        curve: dict[int, float] = {}
        for split, key in SPLITS.items():
            curve = {begin + n: 100 * p[key] for n, p in enumerate(points, 1)}
            values = {
                "split": split,
                "curve": curve,
                "begins": [begin] * (begin > 0),
            }
            yield tables.Line(part, values=values)
        kept = begin + kept_epoch(record, number)
        values = {"split": "kept epoch", "curve": {kept: curve[kept]}}
        yield tables.Line(
            part, values={**values, "style": {**ring, "linestyle": "none"}}
        )
        begin += len(points)


def _divide_lengths(study: Study) -> Iterator[tables.Part]:
    """Runs that differ in nothing but when the first phase ended."""
    own = {"phase_one_epochs", "phase_one_gap"}
    for part in _divide(study):
        stacked = part.runs[part.runs.settings.map(phase_one) != ""]
        rest = stacked.settings.map(lambda s: frames.dump(_pick(s, {*s} - own)))
        for _, runs in stacked.groupby(rest, sort=False):
            settings = runs.settings.iloc[0]
            examples = tables.count_examples(runs)
            few = examples != tables.count_examples(part.runs)
            words = [
                _head(settings),
                f"{settings['head_lr']:g} first",
                f"then {settings['lr']:g} for {settings['max_epochs']}",
                f"{examples:,} examples" * few,
                tables.describe_cache(settings),
            ]
            title = f"{part.words['task']}: {', '.join(filter(None, words))}"
            base = _base_of(runs, part.runs)
            level = {} if base is None else {"finetune-only": base.score.mean()}
            if len({s["phase_one_epochs"] for s in runs.settings}) > 1:
                yield tables.Part(
                    study, runs, title, {**part.words, "level": level}
                )


def _list_lengths(part: tables.Part) -> list[tables.Line]:
    """Each group, with its epochs in the first phase, rising.

    A line joins those with as many as were asked for, none those with a gap.
    """
    lines = []
    for line in tables.list_groups(part):
        gap = _gap(line.settings).strip(" ()")
        values = {
            "gap": gap or "no gap",
            "kept_epochs": wording.mean(
                kept_epoch(record, 1) for record in line.runs.record
            ),
            "level": part.words["level"],
            "style": {"linestyle": "none"} if gap else {},
        }
        lines.append(dataclasses.replace(line, values=values))
    return sorted(lines, key=lambda line: line.values["kept_epochs"])


def _list_best_groups(part: tables.Part) -> list[tables.Line]:
    """Each head and adaptation at the better rates, live and cached apart.

    Two lines of each: its epochs, and the end. A single one has nothing beside
    it, so it is left out.
    """
    runs = _with_most_examples(part.runs[part.runs.timed])
    groups: dict[tuple[str, bool], list[pd.DataFrame]] = {}
    own = runs[~runs.record.map(lambda r: "members" in r).astype(bool)]
    for group in _groups(own[own.validation.notna()]):
        name = _head_and_adaptation(group.settings.iloc[0])
        groups.setdefault((name, group.cached.iloc[0]), []).append(group)
    lines = []
    for number, group in enumerate(map(_best_of, groups.values())):
        epochs = frames.epochs_frame(group).groupby("epoch").mean(True)
        ends = wording.deviation(group.seconds), wording.deviation(group.score)
        thin = {"linewidth": 1, "alpha": 0.55, "marker": "."}
        for name, curve, style in (
            (f"{number}", dict(zip(epochs.seconds, epochs.test)), thin),
            (
                f"{number} end",
                dict([ends]),
                {"linestyle": "none", "markersize": 7},
            ),
        ):
            values = {"curve_name": name, "curve": curve, "style": style}
            lines.append(tables.Line(part, group, values=values))
    return lines if len(groups) > 1 else []


MEASURES: dict[str, tables.Measure] = {
    "head": lambda line: _head(line.settings),
    "head_or_failure": lambda line: _or_failure(
        _head(line.settings), line.runs
    ),
    "adaptation": lambda line: _adaptation(line.settings),
    "head_and_adaptation": lambda line: _head_and_adaptation(line.settings),
    "amount": lambda line: amount(line.settings),
    "phase_one": lambda line: phase_one(line.settings),
    "scores": lambda line: {
        title: measures.measure_runs(name, line.runs)
        for name, title in _metrics_of(line.part.runs).items()
    },
    "types": lambda line: {
        name.removeprefix("f1_"): measures.measure_runs(name, line.runs)
        for name in _types_of(line.part.runs)
    },
    "n_timed": lambda line: int(line.runs.timed.sum()),
    "share": lambda line: _share(line.runs, line.values["base"]),
    "seconds_to_base": _seconds_to_base,
    "timed_prefix": lambda line: tables.MEASURES["prefix_seconds"](
        dataclasses.replace(line, runs=line.runs[line.runs.timed])
    ),
    "phases": _seconds_by_phase,
    **dict.fromkeys(("against_base", "base_rate"), lambda line: ""),
}
ROWS = {
    "groups": _list_groups,
    "groups_and_majority": _list_with_majority,
    "best_rates": _list_best_rates,
    "entities": lambda part: (
        tables.list_groups(part) if _types_of(part.runs) else []
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


def sum_up(study: Study, rows: object) -> list[str]:
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
            _choose(whole, study.paper, {"head": head, **STACKED})
            for head in sorted(heads - {"dense", stacking_ensembles.HEAD})
        ]
        if not any(pairs):
            continue
        best = _best_of([pair[0] for pair in pairs if pair])
        [base] = [pair[1] for pair in pairs if pair and pair[0] is best]
        name = _head_and_adaptation(best.settings.iloc[0])
        failed = [
            words
            for words, side in ((name, best), ("finetune-only", base))
            if tables.describe_failure(side)
        ]
        share, n = _share(best, base), min(len(best), len(base))
        if failed:
            are = "is" if len(failed) == 1 else "are"
            found = (
                f"{' and '.join(failed)} {are} {verdicts.FAILED}, so nothing "
                "is compared."
            )
        else:
            found = (
                f"{name}, is {wording.difference(best.score, base.score)} "
                "points against finetune-only"
                + f", in {share} of its time" * bool(share)
                + f" ({wording.count(n, 'seed')})."
            )
        sentences.append(f"On {part.words['task']}, {found}")
    return sentences


def notes(study: Study) -> list[str]:
    """What to know of the times, of failed runs, and of the sample."""
    said = tables.explain_tables(study)
    if "joint" in {settings["adaptation"] for settings in study.runs.settings}:
        said.append(
            "`joint` trains the large head and everything else from the first "
            "step. It is ours, unless the paper's finetune-only on entities "
            "has the BiLSTM, which its text leaves open."
        )
    if "sample" in set(study.runs.data):
        said.append("`sample` is a few examples to try the command with.")
    return said
