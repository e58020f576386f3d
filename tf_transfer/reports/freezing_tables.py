"""What "What Would Elsa Do?" tabulates: quality at each number of blocks.

Scores are means over trials, taken twice: plainly, and as the authors did, who
leave out trials at 0 or not above 0.9 of the best. Beside each stands what it
costs.
"""

import dataclasses
import itertools
import re
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any

import pandas as pd

from tf_transfer.reports import claims
from tf_transfer.reports import details
from tf_transfer.reports import operating
from tf_transfer.reports.cells import spread
from tf_transfer.reports.options import Options
from tf_transfer.reports.study import Study
from tf_transfer.reports.study import Table

PUBLISHED_NAMES = {
    "bert_base_en_uncased": "bert-base",
    "roberta_base_en": "roberta-base",
    "bert_large_en_uncased": "bert-large",
    "roberta_large_en": "roberta-large",
}
PUBLISHED_TASKS = {
    "cola": "CoLA",
    "sst2": "SST-2",
    "mrpc": "MRPC",
    "stsb": "STS-B",
    "qqp": "QQP",
    "mnli": "MNLI",
    "mnli, mismatched": "MNLI-MM",
    "qnli": "QNLI",
    "rte": "RTE",
}
MISMATCHED = "mismatched_accuracy"
SWEEP_UNIT = 1e-5  # of the rates of the authors' sweep
NEVER = "never"  # no number of trained blocks is enough
COMMON, LEFT_OUT = "all but CoLA", "cola"
AUTHORS = ", authors' averaging"  # a column's, beside that of the plain mean
# Of these only where the averages differ: the score has both anyway.
WHERE_UNLIKE = ("relative score", "of full score, %")


@dataclasses.dataclass(frozen=True)
class Row:
    """One task and metric at one rate, its frozen blocks live or cached.

    What full models leave untrained is another row, with the same frozen runs:
    these do not read it.

    Attributes:
        name: the task, and its test set where there are two.
        task: such as `rte`.
        metric: what it is scored by.
        cached: whether the frozen blocks are cached.
        lr: the learning rate.
        blocks: of the encoder.
        runs: by number of trained blocks, and `all`.
        trials: the trials' scores in points, likewise.
        majority: what the majority baseline scores, in points, or nan.
        published: the authors' scores, as `published.json` has them; {} where
            these runs are not at the paper's settings, encoder and data, or
            are the authors' own.
        published_lr: the authors' rate, or nan, likewise.
        untrained: what does not train where everything else does; see
            `--untrained`.
    """

    name: str
    task: str
    metric: str
    cached: bool
    lr: float
    blocks: int
    runs: dict[int | str, pd.DataFrame]
    trials: dict[int | str, list[float]]
    majority: float
    published: dict[str, list[float]]
    published_lr: float = float("nan")
    untrained: str = ""

    @property
    def mode(self) -> str:
        """How the frozen blocks were run."""
        return "cached" if self.cached else "live"

    @property
    def full(self) -> float:
        """Mean score of training everything."""
        return operating.plain_mean(self.trials[operating.ALL])

    @property
    def authors_full(self) -> float:
        """The same by the authors' averaging."""
        return operating.authors_mean(self.trials[operating.ALL])

    def majority_passes(self, quality: float) -> bool:
        """Whether the majority baseline alone is above a share of the score."""
        return self.majority > quality * self.full

    def published_score(self, blocks: int | str | None) -> str:
        """The authors' mean and deviation at a number of trained blocks."""
        known = self.published.get(str(blocks))
        if not known:
            return ""
        mean, deviation = known[0], known[2]
        return f"{mean:.2f}" + (
            "" if deviation is None else f" ± {deviation:.2f}"
        )

    def published_point(self, quality: float) -> int | None:
        """The operating point of the authors' means, or None."""
        means: dict[int | str, list[float]] = {
            blocks if blocks == operating.ALL else int(blocks): [known[0]]
            for blocks, known in self.published.items()
        }
        return operating.operating_point(means, quality) if means else None

    def mean_of(self, blocks: int | str, column: str) -> float:
        """Mean over the runs with a number of trained blocks; see `frames`."""
        return float(self.runs[blocks][column].mean())


