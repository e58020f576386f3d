"""Records in order: studies, data sets, and cells of runs that differ by seed.

Only what differs in nothing but approach, rate and seed is set side by side,
and only seeds are averaged. Times are compared only among runs in the same
company: the same devices, processor, threads and number of runs at once.
"""

import collections
import dataclasses
import json
import re

from tf_transfer.reports import reading
from tf_transfer.reports import statistics

SMALL_UP_TO = 10_000  # training examples; "less than 10,000", Wang
LARGE_FROM = 50_000  # Wang's large tasks begin at 60,614
BASE = "fine_tuning"


@dataclasses.dataclass
class Cell:
    """Runs of one approach at one rate on one data set, a seed each.

    Attributes:
        timed: those of its records whose times may be compared.
    """

    dataset: object
    approach: str
    cached: bool
    lr: float
    records: list
    timed: list

    @property
    def id(self):
        """Tells it from all other cells of its study."""
        how = "cached" if self.cached else "live"
        return f"{self.dataset.name}|{self.approach}|{how}|{self.lr:g}"

    @property
    def cut_off(self):
        """How many of its runs ended at their most epochs."""
        return sum(r["stop_reason"] == "max_epochs" for r in self.records)

    @property
    def way(self):
        """Approach and whether its prefix is cached: a curve, a colour."""
        return self.approach, self.cached

    def _mean(self, function, of=None):
        chosen = self.records if of is None else of
        return statistics.mean_of([function(record) for record in chosen])

    @property
    def scores(self):
        """Test scores of the seeds, in points."""
        return [
            100 * record["test"]
            for record in self.records
            if record["test"] is not None
        ]

    @property
    def score(self):
        """`Mean` of the test scores, in points."""
        return statistics.mean_of(self.scores)

    @property
    def validation(self):
        """`Mean` of the validation scores, in points, or None."""
        return statistics.mean_of(
            100 * r["validation"]
            for r in self.records
            if r["validation"] is not None
        )

    @property
    def seconds(self):
        """`Mean` of the seconds to the stopping point; see `seconds_of`."""
        return self._mean(seconds_of, self.timed)

    @property
    def seconds_per_epoch(self):
        """`Mean` of the seconds of an epoch, the first ones left out."""
        return self._mean(lambda r: r["seconds_per_epoch"], self.timed)

    def metric(self, name):
        """`Mean` of another metric of the selected epoch, in points."""
        return self._mean(
            lambda r: 100 * r["metrics"][name] if name in r["metrics"] else None
        )

    def mean(self, name, timed=False):
        """`Mean` of a record's entry."""
        return self._mean(lambda r: r[name], self.timed if timed else None)

    def at_epoch(self, number):
        """(`Mean` score in points, `Mean` seconds) after so many epochs."""
        there = [r for r in self.records if len(r["epochs"]) >= number]
        timed = [r for r in self.timed if len(r["epochs"]) >= number]
        scores = [r["epochs"][number - 1]["test"] for r in there]
        return (
            statistics.mean_of(100 * s for s in scores if s is not None),
            statistics.mean_of(
                r["epochs"][number - 1]["seconds"] + own_build(r) for r in timed
            ),
        )

    def reached(self, budget):
        """`Mean` of what each seed has reached within so many seconds.

        That is the test score of the epoch that is best on validation among
        those that are over by then (of the last one, where runs select that);
        None unless every seed has ended one.
        """
        reached = [reached_by(record, budget) for record in self.timed]
        if not reached or None in reached:
            return None
        return statistics.mean_of(100 * score for score in reached)


def own_build(record):
    """Seconds to add to a cached run: as if it had built its prefix itself."""
    if not record["cached"]:
        return 0.0
    return record["prefix_build_seconds"] - record["prefix_seconds"]


def seconds_of(record):
    """Seconds to the stopping point, the whole prefix included."""
    return record["seconds"] + own_build(record)


def reached_by(record, budget):
    """The test score that one run has within a time, or None."""
    over = [
        epoch
        for epoch in record["epochs"]
        if epoch["seconds"] + own_build(record) <= budget
        and epoch["test"] is not None
    ]
    if not over:
        return None
    if over[0]["validation"] is None or record["key"].get("select") == "last":
        return over[-1]["test"]
    return max(over, key=lambda epoch: epoch["validation"])["test"]


@dataclasses.dataclass
class Dataset:
    """A task on one body of texts, and its cells.

    Attributes:
        name: the task, with a number where there are several bodies.
        cells: dict from (approach, cached, lr) to `Cell`.
    """

    name: str
    task: str
    metric: str
    identity: str
    data: str
    sizes: dict
    cells: dict

    @property
    def size(self):
        """`small` or `large` as the paper means it, or None."""
        if self.data == "sample":
            return None  # its scores mean nothing
        if self.sizes["train"] <= SMALL_UP_TO:
            return "small"
        return "large" if self.sizes["train"] >= LARGE_FROM else None

    def ways(self):
        """Every (approach, cached) there is, fine-tuning first."""
        return sorted({cell.way for cell in self.cells.values()}, key=way_order)

    def rates(self, way):
        """The cells of a way, by rate."""
        return sorted(
            (cell for cell in self.cells.values() if cell.way == way),
            key=lambda cell: cell.lr,
        )

    def best(self, way):
        """The cell at the better rate, or None; by validation, else test."""
        cells = self.rates(way)

        def quality(cell):
            mean = cell.validation or cell.score
            return (mean.mean if mean else float("-inf"), -cell.lr)

        return max(cells, key=quality) if cells else None

    @property
    def base(self):
        """Fine-tuning at its better rate, or None."""
        return self.best((BASE, False))


