"""Tables and figures of "To Tune or Not To Tune?", from runs of `stacking`.

The paper's tables are lost, only differences survive: these are its claims. So
its rows stand here as head and adaptation, ours alone.
"""

import os
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any

import pandas as pd

from tf_transfer.reports import cells
from tf_transfer.reports import claims
from tf_transfer.reports import frames
from tf_transfer.reports import measures
from tf_transfer.reports import sides
from tf_transfer.reports import stacking_ensembles
from tf_transfer.reports import stacking_figures
from tf_transfer.reports import verdicts
from tf_transfer.reports.study import Figure
from tf_transfer.reports.study import Study
from tf_transfer.reports.study import Table
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

Settings = claims.Group

ensembles = stacking_ensembles.join_predictions  # see `summary`


def tables(study: Study) -> list[Table]:
    """Of each task: scores, best rates, entities by type, ensembles, costs."""
    found: list[Table] = []
    for name, runs in _data_sets(study):
        found += [
            _tabulate_scores(name, runs),
            *_tabulate_rates(name, runs, study.paper),
            *_tabulate_types(name, runs),
            *_tabulate_ensembles(name, runs),
            _tabulate_costs(name, runs),
        ]
    return found


def figures(study: Study) -> list[Figure]:
    """Phases of a run, score over epochs of phase one, score against time."""
    phases, courses = {}, {}
    lengths: dict[str, stacking_figures.Lengths] = {}
    for _, runs in _data_sets(study):
        lengths |= _by_phase_one(runs)
        chosen = _representative(_with_most_examples(runs))
        if chosen is not None:
            head = HEADS.get(chosen.settings["head"], chosen.settings["head"])
            title = f"{chosen.task}: {head}, seed {chosen.seed}"
            phases[title] = stacking_figures.phases_of(chosen.record)
        shown = _best_groups(_with_most_examples(runs[runs.timed]))
        if len(shown) > 1:  # a single one has nothing beside it
            task, metric = runs.task.iloc[0], runs.metric.iloc[0]
            courses[task] = (
                METRICS[task].get(metric, metric),
                [
                    (adaptation, head, group)
                    for group in shown
                    for head, adaptation, _ in [_identify(group)]
                ],
            )
    pictures = []
    if phases:
        pictures.append(
            stacking_figures.scores_over_phases(
                f"phases_{study.name}",
                "Accuracy on a sample of the training set and on validation "
                "after each epoch of both phases, one run per task; the dotted "
                "line is the point of change, the ring the epoch that a phase "
                "ends with",
                phases,
            )
        )
    if lengths:
        pictures.append(
            stacking_figures.scores_over_phase_one(
                f"phase_one_{study.name}",
                "Test score in the end against the epochs of the first phase, "
                "with one standard deviation over seeds. A gap: the phase was "
                "left by the gap between the accuracies on training and "
                "validation data, after so many epochs (mean over seeds). "
                "Dotted: finetune-only at its best rate",
                lengths,
            )
        )
    if courses:
        pictures.append(
            stacking_figures.scores_against_time(
                f"costs_{study.name}",
                "Test score against training time, each head and adaptation at "
                "the rates that are best on validation: a dot per epoch, the "
                "large mark the end with one standard deviation; hollow: the "
                "prefix is cached",
                courses,
            )
        )
    return pictures


def notes(study: Study) -> list[str]:
    """What to know of the times, of failed runs, and of the sample."""
    said = cells.explain_times(study.runs)
    if any(cells.failed(group) for group in cells.groups_of(study.runs)):
        said.append(cells.DID_NOT_TRAIN)
    if "joint" in {settings["adaptation"] for settings in study.runs.settings}:
        said.append(
            "`joint` trains the large head and everything else from the first "
            "step. It is ours, unless the paper's finetune-only on entities "
            "has the BiLSTM, which its text leaves open."
        )
    if "sample" in set(study.runs.data):
        said.append("`sample` is a few examples to try the command with.")
    return said