def rows_of(
    runs: pd.DataFrame,
    paper: claims.Paper | None,
    published: dict[str, Any],
) -> list[Row]:
    """The `Row`s of a study: of a task one for each rate, mode and `untrained`.

    MNLI has two, if both its development sets were scored. A rate is chosen by
    the search, on validation. These runs have none: to choose among theirs
    would be to look at the test.

    Args:
        runs: of a study, see `frames.runs_frame`.
        paper: whose settings the published scores are of.
        published: content of `published.json`, or {}.
    """
    labelled = details.label_runs(runs)
    rows: list[Row] = []
    for (text, lr), members in labelled.groupby(["text", "lr"], sort=False):
        for untrained, cached in itertools.product(
            _list_untrained(members), (False, True)
        ):
            cells = _find_cells(members, cached, untrained)
            if cells:
                rows += _make_rows(
                    str(text), float(lr), cached, cells, paper, published
                )
    return sorted(rows, key=lambda row: (row.task, row.name))


def _take_full(runs: pd.DataFrame) -> pd.DataFrame:
    """The runs that train everything, with what they leave `untrained`."""
    full = runs[(runs.approach == "fine_tuning") & ~runs.cached].copy()
    full["untrained"] = [
        str(settings.get("untrained", "")) for settings in full.settings
    ]
    return full


def _list_untrained(runs: pd.DataFrame) -> list[str]:
    """What full models leave untrained; first of all, nothing."""
    return sorted(set(_take_full(runs).untrained))


def _find_cells(
    runs: pd.DataFrame, cached: bool, untrained: str
) -> dict[int | str, pd.DataFrame]:
    """Runs by `all` and by falling number of trained blocks; or {}."""
    base = _take_full(runs)
    base = base[base.untrained == untrained]
    frozen = {}
    of_kind = runs[runs.cached == cached]
    dtypes = of_kind.settings.map(lambda s: str(s.get("cache_dtype", "")))
    # Seeds in two precisions are not so many seeds: the commonest counts.
    of_kind = of_kind[dtypes.isin(dtypes.mode()[:1])]
    for approach, members in of_kind.groupby("approach"):
        number = re.fullmatch(r"last_(\d+)", str(approach))
        if number:
            frozen[int(number[1])] = members
    if base.empty or not frozen:
        return {}
    return {operating.ALL: base, **dict(sorted(frozen.items(), reverse=True))}


def _make_rows(
    text: str,
    lr: float,
    cached: bool,
    cells: dict[int | str, pd.DataFrame],
    paper: claims.Paper | None,
    published: dict[str, Any],
) -> Iterator[Row]:
    joined = pd.concat(cells.values())
    first = joined.iloc[0]
    theirs: dict[str, Any] = {}
    rates: dict[str, Any] = {}
    is_theirs = "recorded_by" in first.settings
    name = PUBLISHED_NAMES.get(str(first.model), "")
    if paper and not is_theirs and not claims.list_differences(joined, paper):
        theirs = published.get("scores", {}).get(name, {})
        rates = published.get("rates", {})
    majorities = first.record["majorities"]

    def make_row(suffix: str, metric: str) -> Row:
        trials: dict[int | str, list[float]] = {
            blocks: list(
                members.score
                if metric == first.metric
                else members.metrics.str[metric]
            )
            for blocks, members in cells.items()
        }
        title = PUBLISHED_TASKS.get(first.task + suffix, "")
        steps = rates.get(name, {}).get(title, float("nan"))
        return Row(
            name=text + suffix,
            task=str(first.task),
            metric=metric,
            cached=cached,
            lr=lr,
            blocks=int(first.blocks),
            runs=cells,
            trials=trials,
            majority=100 * majorities.get(metric, float("nan")),
            published=theirs.get(title, {}),
            published_lr=steps * rates.get("unit", 1.0),
            untrained=str(cells[operating.ALL].untrained.iloc[0]),
        )

    yield make_row("", str(first.metric))
    if all(MISMATCHED in metrics for metrics in joined.metrics):
        yield make_row(", mismatched", MISMATCHED)


