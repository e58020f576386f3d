"""Records in order: studies, data sets, and cells of runs that differ by seed.

Only what differs in nothing but approach, rate and seed is compared, and only
seeds are averaged. Times are compared only among runs of the same timing
environment: devices, processor, threads and number of runs at once.
"""

import collections
import dataclasses
import json
import re
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Sequence
from typing import Any

from tf_transfer.reports import reading
from tf_transfer.reports import statistics
from tf_transfer.reports.reading import Record

SMALL_UP_TO = 10_000  # training examples; "less than 10,000", Wang
LARGE_FROM = 50_000  # Wang's large tasks begin at 60,614
BASE = "fine_tuning"

# An approach, and whether its frozen prefix is cached: a curve, a colour.
Variant = tuple[str, bool]


@dataclasses.dataclass
class Cell:
    """Runs of one approach at one rate on one data set, one for each seed.

    Attributes:
        dataset: the one that it belongs to.
        approach: such as `last_2`.
        cached: whether the frozen prefix is cached.
        lr: learning rate.
        records: of its runs.
        timed: those of its records whose times may be compared.
    """

    dataset: "Dataset"
    approach: str
    cached: bool
    lr: float
    records: list[Record]
    timed: list[Record]

    @property
    def id(self) -> str:
        """Tells it from all other cells of its study."""
        mode = "cached" if self.cached else "live"
        return f"{self.dataset.name}|{self.approach}|{mode}|{self.lr:g}"

    @property
    def variant(self) -> Variant:
        """Approach, and whether its prefix is cached."""
        return self.approach, self.cached

    @property
    def n(self) -> str:
        """The number of its runs, as tables show it."""
        return str(len(self.records))

    @property
    def cut_off(self) -> int:
        """How many of its runs ended because of --max_epochs."""
        return sum(r["stop_reason"] == "max_epochs" for r in self.records)

    @property
    def scores(self) -> list[float]:
        """Test scores of the seeds, in points."""
        return [
            100 * record["test"]
            for record in self.records
            if record["test"] is not None
        ]

    @property
    def score(self) -> statistics.Mean | None:
        """`Mean` of the test scores, in points."""
        return statistics.mean_of(self.scores)

    @property
    def validation(self) -> statistics.Mean | None:
        """`Mean` of the validation scores, in points, or None."""
        return statistics.mean_of(
            100 * record["validation"]
            for record in self.records
            if record["validation"] is not None
        )

    @property
    def quality(self) -> float:
        """Mean validation score, else test score: what chooses among cells."""
        mean = self.validation or self.score
        return mean.mean if mean else float("-inf")

    @property
    def seconds(self) -> statistics.Mean | None:
        """`Mean` of the seconds to the stopping point; see `seconds_of`."""
        return statistics.mean_of(map(seconds_of, self.timed))

    @property
    def seconds_per_epoch(self) -> statistics.Mean | None:
        """`Mean` of the seconds of an epoch, the first ones left out."""
        return self.mean("seconds_per_epoch", timed=True)

    @property
    def trained_parameters(self) -> int:
        """How many parameters its first run trains."""
        return self.records[0]["trainable_parameters"]

    @property
    def memory(self) -> float:
        """The peak memory of its runs, in bytes."""
        return max(record["memory"] for record in self.records)

    def values(self, metric: str) -> list[float]:
        """A metric of the selected epoch of each run, in points."""
        return [
            100 * record["metrics"][metric]
            for record in self.records
            if metric in record["metrics"]
        ]

    def metric(self, name: str) -> statistics.Mean | None:
        """`Mean` of a metric of the selected epochs, in points."""
        return statistics.mean_of(self.values(name))

    def mean(self, name: str, timed: bool = False) -> statistics.Mean | None:
        """`Mean` of a record's entry, over all runs or those timed."""
        records = self.timed if timed else self.records
        return statistics.mean_of(record[name] for record in records)

    def at_epoch(
        self, number: int
    ) -> tuple[statistics.Mean | None, statistics.Mean | None]:
        """(`Mean` score in points, `Mean` seconds) after so many epochs."""
        reaching = [r for r in self.records if len(r["epochs"]) >= number]
        timed = [r for r in self.timed if len(r["epochs"]) >= number]
        scores = [r["epochs"][number - 1]["test"] for r in reaching]
        return (
            statistics.mean_of(100 * s for s in scores if s is not None),
            statistics.mean_of(
                r["epochs"][number - 1]["seconds"] + unpaid_prefix_seconds(r)
                for r in timed
            ),
        )

    def reached(self, budget: float) -> statistics.Mean | None:
        """`Mean` of what each seed has reached within so many seconds.

        That is the test score of the epoch that is best on validation among
        those that are over by then (of the last one, where runs select that);
        None unless every seed has ended one.
        """
        reached = [score_within(record, budget) for record in self.timed]
        if not reached or None in reached:
            return None
        return statistics.mean_of(100 * s for s in reached if s is not None)


