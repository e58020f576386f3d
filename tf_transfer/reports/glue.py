"""Wang's tables and figures, from any runs of `tf_transfer.glue`.

Every figure is a mean over seeds, with its standard deviation and n. Only the
better of an approach's rates is compared, as in the paper; which one is better
is decided on validation.
"""

from tf_transfer.reports import claims
from tf_transfer.reports import compare
from tf_transfer.reports import figures
from tf_transfer.reports import statistics
from tf_transfer.reports import studies
from tf_transfer.reports.document import Figure
from tf_transfer.reports.document import Heading
from tf_transfer.reports.document import Items
from tf_transfer.reports.document import Table
from tf_transfer.reports.document import Text
from tf_transfer.reports.options import Options
from tf_transfer.reports.words import notes_on_model
from tf_transfer.reports.words import notes_on_times
from tf_transfer.reports.words import percent
from tf_transfer.reports.words import points
from tf_transfer.reports.words import spread

MINILM_KNOWS = ("qqp", "mnli")  # it was tuned on them before
TABLE_NUMBERS = {
    "mnli": 2,
    "qqp": 3,
    "qnli": 4,
    "sst2": 5,
    "cola": 6,
    "stsb": 7,
    "mrpc": 8,
    "rte": 9,
}
INFERRED = (
    "The numbers of the paper's tables 3, 4 and 9 are inferred from the order "
    "of its tasks."
)


def sections(study, summary, published, options=Options()):
    """The parts of a report on one study.

    Args:
        study: `studies.Study`.
        summary: what `summary.make` gave.
        published: what `experiments/glue/published.json` says, or {}.
        options: `Options`.
    """
    return GlueReport(study, summary, published, options).parts()