def results(rows: Sequence[Row], options: Options = Options()) -> list[Table]:
    """Operating points, and scores at every number of blocks.

    Args:
        rows: what `rows_of` returned.
        options: for qualities and intervals.
    """
    if not rows:
        return []
    return [
        tabulate_points(rows, options),
        *(tabulate_scores(row, rows) for row in rows),
    ]


# === Operating points ===


def tabulate_points(rows: Sequence[Row], options: Options) -> Table:
    """The paper's tables 6 to 9: all, enough, none; with what each costs."""
    lines = []
    for row in rows:
        fewest = min(n for n in row.trials if isinstance(n, int))
        lines.append(_make_line(row, "all", operating.ALL, operating.ALL))
        for quality in options.qualities:
            lines.append(_find_point(row, quality, options.level))
        label = "none trained" if fewest == 0 else f"{fewest} trained"
        lines.append(_make_line(row, label, fewest, fewest))
    lines += _find_common_points(rows, options.qualities)
    return Table(
        "operating_points",
        "Training everything, the fewest trained blocks whose mean is above a "
        "share of its score, and the fewest that were tried. The interval "
        f"holds {100 * options.level:g} % of resampled trials, by their plain "
        "mean, numbers that were not tried among them. Scores in points, mean "
        "± standard deviation: by the plain mean of all trials, and beside it "
        "by the authors' averaging, which leaves out trials at 0 or not above "
        "0.9 of the best; published ones are by the latter, with the number "
        "of blocks that they give, and the deviation of all trials. *: the "
        "majority baseline alone passes, so the number says nothing. "
        f"{COMMON}: "
        "the most that one of them needs, which is the paper's number of an "
        "encoder" + _explain_untrained(rows),
        _make_frame(lines),
    )


def _find_common_points(
    rows: Sequence[Row], qualities: Sequence[float]
) -> list[dict[str, str]]:
    """Lines of the fewest blocks that are enough on every task but CoLA.

    Only where each task has one row, so that it is clear which is meant.
    """
    alike: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if row.task != LEFT_OUT:
            alike.setdefault((row.mode, row.untrained), []).append(row)
    lines = []
    for (mode, untrained), members in alike.items():
        count = len({row.name for row in members})
        if count < 2 or count < len(members):
            continue
        for quality in qualities:
            plain = [
                operating.operating_point(row.trials, quality)
                for row in members
            ]
            authors = [
                operating.operating_point(
                    row.trials, quality, operating.authors_mean
                )
                for row in members
            ]
            theirs = [row.published_point(quality) for row in members]
            mark = any(row.majority_passes(quality) for row in members)
            lines.append(
                {
                    "task": COMMON,
                    "frozen blocks": mode,
                    "untrained": untrained,
                    "quality": f"> {100 * quality:.4g} %" + "*" * mark,
                    "trained blocks": _name_point(_most(plain)),
                    f"trained blocks{AUTHORS}": _name_point(_most(authors)),
                    "published": (
                        f"with {_name_point(_most(theirs))}"
                        if all(row.published for row in members)
                        else ""
                    ),
                }
            )
    return lines


def _most(points: Sequence[int | None]) -> int | None:
    """The largest of some numbers of blocks; None where one is."""
    known = [point for point in points if point is not None]
    return max(known) if len(known) == len(points) else None