def unpaid_prefix_seconds(record: Record) -> float:
    """Seconds to add to a cached run: as if it had built its prefix itself."""
    if not record["cached"]:
        return 0.0
    return record["prefix_build_seconds"] - record["prefix_seconds"]


def seconds_of(record: Record) -> float:
    """Seconds to the stopping point, the whole prefix included."""
    return record["seconds"] + unpaid_prefix_seconds(record)


def score_within(record: Record, budget: float) -> float | None:
    """The test score that one run has reached within so many seconds."""
    over = [
        epoch
        for epoch in record["epochs"]
        if epoch["seconds"] + unpaid_prefix_seconds(record) <= budget
        and epoch["test"] is not None
    ]
    if not over:
        return None
    if over[0]["validation"] is None or record["key"].get("select") == "last":
        return over[-1]["test"]
    return max(over, key=lambda epoch: epoch["validation"])["test"]


@dataclasses.dataclass
class Dataset:
    """A task on one set of files, and its cells.

    Attributes:
        name: the task, with a number where there are several sets of files.
        task: such as `rte`.
        metric: the task's headline metric.
        identity: of the files.
        data: what `--data` said.
        sizes: number of examples of each split.
        cells: by approach, whether cached, and rate.
    """

    name: str
    task: str
    metric: str
    identity: str
    data: str
    sizes: dict[str, int]
    cells: dict[tuple[str, bool, float], Cell]

    @property
    def size(self) -> str | None:
        """`small` or `large` as the paper means it, or None."""
        if self.data == "sample":
            return None  # its scores mean nothing
        if self.sizes["train"] <= SMALL_UP_TO:
            return "small"
        return "large" if self.sizes["train"] >= LARGE_FROM else None

    @property
    def records(self) -> list[Record]:
        """Of all its cells."""
        return [r for cell in self.cells.values() for r in cell.records]

    def variants(self) -> list[Variant]:
        """The variants that were run, fine-tuning first."""
        variants = {cell.variant for cell in self.cells.values()}
        return sorted(variants, key=variant_order)

    def cells_by_rate(self, variant: Variant) -> list[Cell]:
        """The cells of a variant, by learning rate."""
        return sorted(
            (c for c in self.cells.values() if c.variant == variant),
            key=lambda cell: cell.lr,
        )

    def best(self, variant: Variant) -> Cell | None:
        """The cell at the better rate, or None; by validation, else test."""
        return max(
            self.cells_by_rate(variant),
            key=lambda cell: (cell.quality, -cell.lr),
            default=None,
        )

    def best_cells(self) -> list[Cell]:
        """Each variant's cell at its better rate, fine-tuning first."""
        return [
            cell for variant in self.variants() if (cell := self.best(variant))
        ]

    @property
    def base(self) -> Cell | None:
        """Fine-tuning at its better rate, or None."""
        return self.best((BASE, False))


@dataclasses.dataclass
class Study:
    """Runs that may be compared.

    Attributes:
        name: `A`, `B`, ...
        settings: what all of them share, as in their keys.
        datasets: tasks and their cells.
        untimed: how many runs were timed in another environment.
        records: of all its runs.
    """

    name: str
    settings: dict[str, Any]
    datasets: list[Dataset]
    untimed: int
    records: list[Record]

    def variants(self) -> list[Variant]:
        """The variants of any data set, fine-tuning first."""
        variants = {v for dataset in self.datasets for v in dataset.variants()}
        return sorted(variants, key=variant_order)

    @property
    def experiment(self) -> str:
        """Such as `glue`."""
        return self.records[0]["experiment"]

    @property
    def blocks(self) -> int:
        """Blocks of its encoder."""
        return self.records[0]["blocks"]

    @property
    def model(self) -> str:
        """What `--model` said."""
        return self.records[0]["model"]