def sum_up(study: Study, rows: Sequence[Any]) -> list[str]:
    """What stacking a big head first gains and costs, a sentence a task.

    The head is the one that is best on validation. It and finetune-only have
    their own best of equally many rates.

    Args:
        study: see there.
        rows: of the overview, which are not looked at.
    """
    del rows
    sentences = []
    for _, runs in _data_sets(study):
        whole = _with_most_examples(runs)
        heads = {str(settings["head"]) for settings in whole.settings}
        pairs = [
            _choose(whole, study.paper, {"head": head, **STACKED})
            for head in sorted(heads - {"dense", stacking_ensembles.HEAD})
        ]
        known = {
            number: (best, base)
            for number, (best, base) in enumerate(filter(None, pairs))
        }
        if not known:
            continue
        best, base = known[
            selection.best_on_validation(
                {
                    number: _validated(best)
                    for number, (best, _) in known.items()
                }
            )
        ]
        head, adaptation, _ = _identify(best)
        failed = [
            name
            for name, side in (
                (f"{head}, {adaptation}", best),
                ("finetune-only", base),
            )
            if verdicts.did_not_train(side)
        ]
        if failed:
            are = "is" if len(failed) == 1 else "are"
            sentences.append(
                f"On {runs.task.iloc[0]}, {' and '.join(failed)} {are} "
                f"{verdicts.FAILED}, so nothing is compared."
            )
            continue
        share, n = _share(best, base), min(len(best), len(base))
        sentences.append(
            f"On {runs.task.iloc[0]}, {head}, {adaptation}, is "
            f"{cells.difference(best.score, base.score)} points against "
            f"finetune-only{f', in {share} of its time' if share else ''} "
            f"({n} seed{'' if n == 1 else 's'})."
        )
    return sentences


def name_groups(runs: pd.DataFrame) -> pd.DataFrame:
    """Runs, with head and adaptation as approach."""
    return runs.assign(
        approach=[
            f"{_head(settings)}, {_adaptation(settings)}"
            for settings in runs.settings
        ]
    )


# === Words ===


def _head(settings: Settings) -> str:
    """A head in words, with what is not usual of it."""
    words = [HEADS.get(settings["head"], str(settings["head"]))]
    if settings["head"] == "dense":
        if settings.get("pooling") == "cls_state":
            words.append("[CLS] without the pooler")
        if settings.get("pairs") == "sbert":
            words.append("each text by itself")
    words += [
        f"{name} {settings[name]}"
        for name, usual in stacking_ensembles.USUAL_SIZES.items()
        if settings.get(name, usual) != usual
    ]
    return ", ".join(words)


def _adaptation(settings: Settings) -> str:
    name = str(settings["adaptation"])
    return ADAPTATIONS.get(name, name.replace("_", "-"))


def amount(settings: Settings) -> str:
    """Rate and epochs of each phase: `0.001 for 1, then 2e-05 for 3`."""
    words = f"{settings['lr']:g} for {settings['max_epochs']}"
    if first := phase_one(settings):
        words = f"{first}, then {words}"
    else:
        words += _gap(settings)
    return ", ".join(filter(None, [words, cells.caching(settings)]))


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


def _identify(group: pd.DataFrame) -> tuple[str, str, str]:
    """Head, adaptation, rates: what names a row."""
    settings = group.settings.iloc[0]
    return _head(settings), _adaptation(settings), amount(settings)


# === Groups ===


