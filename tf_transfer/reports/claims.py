"""Wang's claims, and whether they hold for the runs at hand.

A claim holds if what it calls an effect is seen at half its published size or
more, and what it calls a price is at most one point over the published: the
paper's own spread from run to run is "within 1 %". Each sentence has the
numbers, so that a reader may judge by another rule.
"""

import dataclasses
import statistics as plain
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from tf_transfer.reports import compare
from tf_transfer.reports import studies
from tf_transfer.reports.studies import Dataset

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


def judge(
    datasets: Sequence[Dataset], published: dict[str, Any]
) -> list[Verdict]:
    """A `Verdict` on each of the paper's claims.

    Args:
        datasets: those of a study that may be judged.
        published: content of `experiments/glue/published.json`, or {}.
    """
    if not published:
        return []
    verdicts = [_judge_epoch_share(datasets, published)]
    for size in ("large", "small"):
        verdicts.append(_judge_time_saved(datasets, published, size))
        verdicts.append(_judge_score_lost(datasets, published, size))
    return [
        *verdicts,
        *_judge_single_tasks(datasets, published),
        _judge_rate(datasets, published, "fine_tuning", "last"),
        _judge_rate(datasets, published, "last", "fine_tuning"),
        _judge_times_of_rates(datasets),
        _judge_fixed_times_small(datasets),
        *(
            _judge_fixed_times_large(datasets, task, figures)
            for task, figures in published["ahead_at_fixed_times"].items()
        ),
        _judge_budget(datasets, published["budget"]),
    ]


def _verdict(claim: str, holds: bool, numbers: str) -> Verdict:
    return Verdict(claim, HOLDS if holds else FAILS, numbers)


def _judge_epoch_share(
    datasets: Sequence[Dataset], published: dict[str, Any]
) -> Verdict:
    share = published["epoch_share"]
    claim = (
        f"An epoch of the last blocks takes about {share} % of one of "
        "fine-tuning"
    )
    means = {}
    for approach in LASTS:
        shares = [
            compare.epoch_share(cell, dataset.base)
            for dataset in datasets
            if (cell := dataset.best((approach, False))) and dataset.base
        ]
        known = [value for value in shares if value is not None]
        if known:
            means[approach] = plain.mean(known)
    if not means:
        return Verdict(claim, UNKNOWN, "")
    mean = plain.mean(means.values())
    return _verdict(
        claim,
        abs(mean - share) <= EPOCH_SHARE_REACH,
        f"Here {mean:.1f} % ({_list(means, '{:.1f} %')}); it holds within "
        f"{EPOCH_SHARE_REACH:g} of {share}.",
    )


def _judge_time_saved(
    datasets: Sequence[Dataset], published: dict[str, Any], size: str
) -> Verdict:
    theirs = published["time_saved"][size]
    return _judge_averages(
        f"On {size} tasks this saves time: {_list(theirs, '{:g} %')}",
        _averages(datasets, size),
        "saved",
        theirs,
        lambda saved, published: saved >= published / 2,
        "{:.1f} %",
        "it holds from half of theirs on",
    )


def _judge_score_lost(
    datasets: Sequence[Dataset], published: dict[str, Any], size: str
) -> Verdict:
    theirs = published["score_lost"][size]
    return _judge_averages(
        f"On {size} tasks it costs points: {_list(theirs, '{:g}')}",
        _averages(datasets, size),
        "lost",
        theirs,
        lambda lost, published: lost <= published + SPREAD,
        "{:.2f}",
        f"it holds up to {SPREAD:g} point more than theirs",
    )


def _averages(
    datasets: Sequence[Dataset], size: str
) -> dict[str, compare.Average]:
    averages = {
        approach: compare.average(datasets, size, (approach, False))
        for approach in LASTS
    }
    return {name: mean for name, mean in averages.items() if mean.count}


def _judge_averages(
    claim: str,
    averages: dict[str, compare.Average],
    figure: str,
    theirs: dict[str, float],
    holds: Callable[[float, float], bool],
    form: str,
    rule: str,
) -> Verdict:
    """A verdict on one figure of each `Average`; all of them are needed."""
    means = {name: getattr(averages.get(name), figure, None) for name in theirs}
    ours = {name: mean.mean for name, mean in means.items() if mean}
    if not ours:
        return Verdict(claim, UNKNOWN, "")
    tasks = sorted({task for name in ours for task in averages[name].tasks})
    seeds = min(averages[name].seeds for name in ours)
    numbers = (
        f"Here {_list(ours, form)} over {', '.join(tasks)}, n = {seeds}; {rule}"
    )
    if set(ours) != set(theirs):
        missing = [_name(name) for name in theirs if name not in ours]
        numbers += f"; without runs of {', '.join(missing)}"
        return Verdict(claim, UNKNOWN, f"{numbers}.")
    return _verdict(
        claim,
        all(holds(value, theirs[name]) for name, value in ours.items()),
        f"{numbers}.",
    )