def variant_order(variant: Variant) -> tuple[Any, ...]:
    """A sort key: fine-tuning, then by blocks trained, live before cached."""
    approach, cached = variant
    number = re.fullmatch(r"last_(\d+)", approach)
    if approach == BASE:
        rank = (0, 0)
    else:
        rank = (1, -int(number[1])) if number else (2, 0)
    return rank, approach, cached


def variant_name(variant: Variant) -> str:
    """A variant in words: `fine-tuning`, `last 4`, `last 4, cached`."""
    approach, cached = variant
    words = "fine-tuning" if approach == BASE else approach.replace("_", " ")
    return f"{words}, cached" if cached else words


def sort_into_studies(records: Iterable[Record]) -> list[Study]:
    """`Study`s of the records, the largest first."""
    groups = collections.defaultdict(list)
    for record in records:
        settings = json.dumps(reading.study_settings(record), sort_keys=True)
        groups[settings].append(record)
    ordered = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    return [
        _make_study(_letters(number), members)
        for number, (_, members) in enumerate(ordered)
    ]


def _letters(number: int) -> str:
    more, last = divmod(number, 26)
    return (_letters(more - 1) if more else "") + chr(ord("A") + last)


def _make_study(name: str, records: list[Record]) -> Study:
    groups = collections.defaultdict(list)
    for record in records:
        groups[record["task"], record["key"]["data_identity"]].append(record)
    sets_of_task = collections.Counter(task for task, _ in groups)
    numbers: collections.Counter[str] = collections.Counter()
    datasets, untimed = [], 0
    for (task, identity), members in sorted(
        groups.items(), key=lambda item: item[0]
    ):
        numbers[task] += 1
        title = task
        if sets_of_task[task] > 1:
            title = f"{task} ({numbers[task]})"
        is_timed = _timed_filter(members)
        untimed += sum(not is_timed(record) for record in members)
        dataset = Dataset(
            title,
            task,
            members[0]["metric"],
            identity,
            members[0]["data"],
            members[0]["sizes"],
            {},
        )
        _add_cells(dataset, members, is_timed)
        datasets.append(dataset)
    settings = reading.study_settings(records[0])
    return Study(name, settings, datasets, untimed, records)


def _add_cells(
    dataset: Dataset,
    records: list[Record],
    is_timed: Callable[[Record], bool],
) -> None:
    """Cached runs of another dtype than float16 are cells of their own."""
    groups = collections.defaultdict(list)
    for record in records:
        key = (record["approach"], record["cached"], record["lr"])
        groups[key].append(record)
    for (approach, cached, lr), members in sorted(groups.items()):
        by_dtype = collections.defaultdict(list)
        for record in members:
            dtype = record["key"].get("cache_dtype", "float16")
            by_dtype["" if dtype == "float16" else dtype].append(record)
        for dtype, same in by_dtype.items():
            label = f"{approach}, {dtype}" if dtype else approach
            timed = [record for record in same if is_timed(record)]
            dataset.cells[label, cached, lr] = Cell(
                dataset, label, cached, lr, same, timed
            )


def _timed_filter(records: list[Record]) -> Callable[[Record], bool]:
    """A function that says whether a record's times are compared.

    They are if its environment is the one of most records.
    """

    def environment(record: Record) -> str:
        shared = {
            name: record["timing_environment"][name]
            for name in reading.TIMING_ENVIRONMENT
        }
        return json.dumps(shared, sort_keys=True)

    def is_mixed(record: Record) -> bool:
        return record["timing_environment"]["mixed"]

    counts = collections.Counter(
        environment(record) for record in records if not is_mixed(record)
    )
    most = max(counts.values(), default=0)
    chosen = min(
        (key for key, count in counts.items() if count == most), default=None
    )
    return lambda record: not is_mixed(record) and environment(record) == chosen


def differing_settings(studies: Sequence[Study]) -> dict[str, list[Any]]:
    """The settings in which studies differ, with the value of each study."""
    names = sorted({name for study in studies for name in study.settings})
    differing = {}
    for name in names:
        values = [study.settings.get(name) for study in studies]
        if len({json.dumps(value) for value in values}) > 1:
            differing[name] = values
    return differing
