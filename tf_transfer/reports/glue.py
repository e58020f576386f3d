"""Wang's tables and figures, from any runs of `tf_transfer.glue`.

Every figure is a mean over seeds, with its standard deviation and n. Only the
better of an approach's rates is compared, as in the paper; which one is better
is decided on validation.
"""

from typing import Any

from tf_transfer.reports import claims
from tf_transfer.reports import compare
from tf_transfer.reports import figures
from tf_transfer.reports import statistics
from tf_transfer.reports import studies
from tf_transfer.reports.document import Heading
from tf_transfer.reports.document import Items
from tf_transfer.reports.document import Part
from tf_transfer.reports.document import Table
from tf_transfer.reports.document import Text
from tf_transfer.reports.options import Options
from tf_transfer.reports.studies import Cell
from tf_transfer.reports.studies import Dataset
from tf_transfer.reports.studies import Study
from tf_transfer.reports.studies import variant_name
from tf_transfer.reports.words import not_as_in_the_paper
from tf_transfer.reports.words import notes_on_model
from tf_transfer.reports.words import notes_on_times
from tf_transfer.reports.words import percent
from tf_transfer.reports.words import points
from tf_transfer.reports.words import spread

IS_PAIRED = True  # a summary keeps bootstraps against fine-tuning

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


def sections(
    study: Study,
    summary: dict[str, Any],
    published: dict[str, Any],
    options: Options = Options(),
) -> list[Part]:
    """The parts of a report on one study.

    Args:
        study: of runs that may be compared.
        summary: what `summary.summarize` returned.
        published: content of `experiments/glue/published.json`, or {}.
        options: what the reader asks for.
    """
    return GlueReport(study, summary, published, options).parts()