def _data_sets(study: Study) -> Iterator[tuple[str, pd.DataFrame]]:
    """Runs by task and data, by head, adaptation and rates."""
    heads, adaptations = list(HEADS), list(ADAPTATIONS)

    def place(names: list[str], name: str) -> int:
        return names.index(name) if name in names else len(names)

    runs = study.runs.assign(
        head=[place(heads, s["head"]) for s in study.runs.settings],
        adaptation=[
            place(adaptations, s["adaptation"]) for s in study.runs.settings
        ],
        rates=study.runs.settings.map(amount),
        examples=[-sizes.get("train", 0) for sizes in study.runs.sizes],
    ).sort_values(["task", "examples", "head", "adaptation", "rates", "seed"])
    for task, of_task in runs.groupby("task"):
        sets = of_task.groupby("data_identity", sort=False)
        for number, (_, members) in enumerate(sets, 1):
            name = f"{study.name}_{task}"
            yield name + (f"_{number}" if number > 1 else ""), members


def _with_most_examples(runs: pd.DataFrame) -> pd.DataFrame:
    sizes = runs.sizes.map(lambda sizes: sizes.get("train", 0))
    return runs[sizes == sizes.max()]


def _validated(group: pd.DataFrame) -> list[tuple[int, float]]:
    """Seed and validation score of each run."""
    return list(zip(group.seed, group.validation))


