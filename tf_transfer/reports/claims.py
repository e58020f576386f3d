"""Wang's claims, and whether they hold for the runs at hand.

A claim holds if what it says is an effect is found at half its published size
or more, and what it says is a price is at most one point over the published:
the paper's own spread from run to run is "within 1 %". Each sentence has the
numbers, so that a reader may judge by another rule.
"""

import dataclasses
import statistics as plain

from tf_transfer.reports import compare
from tf_transfer.reports import studies

HOLDS, FAILS, UNKNOWN = "holds", "does not hold", "not enough runs"
SPREAD = 1.0  # points
LITTLE = 10.0  # percent of time saved
CONSIDERABLE = 25.0  # percent of time
EPOCH_SHARE_REACH = 10.0  # percent around the paper's 60
LASTS = ("last_4", "last_3", "last_2", "last_1")


@dataclasses.dataclass(frozen=True)
class Verdict:
    """A claim, one of the three words, and the numbers behind it."""

    claim: str
    word: str
    numbers: str


def judge(datasets, published):
    """A `Verdict` on each of the paper's claims.

    Args:
        datasets: list of `studies.Dataset`.
        published: what `experiments/glue/published.json` says, or {}.
    """
    if not published:
        return []
    found = [_epoch_share(datasets, published)]
    for size in ("large", "small"):
        found.append(_saved(datasets, published, size))
        found.append(_lost(datasets, published, size))
    found += [
        *_single_task(datasets, published),
        _rate(datasets, published, "fine_tuning", "last"),
        _rate(datasets, published, "last", "fine_tuning"),
        _rate_times(datasets),
        _fixed_times_small(datasets),
        *(
            _fixed_times_large(datasets, task, figures)
            for task, figures in published["ahead_at_fixed_times"].items()
        ),
        _budget(datasets, published["budget"]),
    ]
    return found


def _epoch_share(datasets, published):
    share = published["epoch_share"]
    claim = (
        f"An epoch of the last blocks takes about {share} % of one of "
        "fine-tuning"
    )
    found = {}
    for approach in LASTS:
        shares = [
            compare.epoch_share(cell, dataset.base)
            for dataset in datasets
            if (cell := dataset.best((approach, False))) and dataset.base
        ]
        shares = [value for value in shares if value is not None]
        if shares:
            found[approach] = plain.mean(shares)
    if not found:
        return Verdict(claim, UNKNOWN, "")
    mean = plain.mean(found.values())
    return Verdict(
        claim,
        HOLDS if abs(mean - share) <= EPOCH_SHARE_REACH else FAILS,
        f"Here {mean:.1f} % ({_each(found, '{:.1f} %')}); it holds within "
        f"{EPOCH_SHARE_REACH:g} of {share}.",
    )


def _averages(datasets, size):
    found = {
        approach: compare.average(datasets, size, (approach, False))
        for approach in LASTS
    }
    return {name: one for name, one in found.items() if one.count}


def _saved(datasets, published, size):
    theirs = published["time_saved"][size]
    return _judged(
        f"On {size} tasks this saves time: {_each(theirs, '{:g} %')}",
        _averages(datasets, size),
        "saved",
        theirs,
        lambda saved, published: saved >= published / 2,
        "{:.1f} %",
        "it holds from half of theirs on",
    )


def _lost(datasets, published, size):
    theirs = published["score_lost"][size]
    return _judged(
        f"On {size} tasks it costs points: {_each(theirs, '{:g}')}",
        _averages(datasets, size),
        "lost",
        theirs,
        lambda lost, published: lost <= published + SPREAD,
        "{:.2f}",
        f"it holds up to {SPREAD:g} point more than theirs",
    )


def _judged(claim, found, figure, theirs, holds, form, rule):
    """A verdict on one figure of each `Average`; all of them are needed."""
    means = {name: getattr(found.get(name), figure, None) for name in theirs}
    ours = {name: mean.mean for name, mean in means.items() if mean}
    if not ours:
        return Verdict(claim, UNKNOWN, "")
    tasks = sorted({task for name in ours for task in found[name].tasks})
    seeds = min(found[name].seeds for name in ours)
    said = (
        f"Here {_each(ours, form)} over {', '.join(tasks)}, n = {seeds}; {rule}"
    )
    if set(ours) != set(theirs):
        missing = [_name(name) for name in theirs if name not in ours]
        said += f"; without runs of {', '.join(missing)}"
        return Verdict(claim, UNKNOWN, f"{said}.")
    good = all(holds(value, theirs[name]) for name, value in ours.items())
    return Verdict(claim, HOLDS if good else FAILS, f"{said}.")


def _single_task(datasets, published):
    """What the paper says of the last 4 and 3 on large tasks by name."""
    for task, theirs in published["time_saved_of_task"].items():
        claim = (
            f"On {task.upper()} the last blocks save little time: "
            f"{_each(theirs, '{:g} %')}"
        )
        ours = _saved_on(datasets, task, theirs)
        good = all(abs(saved) <= LITTLE for saved in ours.values())
        yield Verdict(
            claim,
            (HOLDS if good else FAILS) if ours else UNKNOWN,
            f"Here {_each(ours, '{:.1f} %')}; it holds up to {LITTLE:g} %."
            if ours
            else "",
        )
    for task in published["last_4_takes_more_time"]:
        claim = f"On {task.upper()} the last 4 blocks take more time"
        ours = _saved_on(datasets, task, ("last_4",))
        good = all(saved < 0 for saved in ours.values())
        yield Verdict(
            claim,
            (HOLDS if good else FAILS) if ours else UNKNOWN,
            f"Here they save {_each(ours, '{:.1f} %')}." if ours else "",
        )