def _find_point(row: Row, quality: float, level: float) -> dict[str, str]:
    """The line of an operating point."""
    point = operating.operating_point(row.trials, quality)
    authors = operating.operating_point(
        row.trials, quality, operating.authors_mean
    )
    label = f"> {100 * quality:.4g} %"
    if row.majority_passes(quality):
        label += "*"
    line = _make_line(row, label, point, row.published_point(quality))
    line |= _as_authors(row, authors)
    if min(map(len, row.trials.values())) > 1:
        interval = operating.interval(row.trials, quality, level)
        line["interval"] = (
            f"{_name_point(interval.low)} to {_name_point(interval.high)}"
        )
    untried = operating.untried_below(row.trials, point) if point else 0
    if point and untried:
        line["not tried"] = ", ".join(map(str, range(point - untried, point)))
    return line


def _as_authors(row: Row, blocks: int | str | None) -> dict[str, str]:
    """Number of trained blocks, score and share by the authors' averaging."""
    score = share = ""
    if blocks is not None:
        mean = operating.authors_mean(row.trials[blocks])
        score, share = f"{mean:.2f}", _share(mean, row.authors_full)
    return {
        f"trained blocks{AUTHORS}": _name_point(blocks),
        f"score{AUTHORS}": score,
        f"of full score, %{AUTHORS}": share,
    }


def _name_point(point: int | str | None) -> str:
    return NEVER if point is None else str(point)


def _make_line(
    row: Row,
    label: str,
    blocks: int | str | None,
    published_blocks: int | str | None,
) -> dict[str, str]:
    """A line: the numbers of trained blocks here and in the paper, or None."""
    line = {
        "task": row.name,
        "lr": f"{row.lr:g}",
        "published lr": (
            "" if pd.isna(row.published_lr) else f"{row.published_lr:g}"
        ),
        "frozen blocks": row.mode,
        "untrained": row.untrained,
        "quality": label,
        "trained blocks": _name_point(blocks),
        f"trained blocks{AUTHORS}": "",
        "interval": "",
        "not tried": "",
        "score": "",
        f"score{AUTHORS}": "",
        "of full score, %": "",
        f"of full score, %{AUTHORS}": "",
        "majority": _number(row.majority),
        "of full epoch, %": "",
        "memory, GB": "",
        "published": "",
        **_as_authors(row, blocks),
    }
    if blocks is not None:
        full_epoch = row.mean_of(operating.ALL, "seconds_per_epoch")
        mean = operating.plain_mean(row.trials[blocks])
        line |= {
            "score": spread(row.trials[blocks]),
            "of full score, %": _share(mean, row.full),
            "of full epoch, %": _number(
                100 * row.mean_of(blocks, "seconds_per_epoch") / full_epoch, 1
            ),
            "memory, GB": _number(row.mean_of(blocks, "memory") / 1e9),
        }
    line["published"] = row.published_score(published_blocks)
    if line["published"] and blocks != published_blocks:
        line["published"] += f" with {published_blocks}"
    return line


def _share(score: float, full: float) -> str:
    """A score in percent of that of training everything."""
    return f"{100 * score / full:.1f}" if full > 0 else ""


def _number(value: float, digits: int = 2) -> str:
    """A number as text; nothing where it is not known."""
    return "" if pd.isna(value) else f"{value:.{digits}f}"


# === Every number of blocks ===