def _judge_single_tasks(
    datasets: Sequence[Dataset], published: dict[str, Any]
) -> Iterator[Verdict]:
    """What the paper says of the last 4 and 3 on large tasks by name."""
    for task, theirs in published["time_saved_of_task"].items():
        claim = (
            f"On {task.upper()} the last blocks save little time: "
            f"{_list(theirs, '{:g} %')}"
        )
        ours = _time_saved_on(datasets, task, theirs)
        if not ours:
            yield Verdict(claim, UNKNOWN, "")
            continue
        yield _verdict(
            claim,
            all(abs(saved) <= LITTLE for saved in ours.values()),
            f"Here {_list(ours, '{:.1f} %')}; it holds up to {LITTLE:g} %.",
        )
    for task in published["last_4_takes_more_time"]:
        claim = f"On {task.upper()} the last 4 blocks take more time"
        ours = _time_saved_on(datasets, task, ("last_4",))
        if not ours:
            yield Verdict(claim, UNKNOWN, "")
            continue
        yield _verdict(
            claim,
            all(saved < 0 for saved in ours.values()),
            f"Here they save {_list(ours, '{:.1f} %')}.",
        )


def _time_saved_on(
    datasets: Sequence[Dataset], task: str, approaches: Iterable[str]
) -> dict[str, float]:
    saved_by = {}
    for dataset in datasets:
        for approach in approaches:
            cell = dataset.best((approach, False))
            if not (_is_large(dataset, task) and cell and dataset.base):
                continue
            saved = compare.time_saved(cell, dataset.base)
            if saved is not None:
                saved_by[approach] = saved
    return saved_by


def _judge_rate(
    datasets: Sequence[Dataset],
    published: dict[str, Any],
    kind: str,
    other: str,
) -> Verdict:
    """At the other kind's rate a kind of approach scores lower."""
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
    return _verdict(
        claim,
        mean >= lower / 2,
        f"Here {mean:.1f} % over {len(drops)} pairs; it holds from half of "
        "theirs on.",
    )


def _judge_times_of_rates(datasets: Sequence[Dataset]) -> Verdict:
    claim = "The rate makes no considerable difference to the time"
    ratios = []
    for dataset in datasets:
        for variant in dataset.variants():
            timed = [
                cell.seconds.mean
                for cell in dataset.cells_by_rate(variant)
                if cell.seconds and not cell.cached
            ]
            if len(timed) > 1:
                ratios.append(100 * (max(timed) / min(timed) - 1))
    if not ratios:
        return Verdict(claim, UNKNOWN, "")
    middle = plain.median(ratios)
    return _verdict(
        claim,
        middle <= CONSIDERABLE,
        f"Here the time to the stopping point is {middle:.1f} % longer at the "
        f"slower rate, the median of {len(ratios)} pairs; it holds up to "
        f"{CONSIDERABLE:g} %.",
    )


def _judge_fixed_times_small(datasets: Sequence[Dataset]) -> Verdict:
    claim = "On small tasks fine-tuning is ahead at every fixed time"
    behind, count = [], 0
    for dataset in datasets:
        if dataset.size != "small" or dataset.base is None:
            continue
        for budget in compare.quarters(dataset):
            base = dataset.base.reached(budget)
            for approach in LASTS:
                cell = dataset.best((approach, False))
                other = cell.reached(budget) if cell else None
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
    numbers = (
        f"Here in {count - len(behind)} of {count} comparisons in which both "
        "have ended an epoch"
    )
    if behind:
        numbers += f"; ahead of it: {', '.join(behind[:4])}"
        numbers += ", ..." if len(behind) > 4 else ""
    return _verdict(claim, not behind, f"{numbers}.")


def _judge_fixed_times_large(
    datasets: Sequence[Dataset], task: str, figures: dict[str, float]
) -> Verdict:
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
            ours, base = cell.reached(budget), dataset.base.reached(budget)
            if ours and base:
                ahead.append(ours.mean - base.mean)
    if not ahead:
        return Verdict(claim, UNKNOWN, "")
    return _verdict(
        claim,
        min(ahead) > 0,
        "Here at quarters of the longest run "
        + ", ".join(f"{value:+.2f}" for value in ahead)
        + ".",
    )


def _judge_budget(
    datasets: Sequence[Dataset], published: dict[str, Any]
) -> Verdict:
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
        _, seconds = base.at_epoch(1)
        if not (seconds and base.seconds_per_epoch and cell.seconds_per_epoch):
            continue
        budget = seconds.mean * hours / epoch
        ours, theirs = cell.reached(budget), base.reached(budget)
        if ours and theirs:
            difference = ours.mean - theirs.mean
            return _verdict(
                claim,
                difference >= ahead / 2,
                f"Here, within {hours}/{epoch} of an epoch of fine-tuning "
                f"({budget:,.0f} s), {difference:+.2f}; it holds from half of "
                "theirs on.",
            )
    return Verdict(claim, UNKNOWN, "")


def _is_large(dataset: Dataset, task: str) -> bool:
    """Whether it is that task, and as large as the claim means it."""
    return dataset.task == task and dataset.size == "large"


def _list(values: Mapping[str, float], form: str) -> str:
    return ", ".join(
        f"{_name(name)} {form.format(value)}" for name, value in values.items()
    )


def _name(approach: str) -> str:
    return approach.replace("_", " ")