class GlueReport:
    """One study's parts; see `sections`.

    Attributes:
        real: the data sets that are not the hand-written sample.
        judged: those of them on which there are verdicts.
        notes: the footnotes so far.
    """

    def __init__(
        self,
        study: Study,
        summary: dict[str, Any],
        published: dict[str, Any],
        options: Options,
    ) -> None:
        self.study = study
        self.summary = summary
        self.published = published
        self.budgets = options.budgets
        self.real = [d for d in study.datasets if d.data != "sample"]
        self.judged = [d for d in self.real if self._may_be_judged(d)]
        self.notes: list[str] = []

    def _may_be_judged(self, dataset: Dataset) -> bool:
        return not (
            self.study.model == "minilm" and dataset.task in MINILM_KNOWS
        )

    def parts(self) -> list[Part]:
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

    def note(self, text: str) -> str:
        """The mark of a footnote, such as `[2]`."""
        if text not in self.notes:
            self.notes.append(text)
        return f"[{self.notes.index(text) + 1}]"

    # === Scores and times at the stopping point ===

    def overview(self) -> list[Part]:
        """Every approach at its better rate, beside fine-tuning."""
        rows = []
        for dataset in self.study.datasets:
            facts = compare.facts_of(self.summary, self.study, dataset)
            majority = facts.get("majority")
            for cell in dataset.best_cells():
                trained = cell.mean("trainable_parameters")
                rows.append(
                    (
                        self._dataset_name(dataset),
                        variant_name(cell.variant),
                        f"{cell.lr:g}",
                        points(majority and 100 * majority),
                        spread(cell.score),
                        str(cell.score.n) if cell.score else "",
                        *self._against_base(cell),
                        *self._times(cell),
                        f"{trained.mean:,.0f}" if trained else "",
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
                "Paired, over test examples: both approaches are scored on the "
                f"same {statistics.RESAMPLES:,} samples of the test set, each "
                "as the mean of its seeds. It knows the luck of the test "
                'set, Welch\'s test that of the seeds. "Not significant" '
                "stands where either says so."
            ),
            "time, s",
            "time saved",
            "s per epoch",
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

    def other_metrics(self) -> list[Part]:
        """What is measured beside the headline metric, where anything is."""
        rows = [
            (
                dataset.name,
                variant_name(cell.variant),
                name,
                spread(cell.metric(name)),
                cell.n,
            )
            for dataset in self.study.datasets
            for cell in dataset.best_cells()
            for name in cell.records[0]["metrics"]
            if name != dataset.metric
        ]
        if not rows:
            return []
        caption = "Beside the headline metric, in points"
        columns = ("task", "trains", "metric", "score", "n")
        name = f"other_metrics_{self.study.name}"
        return [Table(name, caption, columns, rows)]

    def _dataset_name(self, dataset: Dataset) -> str:
        if dataset.data == "sample":
            mark = self.note(
                "`sample`: a few hand-written examples that ship with the "
                "package. Its scores mean nothing and enter no average."
            )
            return f"{dataset.name} {mark}"
        if not self._may_be_judged(dataset):
            mark = self.note(
                "`minilm` was tuned on this data before: no verdict."
            )
            return f"{dataset.name} {mark}"
        return dataset.name

    def _against_base(self, cell: Cell) -> tuple[str, str, str]:
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

    def _times(self, cell: Cell) -> tuple[str, ...]:
        base = cell.dataset.base
        saved = share = ""
        if base and base is not cell:
            saved = percent(compare.time_saved(cell, base))
            share = percent(compare.epoch_share(cell, base))
        return (
            spread(cell.seconds, 1),
            saved,
            spread(cell.seconds_per_epoch, 1),
            share,
            self._epochs(cell),
            spread(cell.mean("prefix_build_seconds"), 1),
        )

    def _epochs(self, cell: Cell) -> str:
        epochs = cell.mean("epochs_run")
        text = f"{epochs.mean:.1f}" if epochs else ""
        if cell.cut_off:
            text += " " + self.note(
                "Some or all of these runs ended at --max_epochs "
                f"({self.study.settings['max_epochs']}), not because "
                "validation had stopped rising: their time to the stopping "
                "point is that of the limit."
            )
        return text

    # === Averages over large and small tasks ===

    def averages(self) -> list[Part]:
        """Time saved and score lost, beside the paper's."""
        rows = []
        for size in ("large", "small"):
            for variant in self.study.variants():
                if variant[0] == studies.BASE:
                    continue
                average = compare.average(self.judged, size, variant)
                saved = self._published("time_saved", size, variant)
                lost = self._published("score_lost", size, variant)
                if average.count or saved or lost:
                    name = f"{size}, {variant_name(variant)}"
                    rows.append(_average_row(name, average, saved, lost))
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
        return [
            Heading(3, "Time saved and score lost"),
            Table(f"averages_{self.study.name}", caption, columns, rows),
        ]

    def _single_tasks(self) -> list[tuple[str, ...]]:
        """Rows of tasks that the paper's text names by themselves."""
        rows = []
        named = self.published.get("time_saved_of_task", {})
        for task, given in named.items():
            same = [d for d in self.judged if d.task == task]
            for approach, theirs in given.items():
                variant = (approach, False)
                if variant in self.study.variants():
                    average = compare.average(same, "large", variant)
                    name = f"{task}, {variant_name(variant)}"
                    rows.append(_average_row(name, average, theirs, None))
        return rows

    def _published(
        self, figure: str, size: str, variant: studies.Variant
    ) -> float | None:
        """The paper's figure; it has none of cached runs."""
        approach, cached = variant
        if cached:
            return None
        return self.published.get(figure, {}).get(size, {}).get(approach)

    # === Tables 2 to 9 ===

    def per_epoch(self) -> list[Part]:
        """Score / seconds after each epoch, a table for each task."""
        return [
            Heading(3, "After each epoch"),
            *map(self._epochs_of_task, self.study.datasets),
        ]

    def _epochs_of_task(self, dataset: Dataset) -> Table:
        cells = [
            cell
            for variant in dataset.variants()
            for cell in dataset.cells_by_rate(variant)
        ]
        longest = max(len(record["epochs"]) for record in dataset.records)
        rows = [
            (
                variant_name(cell.variant),
                f"{cell.lr:g}",
                cell.n,
                *(_after_epoch(cell, n) for n in range(1, longest + 1)),
            )
            for cell in cells
        ]
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
        epochs = [f"epoch {n}" for n in range(1, longest + 1)]
        name = f"epochs_{self.study.name}_{dataset.name}"
        return Table(name, caption, ("trains", "lr", "n", *epochs), rows)

    # === The two learning rates ===

    def rates(self) -> list[Part]:
        """Every approach at every rate it was run at."""
        rows = []
        for dataset in self.study.datasets:
            for best in dataset.best_cells():
                cells = dataset.cells_by_rate(best.variant)
                if len(cells) < 2:
                    continue
                for cell in cells:
                    drop = compare.lower_by(cell, best)
                    rows.append(
                        (
                            self._dataset_name(dataset),
                            variant_name(cell.variant),
                            f"{cell.lr:g}",
                            spread(cell.score),
                            cell.n,
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
            "s per epoch",
            "time, s",
        )
        table = Table(f"rates_{self.study.name}", caption, columns, rows)
        return [Heading(3, "Learning rates"), table]

    # === Figures ===

    def curves(self) -> list[Part]:
        """Score against time."""
        figure = figures.score_against_time(
            self.study, self.real or self.study.datasets
        )
        return [Heading(3, "Score against time"), figure] if figure else []

    def front(self) -> list[Part]:
        """What no other approach surpasses in both score and time."""
        rows = []
        for dataset in self.real:
            front = sorted(
                compare.pareto_front(dataset),
                key=lambda cell: cell.seconds.mean if cell.seconds else 0.0,
            )
            rows += [
                (
                    dataset.name,
                    variant_name(cell.variant),
                    f"{cell.lr:g}",
                    spread(cell.seconds, 1),
                    spread(cell.score),
                    cell.n,
                )
                for cell in front
            ]
        if not rows:
            return []
        caption = (
            "What nothing else surpasses in both: the Pareto front of mean "
            "score against mean time to the stopping point"
        )
        columns = ("task", "trains", "lr", "time, s", "score", "n")
        figure = figures.pareto_fronts(self.study, self.real)
        return [
            Heading(3, "Worth its time"),
            Table(f"pareto_{self.study.name}", caption, columns, rows),
            *([figure] if figure else []),
        ]

    # === Fixed times ===

    def fixed_times(self) -> list[Part]:
        """What each approach has reached within a time."""
        tables = [self._fixed_times_of_task(dataset) for dataset in self.real]
        parts = [table for table in tables if table.rows]
        return [Heading(3, "Within a fixed time"), *parts] if parts else []

    def _fixed_times_of_task(self, dataset: Dataset) -> Table:
        cells = dataset.best_cells()
        rows = []
        for budget in self.budgets or compare.quarters(dataset):
            reached = [cell.reached(budget) for cell in cells]
            known = [mean.mean for mean in reached if mean]
            texts, best = [], "none"
            for cell, mean in zip(cells, reached):
                text = spread(mean)
                if mean and best == "none" and mean.mean == max(known):
                    best, text = variant_name(cell.variant), f"**{text}**"
                texts.append(text)
            rows.append((f"{budget:,.0f} s", *texts, best))
        caption = f"{dataset.name}: test score reached within a time"
        if rows:
            caption += self.note(
                "Of the epochs that are over by then, the one that is "
                "best on validation; empty where a seed has ended none."
            )
        names = [variant_name(cell.variant) for cell in cells]
        name = f"fixed_times_{self.study.name}_{dataset.name}"
        return Table(name, caption, ("within", *names, "best"), rows)

    # === The paper's claims ===

    def verdicts(self) -> list[Part]:
        """A sentence for each of the paper's claims."""
        verdicts = claims.judge(self.judged, self.published)
        if not verdicts:
            return []
        items = tuple(
            f"{verdict.claim}: **{verdict.word}**. {verdict.numbers}".rstrip()
            for verdict in verdicts
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

    def footnotes(self) -> list[Part]:
        """Numbered footnotes, and where the study is not the paper's."""
        self._note_differences()
        items = self.notes or ["None."]
        return [Heading(3, "Footnotes"), Items(tuple(items), numbered=True)]

    def _note_differences(self) -> None:
        theirs = self.published.get("settings", {})
        ours = {**self.study.settings, "model": self.study.model}
        notes = not_as_in_the_paper(ours, theirs)
        sources = sorted({d.data for d in self.study.datasets})
        if not all(map(_is_official, sources)):
            notes.append(
                f"Not as in the paper: data from {', '.join(sources)}."
            )
        if any(cached for _, cached in self.study.variants()):
            notes.append(
                "Not in the paper: cached runs have no dropout in their frozen "
                "blocks. They are rows of their own, never averaged with live "
                "ones."
            )
        notes += notes_on_model(self.study.model)
        notes += notes_on_times(self.study)
        notes.append(
            "Settings on which the paper is silent, and what we chose: "
            "docs/glue.md."
        )
        for text in notes:
            self.note(text)


def _average_row(
    name: str,
    average: compare.Average,
    saved: float | None,
    lost: float | None,
) -> tuple[str, ...]:
    """A line: our `Average` beside the paper's figures."""
    return (
        name,
        str(average.count),
        ", ".join(average.tasks),
        spread(average.saved, 1, " %"),
        f"{saved:g} %" if saved else "",
        spread(average.lost),
        f"{lost:g}" if lost else "",
    )


def _after_epoch(cell: Cell, number: int) -> str:
    """Score / seconds after so many epochs, where any seed ran them."""
    score, seconds = cell.at_epoch(number)
    if not score:
        return ""
    time = f"{seconds.mean:.0f}" if seconds else "-"
    text = f"{spread(score)} / {time}"
    return text if score.n == len(cell.records) else f"{text} ({score.n})"


def _is_official(data: str) -> bool:
    return data not in ("sample", "rotten_tomatoes")