def tabulate_scores(row: Row, rows: Sequence[Row]) -> Table:
    """Quality and cost at every number of frozen blocks.

    Args:
        row: what to show.
        rows: of the study, of which its name must tell it.
    """
    lines = []
    for blocks, scores in row.trials.items():
        mean = operating.plain_mean(scores)
        authors = operating.authors_mean(scores)
        lines.append(
            {
                "frozen": row.blocks - blocks if isinstance(blocks, int) else 0,
                "trained": str(blocks),
                "score": spread(scores),
                "trials": len(scores),
                "authors' averaging": _number(authors),
                "relative score": _number(mean - row.full),
                f"relative score{AUTHORS}": _number(authors - row.authors_full),
                "of full score, %": _share(mean, row.full),
                f"of full score, %{AUTHORS}": _share(authors, row.authors_full),
                "published": row.published_score(blocks),
                "s per epoch": spread(row.runs[blocks].seconds_per_epoch, 1),
                "time, s": spread(row.runs[blocks].seconds, 1),
                "trained parameters": _number(
                    row.mean_of(blocks, "trainable_parameters"), 0
                ),
            }
        )
    rates = {other.lr for other in rows if other.task == row.task}
    name = f"freezing_{row.name.replace(', ', '_')}_{row.mode}"
    if len(rates) > 1:
        name += f"_lr_{row.lr:g}"
    if row.untrained:
        name += f"_untrained_{row.untrained.replace(',', '_')}"
    majority = _number(row.majority)
    return Table(
        name,
        f"{row.name}, frozen blocks {row.mode}: {row.metric} in points, "
        f"learning rate {row.lr:g}; mean ± standard deviation over the trials. "
        + (f"The majority baseline scores {majority}. " if majority else "")
        + "The authors' averaging leaves out trials at 0 or not above 0.9 of "
        "the best; published scores are by it. The relative score is less that "
        "of training everything" + _explain_untrained([row]),
        _make_frame(lines),
    )


def _make_frame(lines: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """A table without columns that are empty, or say the same as another."""
    frame = details.drop_empty_columns(pd.DataFrame(lines).fillna(""))
    return frame.drop(
        columns=[
            name + AUTHORS
            for name in WHERE_UNLIKE
            if {name, name + AUTHORS} <= {*frame}
            and frame[name].equals(frame[name + AUTHORS])
        ]
    )


def _explain_untrained(rows: Sequence[Row]) -> str:
    """What the full models of some rows leave untrained, for a caption."""
    values = dict.fromkeys(row.untrained for row in rows if row.untrained)
    if not values:
        return ""
    return f". Untrained where everything else trains: {' or '.join(values)}"


def has_search_alone(study: Study) -> bool:
    """Whether its runs are the search of the rate: they train everything."""
    return bool((study.runs.approach == "fine_tuning").all())


def tabulate_search(study: Study) -> Table:
    """Validation scores at each rate, beside the authors' own sweep."""
    runs = study.runs[study.runs.validation.notna()]
    runs = details.label_runs(_take_full(runs))
    grouped = runs.groupby(["text", "untrained", "lr"]).validation
    frame = grouped.agg(
        validation=spread, trials="count", mean="mean"
    ).reset_index()
    best = frame.groupby(["text", "untrained"])["mean"].transform("max")
    frame[""] = ["best" if is_best else "" for is_best in frame["mean"] == best]
    theirs = _published_sweep(study, runs)
    frame["published"] = [
        theirs.get((text, round(lr / SWEEP_UNIT)), "")
        for text, lr in zip(frame.text, frame.lr)
    ]
    frame["lr"] = frame.lr.map("{:g}".format)
    frame = frame.drop(columns="mean").rename(columns={"text": "task"})
    return Table(
        "search",
        "The search of the rate: validation scores of training everything, in "
        "points, mean ± standard deviation over the trials; published ones are "
        "of the development set, on which the authors chose",
        details.drop_empty_columns(frame),
    )


def _published_sweep(
    study: Study, runs: pd.DataFrame
) -> dict[tuple[str, int], str]:
    """The authors' means, by task and rate, where runs are at their settings.

    But for what validates: they held out nothing.
    """
    sweep = study.published.get("rate_sweep", {})
    found = {}
    for text, members in runs.groupby("text"):
        first = members.iloc[0]
        means = sweep.get(PUBLISHED_NAMES.get(str(first.model), ""), {}).get(
            PUBLISHED_TASKS.get(str(first.task), ""), {}
        )
        # What their full models left untrained, nobody knows.
        known = dict.fromkeys(("validation_fraction", "untrained"))
        if study.paper is None or claims.list_differences(
            members, study.paper, known
        ):
            continue
        for steps, mean in means.items():
            found[str(text), int(steps)] = f"{mean:.2f}"
    return found