@dataclasses.dataclass
class Study:
    """Runs that may be set side by side.

    Attributes:
        name: `A`, `B`, ...
        settings: what all of them share, as in their keys.
        datasets: list of `Dataset`.
        untimed: how many runs were timed in other company.
    """

    name: str
    settings: dict
    datasets: list
    untimed: int
    records: list

    def ways(self):
        """Every (approach, cached) of any data set."""
        ways = {way for dataset in self.datasets for way in dataset.ways()}
        return sorted(ways, key=way_order)

    @property
    def blocks(self):
        """Blocks of its encoder."""
        return self.records[0]["blocks"]

    @property
    def model(self):
        """What `--model` said."""
        return self.records[0]["model"]


def way_order(way):
    """Fine-tuning first, then by how much trains, live before cached."""
    approach, cached = way
    number = re.fullmatch(r"last_(\d+)", approach)
    if approach == BASE:
        rank = (0, 0)
    else:
        rank = (1, -int(number[1])) if number else (2, 0)
    return rank, approach, cached


def way_name(way):
    """A way in words: `fine-tuning`, `last 4`, `last 4, cached`."""
    approach, cached = way
    words = "fine-tuning" if approach == BASE else approach.replace("_", " ")
    return f"{words}, cached" if cached else words


def sort_into_studies(records):
    """`Study`s of the records, the largest first."""
    grouped = collections.defaultdict(list)
    for record in records:
        identity = json.dumps(reading.study_of(record), sort_keys=True)
        grouped[identity].append(record)
    ordered = sorted(grouped.items(), key=lambda item: (-len(item[1]), item[0]))
    return [
        _study(_letters(number), some)
        for number, (_, some) in enumerate(ordered)
    ]


def _letters(number):
    more, here = divmod(number, 26)
    return (_letters(more - 1) if more else "") + chr(ord("A") + here)


def _study(name, records):
    bodies = collections.defaultdict(list)
    for record in records:
        identity = record["key"]["data_identity"]
        bodies[record["task"], identity].append(record)
    of_task = collections.Counter(task for task, _ in bodies)
    numbers = collections.Counter()
    datasets, untimed = [], 0
    for (task, identity), some in sorted(
        bodies.items(), key=lambda item: item[0]
    ):
        numbers[task] += 1
        name_here = task
        if of_task[task] > 1:
            name_here = f"{task} ({numbers[task]})"
        first = some[0]
        is_timed = _timing(some)
        untimed += sum(not is_timed(record) for record in some)
        dataset = Dataset(
            name_here,
            task,
            first["metric"],
            identity,
            first["data"],
            first["sizes"],
            {},
        )
        cells = collections.defaultdict(list)
        for record in some:
            key = (record["approach"], record["cached"], record["lr"])
            cells[key].append(record)
        for (approach, cached, lr), members in sorted(cells.items()):
            for dtype, same in _by_dtype(members).items():
                label = approach if not dtype else f"{approach}, {dtype}"
                dataset.cells[label, cached, lr] = Cell(
                    dataset,
                    label,
                    cached,
                    lr,
                    same,
                    [record for record in same if is_timed(record)],
                )
        datasets.append(dataset)
    return Study(name, reading.study_of(records[0]), datasets, untimed, records)


def _timing(records):
    """A function that says whether a record's times are compared.

    They are in the company that most of the records were in.
    """
    companies = collections.Counter(
        _company(record) for record in records if not record["company"]["mixed"]
    )
    most = max(companies.values(), default=0)
    chosen = min(
        (key for key, count in companies.items() if count == most), default=None
    )
    return lambda record: (
        not record["company"]["mixed"] and _company(record) == chosen
    )


def _by_dtype(members):
    """Cached runs of another dtype than float16 are cells of their own."""
    found = collections.defaultdict(list)
    for record in members:
        dtype = record["key"].get("cache_dtype", "float16")
        found["" if dtype == "float16" else dtype].append(record)
    return found


def _company(record):
    return json.dumps(
        {name: record["company"][name] for name in reading.COMPANY},
        sort_keys=True,
    )


def differences(studies):
    """Names and values in which studies differ, as a dict of lists."""
    names = sorted({name for study in studies for name in study.settings})
    found = {}
    for name in names:
        values = [study.settings.get(name) for study in studies]
        if len({json.dumps(value) for value in values}) > 1:
            found[name] = values
    return found