class GlueReport:
    """One study's parts; see `sections`."""

    def __init__(self, study, summary, published, options):
        self.study = study
        self.summary = summary
        self.published = published
        self.budgets = options.budgets
        self.real = [d for d in study.datasets if d.data != "sample"]
        self.judged = [d for d in self.real if self._may_be_judged(d)]
        self.notes = []

    def _may_be_judged(self, dataset):
        return not (
            self.study.model == "minilm" and dataset.task in MINILM_KNOWS
        )

    def parts(self):
        """Everything, in the order of the paper's argument."""
        parts = [
            *self.overview(),
            *self.averages(),
            *self.per_epoch(),
            *self.rates(),
            *self.curves(),
            *self.fixed_times(),
            *self.front(),
            *self.verdicts(),
        ]
        return [*parts, *self.footnotes()]

    def note(self, text):
        """The mark of a footnote, such as `[2]`."""
        if text not in self.notes:
            self.notes.append(text)
        return f"[{self.notes.index(text) + 1}]"

    # === Scores and times at the stopping point ===

    def overview(self):
        """Every approach at its better rate, beside fine-tuning."""
        rows = []
        for dataset in self.study.datasets:
            known = compare.facts_of(self.summary, self.study, dataset)
            majority = known.get("majority")
            for way in dataset.ways():
                cell = dataset.best(way)
                rows.append(
                    (
                        self._dataset_name(dataset),
                        studies.way_name(way),
                        f"{cell.lr:g}",
                        points(majority and 100 * majority),
                        spread(cell.score),
                        str(cell.score.n) if cell.score else "",
                        *self._against_base(cell),
                        *self._times(cell),
                        f"{cell.mean('trainable_parameters').mean:,.0f}",
                    )
                )
        caption = (
            "At the stopping point: test scores in points, mean ± standard "
            "deviation over n seeds, each approach at its better rate"
            + self.note(
                "Better on validation; on the test set where nothing "
                "validates. The score is that of the epoch that --select "
                f"chose: {self.study.settings['select']}."
            )
        )
        columns = (
            "task",
            "trains",
            "lr",
            "majority",
            "score",
            "n",
            "against fine-tuning",
            "Welch p",
            "bootstrap 95 %"
            + self.note(
                "Paired, over test examples: both sides are scored on the "
                f"same {statistics.RESAMPLES:,} samples of the test set, each "
                "side as the mean of its seeds. It knows the luck of the test "
                'set, Welch\'s test that of the seeds. "Not significant" '
                "stands where either says so."
            ),
            "time, s",
            "time saved",
            "s an epoch",
            "share of an epoch",
            "epochs",
            "prefix, s"
            + self.note(
                "Of cached runs: the original cost of building the prefix "
                "cache, whoever built it. It is part of the time to the "
                "stopping point and not of an epoch."
            ),
            "trained parameters",
        )
        table = Table(f"overview_{self.study.name}", caption, columns, rows)
        return [
            Heading(3, "Score and cost at the stopping point"),
            table,
            *self.other_metrics(),
        ]

    def other_metrics(self):
        """What is measured beside the headline metric, where anything is."""
        rows = []
        for dataset in self.study.datasets:
            for way in dataset.ways():
                cell = dataset.best(way)
                for name in cell.records[0]["metrics"]:
                    if name != dataset.metric:
                        rows.append(
                            (
                                dataset.name,
                                studies.way_name(way),
                                name,
                                spread(cell.metric(name)),
                                str(len(cell.records)),
                            )
                        )
        if not rows:
            return []
        caption = "Beside the headline metric, in points"
        columns = ("task", "trains", "metric", "score", "n")
        name = f"other_metrics_{self.study.name}"
        return [Table(name, caption, columns, rows)]

    def _dataset_name(self, dataset):
        if dataset.data == "sample":
            return (
                dataset.name
                + " "
                + self.note(
                    "`sample`: a few hand-written examples that ship with the "
                    "package. Its scores mean nothing and enter no average."
                )
            )
        if not self._may_be_judged(dataset):
            return (
                dataset.name
                + " "
                + self.note(
                    "`minilm` was tuned on this data before: no verdict."
                )
            )
        return dataset.name

    def _against_base(self, cell):
        base = cell.dataset.base
        if base is None or base is cell or not (base.score and cell.score):
            return "", "", ""
        difference = f"{cell.score.mean - base.score.mean:+.2f}"
        test = statistics.welch(cell.scores, base.scores)
        paired = self.summary["paired"].get(
            compare.pair_id(self.study, cell, base)
        )
        if compare.is_significant(test, paired) is False:
            difference += ", not significant"
        return (
            difference,
            f"{test.p:.3f}" if test else "",
            f"{100 * paired['low']:+.2f} to {100 * paired['high']:+.2f}"
            if paired
            else "",
        )

    def _times(self, cell):
        base = cell.dataset.base
        saved = share = ""
        if base and base is not cell:
            found = compare.time_saved(cell, base)
            saved = percent(found)
            share = percent(compare.epoch_share(cell, base))
        epoch = cell.seconds_per_epoch
        return (
            spread(cell.seconds, 1),
            saved,
            spread(epoch, 1),
            share,
            self._epochs(cell),
            spread(cell.mean("prefix_build_seconds"), 1),
        )

    def _epochs(self, cell):
        text = f"{cell.mean('epochs_run').mean:.1f}"
        if cell.cut_off:
            text += " " + self.note(
                "Some or all of these runs ended at their most epochs "
                f"({self.study.settings['max_epochs']}), not because "
                "validation had stopped rising: their time to the stopping "
                "point is that of the limit."
            )
        return text

    # === Averages over large and small tasks ===

    def averages(self):
        """Time saved and score lost, beside the paper's."""
        rows = []
        for size in ("large", "small"):
            for way in self.study.ways():
                if way[0] == studies.BASE:
                    continue
                found = compare.average(self.judged, size, way)
                saved = self._published("time_saved", size, way)
                lost = self._published("score_lost", size, way)
                if not found.count and not saved and not lost:
                    continue
                rows.append(
                    (
                        f"{size}, {studies.way_name(way)}",
                        str(found.count),
                        ", ".join(found.tasks),
                        spread(found.saved, 1, " %"),
                        saved and f"{saved:g} %",
                        spread(found.lost),
                        lost and f"{lost:g}",
                    )
                )
        rows += self._single_tasks()
        if not rows:
            return []
        caption = (
            "Against fine-tuning, mean ± standard deviation over tasks. Large "
            f"tasks have {studies.LARGE_FROM:,} training examples or more, "
            f"small ones {studies.SMALL_UP_TO:,} at most"
        )
        notes = "".join(
            self.note(text) for text in self.published.get("footnotes", ())
        )
        columns = (
            "tasks, trains",
            "n tasks",
            "which",
            "time saved",
            "time saved, Wang" + notes,
            "score lost, points",
            "score lost, Wang",
        )
        rows = [tuple(cell or "" for cell in row) for row in rows]
        return [
            Heading(3, "Time saved and score lost"),
            Table(f"averages_{self.study.name}", caption, columns, rows),
        ]

    def _single_tasks(self):
        """Rows of tasks that the paper's text names by themselves."""
        rows = []
        named = self.published.get("time_saved_of_task", {})
        for task, given in named.items():
            for approach, theirs in given.items():
                way = (approach, False)
                same = [d for d in self.judged if d.task == task]
                found = compare.average(same, "large", way)
                if way in self.study.ways():
                    rows.append(
                        (
                            f"{task}, {studies.way_name(way)}",
                            str(found.count),
                            ", ".join(found.tasks),
                            spread(found.saved, 1, " %"),
                            f"{theirs:g} %",
                            spread(found.lost),
                            None,
                        )
                    )
        return rows

    def _published(self, what, size, way):
        """The paper's figure; it has none of cached runs."""
        approach, cached = way
        if cached:
            return None
        return self.published.get(what, {}).get(size, {}).get(approach)

    # === Tables 2 to 9 ===

    def per_epoch(self):
        """Score / seconds after each epoch, a table a task."""
        parts = [Heading(3, "After each epoch")]
        for dataset in self.study.datasets:
            cells = [
                cell for way in dataset.ways() for cell in dataset.rates(way)
            ]
            longest = max(
                len(record["epochs"]) for c in cells for record in c.records
            )
            rows = []
            for cell in cells:
                row = [
                    studies.way_name(cell.way),
                    f"{cell.lr:g}",
                    str(len(cell.records)),
                ]
                for number in range(1, longest + 1):
                    score, seconds = cell.at_epoch(number)
                    text = ""
                    if score:
                        time = f"{seconds.mean:.0f}" if seconds else "-"
                        text = f"{spread(score)} / {time}"
                        if score.n < len(cell.records):
                            text += f" ({score.n})"
                    row.append(text)
                rows.append(tuple(row))
            number = None
            if _is_official(dataset.data):
                number = TABLE_NUMBERS.get(dataset.task)
            caption = (
                f"{self._dataset_name(dataset)}, {dataset.metric}: test score "
                "/ seconds of training"
                + (f" (the paper's table {number})" if number else "")
                + (self.note(INFERRED) if number in (3, 4, 9) else "")
                + self.note(
                    "Means over the seeds that ran so many epochs; (1) where "
                    "only one of several did."
                )
            )
            columns = ["trains", "lr", "n"]
            columns += [f"epoch {n}" for n in range(1, longest + 1)]
            parts.append(
                Table(
                    f"epochs_{self.study.name}_{dataset.name}",
                    caption,
                    tuple(columns),
                    rows,
                )
            )
        return parts

    # === The two learning rates ===

    def rates(self):
        """Every approach at every rate it was run at."""
        rows = []
        for dataset in self.study.datasets:
            for way in dataset.ways():
                cells = dataset.rates(way)
                if len(cells) < 2:
                    continue
                best = dataset.best(way)
                for cell in cells:
                    drop = compare.lower_by(cell, best)
                    rows.append(
                        (
                            self._dataset_name(dataset),
                            studies.way_name(way),
                            f"{cell.lr:g}",
                            spread(cell.score),
                            str(len(cell.records)),
                            "better" if cell is best else percent(drop),
                            spread(cell.seconds_per_epoch, 1),
                            spread(cell.seconds, 1),
                        )
                    )
        if not rows:
            return []
        caption = "The learning rates of an approach beside each other"
        columns = (
            "task",
            "trains",
            "lr",
            "score",
            "n",
            "lower than at the better by",
            "s an epoch",
            "time, s",
        )
        table = Table(f"rates_{self.study.name}", caption, columns, rows)
        return [Heading(3, "Learning rates"), table]

    # === Figures ===

    def curves(self):
        """Score against time."""
        figure = figures.score_against_time(
            self.study, self.real or self.study.datasets
        )
        if figure is None:
            return []
        return [Heading(3, "Score against time"), figure]

    def front(self):
        """What no other approach beats in both score and time."""
        rows = []
        for dataset in self.real:
            front = compare.on_front(dataset)
            rows += [
                (
                    dataset.name,
                    studies.way_name(cell.way),
                    f"{cell.lr:g}",
                    spread(cell.seconds, 1),
                    spread(cell.score),
                    str(len(cell.records)),
                )
                for cell in sorted(front, key=lambda c: c.seconds.mean)
            ]
        if not rows:
            return []
        caption = (
            "What nothing else beats in both: the Pareto front of mean score "
            "against mean time to the stopping point"
        )
        columns = ("task", "trains", "lr", "time, s", "score", "n")
        figure = figures.fronts(self.study, self.real, compare.on_front)
        return [
            Heading(3, "Worth its time"),
            Table(f"pareto_{self.study.name}", caption, columns, rows),
            *([figure] if isinstance(figure, Figure) else []),
        ]

    # === Fixed times ===

    def fixed_times(self):
        """What each approach has reached within a time."""
        parts = []
        for dataset in self.real:
            budgets = self.budgets or compare.quarters(dataset)
            rows = []
            for budget in budgets:
                reached = {
                    way: dataset.best(way).reached(budget)
                    for way in dataset.ways()
                }
                known = {way: m.mean for way, m in reached.items() if m}
                best = max(known, key=known.get) if known else None
                cells = [
                    f"**{spread(reached[way])}**"
                    if way == best
                    else spread(reached[way])
                    for way in dataset.ways()
                ]
                rows.append(
                    (
                        f"{budget:,.0f} s",
                        *cells,
                        studies.way_name(best) if best else "none",
                    )
                )
            if not rows:
                continue
            caption = (
                f"{dataset.name}: test score reached within a time"
                + self.note(
                    "Of the epochs that are over by then, the one that is "
                    "best on validation; empty where a seed has ended none."
                )
            )
            names = [studies.way_name(way) for way in dataset.ways()]
            parts.append(
                Table(
                    f"fixed_times_{self.study.name}_{dataset.name}",
                    caption,
                    ("within", *names, "best"),
                    rows,
                )
            )
        return [Heading(3, "Within a fixed time"), *parts] if parts else []

    # === The paper's claims ===

    def verdicts(self):
        """A sentence for each of the paper's claims."""
        found = claims.judge(self.judged, self.published)
        if not found:
            return []
        items = tuple(
            f"{verdict.claim}: **{verdict.word}**. {verdict.numbers}".rstrip()
            for verdict in found
        )
        return [
            Heading(3, "The paper's claims"),
            Text(
                f"On {self.study.model}, {self.study.blocks} blocks"
                + (
                    '; the paper\'s encoder has 12, so "last 4" is another '
                    "share of it here."
                    if self.study.blocks != 12
                    else "."
                )
            ),
            Items(items),
        ]

    # === What to know when reading ===

    def footnotes(self):
        """Numbered footnotes, and where the study is not the paper's."""
        self._note_differences()
        items = self.notes or ["None."]
        return [Heading(3, "Footnotes"), Items(tuple(items), numbered=True)]

    def _note_differences(self):
        settings = self.study.settings
        theirs = self.published.get("settings", {})
        known = {**settings, "model": self.study.model}
        for name, value in theirs.items():
            if known.get(name) != value:
                self.note(
                    f"Not as in the paper: `{name}` is {known.get(name)}, "
                    f"there {value}."
                )
        sources = sorted({d.data for d in self.study.datasets})
        if any(not _is_official(name) for name in sources):
            self.note(f"Not as in the paper: data from {', '.join(sources)}.")
        if any(way[1] for way in self.study.ways()):
            self.note(
                "Not in the paper: cached runs have no dropout in their frozen "
                "blocks. They are rows of their own, never averaged with live "
                "ones."
            )
        for text in notes_on_model(self.study.model):
            self.note(text)
        for text in notes_on_times(self.study):
            self.note(text)
        self.note(
            "Settings on which the paper is silent, and what we chose: "
            "experiments/glue/README.md."
        )


def _is_official(data):
    return data == "tfds" or data not in ("sample", "rotten_tomatoes")