def _best_of(groups: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """The group that is best on validation, over the seeds that all have."""
    return groups[
        selection.best_on_validation(
            {number: _validated(group) for number, group in enumerate(groups)}
        )
    ]


def _best_groups(runs: pd.DataFrame) -> list[pd.DataFrame]:
    """Each head and adaptation at the better rates, live and cached apart."""
    groups: dict[tuple[str, str, bool], list[pd.DataFrame]] = {}
    own = runs[runs.record.map(lambda record: "members" not in record)]
    for group in cells.groups_of(own[own.validation.notna()]):
        key = (*_identify(group)[:2], bool(group.cached.iloc[0]))
        groups.setdefault(key, []).append(group)
    return [*map(_best_of, groups.values())]


def _bases(runs: pd.DataFrame) -> list[pd.DataFrame]:
    """The groups of finetune-only."""
    names = runs.settings.map(lambda settings: settings["adaptation"])
    return list(cells.groups_of(runs[names == "finetune_only"]))


def _base_of(
    group: pd.DataFrame, bases: Sequence[pd.DataFrame]
) -> pd.DataFrame | None:
    """Of the groups of finetune-only, the one to compare a group with, or None.

    It has as many examples and epochs, is of the usual size and reads a text as
    usual, as far as there is such a one; of several rates it has the one that
    is best on validation.
    """
    size = cells.examples(group)
    bases = [base for base in bases if cells.examples(base) == size]
    if not bases:
        return None
    epochs = group.settings.iloc[0]["max_epochs"]
    usual = {**stacking_ensembles.USUAL, "max_epochs": epochs}
    for name, value in usual.items():
        alike = [
            base
            for base in bases
            if base.settings.iloc[0].get(name, value) == value
        ]
        bases = alike or bases
    base = _best_of(bases)
    return None if base.index.equals(group.index) else base


def _choose(
    runs: pd.DataFrame, paper: claims.Paper | None, wanted: Settings
) -> tuple[pd.DataFrame, pd.DataFrame] | None:
    """Runs with some settings and finetune-only, as sides of a claim.

    Both have the best of equally many rates; None where that cannot be.

    Args:
        runs: of a task on the same data.
        paper: without it nothing says which settings may vary.
        wanted: of the first side.
    """
    if paper is None:
        return None
    base = {n: v for n, v in wanted.items() if n in SHARED} | BASE
    repeats = sides.list_repeats(runs)
    try:
        chosen = sides.choose_sides(repeats, paper, [wanted, base])
    except sides.NotFound:
        return None
    first, second = (sides.take_rows(runs, side) for side in chosen)
    return first, second


# === Scores ===


def _metrics_of(runs: pd.DataFrame) -> dict[str, str]:
    """Metrics that all runs have, with the tables' names."""
    return {
        name: title
        for name, title in METRICS[runs.task.iloc[0]].items()
        if all(name in metrics for metrics in runs.metrics)
    }


def _tabulate_scores(name: str, runs: pd.DataFrame) -> Table:
    """Every head in every adaptation, and the majority baseline."""
    names, metric = _metrics_of(runs), runs.metric.iloc[0]
    bases = _bases(runs)
    rows = []
    for group in cells.groups_of(runs):
        head, adaptation, rates = _identify(group)
        base = _base_of(group, bases)
        against = ""
        if base is not None and not cells.failed(base):
            against = cells.difference(group.score, base.score)
        rows.append(
            {
                "head": ", ".join(filter(None, [head, cells.failed(group)])),
                "adaptation": adaptation,
                "rates and epochs": rates,
                "examples": f"{cells.examples(group):,}",
                "n": str(len(group)),
                **_spreads(group, names),
                "against finetune-only": against,
            }
        )
    rows.append({"head": "the majority baseline", **_majorities(runs, names)})
    table = pd.DataFrame(rows)
    data = os.path.basename(runs.data.iloc[0].rstrip("/"))
    caption = (
        f"{runs.task.iloc[0]}: test scores on `{data}`, in points, mean and "
        f"deviation over n seeds. `Against finetune-only`: in "
        f"{names.get(metric, metric)}, with a 95 % interval over seeds; that "
        "is trained for as many epochs, where there are such runs, at the rate "
        "that is best on validation"
    )
    return Table(
        f"scores_{name}",
        caption,
        cells.drop_constant(table, ["examples"]).fillna(""),
    )


def _tabulate_rates(
    name: str, runs: pd.DataFrame, paper: claims.Paper | None
) -> list[Table]:
    """Each head at its own best rate, where several were tried."""
    if paper is None:
        return []
    may_vary = {*frames.VARIED, *paper.varied, "max_epochs"} - {"lr"}
    tried: dict[str, list[pd.DataFrame]] = {}
    for group in cells.groups_of(runs):
        wanted = _pick(group.settings.iloc[0], may_vary)
        # Runs on the frozen encoder have the rate of the first phase.
        if wanted["adaptation"] != "stack_only":
            tried.setdefault(frames.dump(wanted), []).append(group)
    names, rows = _metrics_of(runs), []
    for groups in tried.values():
        settings = groups[0].settings.iloc[0]
        rates = sorted({float(group.lr.iloc[0]) for group in groups})
        chosen = _choose(runs, paper, _pick(settings, may_vary))
        if len(rates) < 2 or chosen is None:
            continue
        best, base = chosen
        is_base = best.index.equals(base.index)
        rows.append(
            {
                "head": ", ".join(
                    filter(None, [_head(settings), cells.failed(best)])
                ),
                "adaptation": _adaptation(settings),
                "first phase": phase_one(settings),
                "epochs": str(settings["max_epochs"]),
                "examples": f"{cells.examples(best):,}",
                "rates": ", ".join(f"{rate:g}" for rate in rates),
                "best": f"{best.lr.iloc[0]:g}",
                "n": str(len(best)),
                **_spreads(best, names),
                "finetune-only's": "" if is_base else f"{base.lr.iloc[0]:g}",
                "against finetune-only": (
                    "" if is_base else cells.difference(best.score, base.score)
                ),
            }
        )
    if not rows:
        return []
    caption = (
        f"{runs.task.iloc[0]}: each head at the rate of training everything "
        "that is best for it on validation, and finetune-only at its own: both "
        "of equally many, over the seeds that all rates have. Test scores in "
        "points"
    )
    table = cells.drop_constant(pd.DataFrame(rows), ["examples", "epochs"])
    return [Table(f"rates_{name}", caption, table)]


def _pick(settings: Settings, names: Iterable[str]) -> dict[str, Any]:
    """Some of the settings, as far as a run has them."""
    return {n: settings[n] for n in sorted(names) if n in settings}


def _spreads(group: pd.DataFrame, names: dict[str, str]) -> dict[str, str]:
    return {
        title: cells.spread(cells.metric(group, name))
        for name, title in names.items()
    }


def _majorities(runs: pd.DataFrame, names: dict[str, str]) -> dict[str, str]:
    """What the majority baseline scores: of words, O for all of them."""
    scores = runs.record.iloc[0]["majorities"]
    return {
        title: cells.spread([100 * scores[name]])
        for name, title in names.items()
        if name in scores
    }


def _tabulate_types(name: str, runs: pd.DataFrame) -> list[Table]:
    """F1 of each type of entity."""
    types = {
        metric: metric.removeprefix("f1_")
        for metric in runs.metrics.iloc[0]
        if metric.startswith("f1_")
    }
    if runs.task.iloc[0] != "ner" or not types:
        return []
    rows = [
        {
            **dict(
                zip(
                    ("head", "adaptation", "rates and epochs"), _identify(group)
                )
            ),
            "examples": f"{cells.examples(group):,}",
            **_spreads(group, types),
        }
        for group in cells.groups_of(runs)
    ]
    caption = "F1 of entities by type on test, in points"
    table = cells.drop_constant(pd.DataFrame(rows), ["examples"])
    return [Table(f"types_{name}", caption, table)]


# === The ensemble ===


def _tabulate_ensembles(name: str, runs: pd.DataFrame) -> list[Table]:
    """An ensemble against its members, of the same seeds; a table each."""
    joined = runs[runs.record.map(lambda record: "members" in record)]
    names = _metrics_of(runs)
    by_path = runs.set_index("path", drop=False)
    found = []
    rates = joined.settings.map(amount)
    for number, (words, members) in enumerate(joined.groupby(rates), 1):
        one = members[members.approach == members.approach.iloc[0]]
        paths = zip(*(record["members"] for record in one.record))
        groups = [by_path.loc[list(column)] for column in paths]
        best = max(groups, key=lambda group: group.validation.mean())
        groups += [g for _, g in members.groupby("approach", sort=False)]
        rows = [
            {
                "": f"{_identify(group)[0]}, {_identify(group)[1]}",
                "n": str(len(group)),
                **_spreads(group, names),
                "against finetune-only": (
                    ""
                    if group is groups[0]
                    else cells.difference(group.score, groups[0].score)
                ),
                "against the best member": (
                    cells.difference(group.score, best.score)
                    if group.approach.iloc[0] in set(members.approach)
                    else ""
                ),
                "time, s": cells.spread(cells.seconds(group), 1),
            }
            for group in groups
        ]
        caption = (
            f"The ensemble of three models ({words}) against its members of "
            "the same seeds, on test, in points; differences with a 95 % "
            "interval over seeds. The best member is that on validation. An "
            "ensemble's time is that of all three"
        )
        found.append(
            Table(f"ensemble_{name}_{number}", caption, pd.DataFrame(rows))
        )
    return found


# === Costs ===


def _tabulate_costs(name: str, runs: pd.DataFrame) -> Table:
    """Times by phase, and until finetune-only's score is reached."""
    bases = _bases(runs)
    rows = []
    for group in cells.groups_of(runs):
        head, adaptation, rates = _identify(group)
        timed = group[group.timed]
        base = _base_of(group, bases)
        own = base if base is not None else group
        rows.append(
            {
                "head": head,
                "adaptation": adaptation,
                "rates and epochs": rates,
                "examples": f"{cells.examples(group):,}",
                "n timed": str(len(timed)),
                "time, s": cells.spread(timed.seconds, 1),
                "of finetune-only's": _share(group, base),
                "s to its validation score": _time_to(group, own),
                "prefix, s": cells.spread(
                    [
                        record["prefix_build_seconds"]
                        for record in timed.record
                        if record["cached"]
                    ],
                    1,
                ),
                **{
                    f"{title}, s": cells.spread(_of_phase(timed, phase), 1)
                    for phase, title in PHASES.items()
                },
                "trained parameters": f"{group.trainable_parameters.iloc[0]:,}",
            }
        )
    caption = (
        "Seconds of training, in all and by phase, and what the last phase "
        "trains. `Prefix`: building the cache, in the time in all. `To its "
        "validation score`: until validation is first as high as that of "
        "finetune-only in the end, measured alike on both sides"
    )
    return Table(
        f"costs_{name}",
        caption,
        cells.drop_constant(pd.DataFrame(rows), ["examples"]),
    )


def _share(group: pd.DataFrame, base: pd.DataFrame | None) -> str:
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


def _time_to(group: pd.DataFrame, base: pd.DataFrame) -> str:
    """Seconds until runs reach a base's validation score at its end."""
    target = base.validation.mean()
    timed = group[group.timed]
    if pd.isna(target) or not any(record["epochs"] for record in timed.record):
        return ""
    times: list[Any] = [
        measures.seconds_to_score(record, target) for record in timed.record
    ]
    reached = cells.known(times)
    if not reached:
        return "never"
    text = cells.spread(reached, 1)
    if len(reached) < len(times):
        text += f" ({len(reached)} of {len(times)} runs)"
    return text


def _of_phase(runs: pd.DataFrame, trains: str) -> list[float]:
    """Seconds of the phases that train so, of each run that has such."""
    found = []
    for record in runs.record:
        times = [
            phase["seconds"]
            for phase in record["phases"]
            if phase["trainable_layers"] == trains
        ]
        if times:
            found.append(sum(times))
    return found


# === Figures ===


def _by_phase_one(runs: pd.DataFrame) -> dict[str, stacking_figures.Lengths]:
    """Where runs differ in epochs of the first phase: final scores by these.

    Args:
        runs: on the same data.

    Returns:
        By title of a panel, which is of runs that differ in nothing else.
    """
    alike: dict[str, list[pd.DataFrame]] = {}
    for group in cells.groups_of(runs):
        settings = group.settings.iloc[0]
        if "phase_one_epochs" in settings:
            own = {"phase_one_epochs", "phase_one_gap"}
            rest = frames.dump(_pick(settings, {*settings} - own))
            alike.setdefault(rest, []).append(group)
    bases, task = _bases(runs), runs.task.iloc[0]
    metric = runs.metric.iloc[0]
    panels = {}
    for groups in alike.values():
        lengths = {g.settings.iloc[0]["phase_one_epochs"] for g in groups}
        if len(lengths) < 2:
            continue
        points: dict[float, list[tuple[float, list[float]]]] = {}
        for group in groups:
            gap = max(-1.0, group.settings.iloc[0].get("phase_one_gap", -1.0))
            kept = [
                stacking_figures.kept_epoch(record, 1)
                for record in group.record
            ]
            points.setdefault(gap, []).append(
                (sum(kept) / len(kept), list(group.score))
            )
        settings = groups[0].settings.iloc[0]
        head = _head(settings)
        last = f"then {settings['lr']:g} for {settings['max_epochs']}"
        words = [head, f"{settings['head_lr']:g} first", last]
        if cells.examples(groups[0]) != cells.examples(runs):
            words.append(f"{cells.examples(groups[0]):,} examples")
        words.append(cells.caching(settings))
        base = _base_of(groups[0], bases)
        panels[f"{task}: {', '.join(filter(None, words))}"] = (
            stacking_figures.Lengths(
                METRICS[task].get(metric, metric),
                points,
                None if base is None else float(base.score.mean()),
            )
        )
    return panels


def _representative(runs: pd.DataFrame) -> Any:
    """The first run of the stacked group with most runs, or None.

    Of several, one with a big head; of those the best on validation.
    """
    groups = [
        group
        for group in cells.groups_of(runs)
        if group.settings.iloc[0]["adaptation"] == "stack_and_finetune"
        and group.record.iloc[0]["curve"]
    ]
    chosen = max(
        groups,
        key=lambda group: (
            len(group),
            group.settings.iloc[0]["head"] != "dense",
            group.validation.mean(),
        ),
        default=None,
    )
    return None if chosen is None else chosen.loc[chosen.seed.idxmin()]