def _saved_on(datasets, task, approaches):
    found = {}
    for dataset in datasets:
        for approach in approaches:
            cell = dataset.best((approach, False))
            if not _is_large(dataset, task):
                continue
            if cell and dataset.base:
                saved = compare.time_saved(cell, dataset.base)
                if saved is not None:
                    found[approach] = saved
    return found


def _rate(datasets, published, kind, other):
    rates = published["rates"]
    lower = published["lower_at_other_rate"][kind]
    who = "Fine-tuning" if kind == "fine_tuning" else "The last blocks"
    claim = (
        f"{who} at {rates[other]:g} instead of {rates[kind]:g} scores {lower} "
        "% lower"
    )
    approaches = LASTS if kind == "last" else (studies.BASE,)
    drops = []
    for dataset in datasets:
        for approach in approaches:
            own = dataset.cells.get((approach, False, rates[kind]))
            crossed = dataset.cells.get((approach, False, rates[other]))
            if own and crossed:
                drop = compare.lower_by(crossed, own)
                if drop is not None:
                    drops.append(drop)
    if not drops:
        return Verdict(claim, UNKNOWN, "")
    mean = plain.mean(drops)
    return Verdict(
        claim,
        HOLDS if mean >= lower / 2 else FAILS,
        f"Here {mean:.1f} % over {len(drops)} pairs; it holds from half of "
        "theirs on.",
    )


def _rate_times(datasets):
    claim = "The rate makes no considerable difference to the time"
    ratios = []
    for dataset in datasets:
        for way in dataset.ways():
            timed = [
                cell.seconds.mean
                for cell in dataset.rates(way)
                if cell.seconds and not cell.cached
            ]
            if len(timed) > 1:
                ratios.append(100 * (max(timed) / min(timed) - 1))
    if not ratios:
        return Verdict(claim, UNKNOWN, "")
    middle = plain.median(ratios)
    return Verdict(
        claim,
        HOLDS if middle <= CONSIDERABLE else FAILS,
        f"Here the time to the stopping point is {middle:.1f} % longer at the "
        f"slower rate, the median of {len(ratios)} pairs; it holds up to "
        f"{CONSIDERABLE:g} %.",
    )


def _fixed_times_small(datasets):
    claim = "On small tasks fine-tuning is ahead at every fixed time"
    behind, count = [], 0
    for dataset in datasets:
        if dataset.size != "small" or dataset.base is None:
            continue
        for budget in compare.quarters(dataset):
            base = dataset.base.reached(budget)
            for approach in LASTS:
                cell = dataset.best((approach, False))
                other = cell and cell.reached(budget)
                if not other or not base:
                    continue  # one of them has ended no epoch yet
                count += 1
                if other.mean > base.mean:
                    behind.append(
                        f"{_name(approach)} on {dataset.name} within "
                        f"{budget:,.0f} s"
                    )
    if not count:
        return Verdict(claim, UNKNOWN, "")
    said = (
        f"Here in {count - len(behind)} of {count} comparisons in which both "
        "have ended an epoch"
    )
    if behind:
        said += f"; ahead of it: {', '.join(behind[:4])}"
        said += ", ..." if len(behind) > 4 else ""
    return Verdict(claim, FAILS if behind else HOLDS, f"{said}.")


def _fixed_times_large(datasets, task, figures):
    shown = ", ".join(
        f"{ahead:+g} at {int(seconds):,} s"
        for seconds, ahead in figures.items()
    )
    claim = (
        f"On {task.upper()} the last 4 blocks are ahead at fixed times "
        f"({shown})"
    )
    ahead = []
    for dataset in datasets:
        cell = dataset.best(("last_4", False))
        if not (_is_large(dataset, task) and cell and dataset.base):
            continue
        for budget in compare.quarters(dataset)[:-1]:
            mine, base = cell.reached(budget), dataset.base.reached(budget)
            if mine and base:
                ahead.append(mine.mean - base.mean)
    if not ahead:
        return Verdict(claim, UNKNOWN, "")
    return Verdict(
        claim,
        HOLDS if min(ahead) > 0 else FAILS,
        "Here at quarters of the longest run "
        + ", ".join(f"{value:+.2f}" for value in ahead)
        + ".",
    )


def _budget(datasets, published):
    hours, epoch = published["hours"], published["hours_of_fine_tuning_epoch"]
    task, ahead = published["task"], published["ahead"]
    claim = (
        f"With {hours} hours for {task.upper()}, where an epoch of fine-tuning "
        f"takes {epoch}, the last 4 blocks are {ahead:g} ahead"
    )
    for dataset in datasets:
        base, cell = dataset.base, dataset.best(("last_4", False))
        if not (_is_large(dataset, task) and cell and base):
            continue
        if not (base.seconds_per_epoch and cell.seconds_per_epoch):
            continue
        budget = base.at_epoch(1)[1].mean * hours / epoch
        mine, theirs = cell.reached(budget), base.reached(budget)
        if mine and theirs:
            found = mine.mean - theirs.mean
            return Verdict(
                claim,
                HOLDS if found >= ahead / 2 else FAILS,
                f"Here, within {hours}/{epoch} of an epoch of fine-tuning "
                f"({budget:,.0f} s), {found:+.2f}; it holds from half of "
                "theirs on.",
            )
    return Verdict(claim, UNKNOWN, "")


def _is_large(dataset, task):
    """Whether it is that task, and as large as the claim means it."""
    return dataset.task == task and dataset.size == "large"


def _each(values, form):
    return ", ".join(
        f"{_name(name)} {form.format(value)}" for name, value in values.items()
    )


def _name(approach):
    return approach.replace("_", " ")
