"""The curves of a freezing study: scores by number of trained blocks.

Those of runs, and those of the paper's encoders by their authors' trials.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pandas as pd

from tf_transfer.comparison.run_record import Settings
from tf_transfer.freezing import operating
from tf_transfer.freezing.operating import ALL
from tf_transfer.reports import tables
from tf_transfer.reports.study import Study

ENCODERS = {
    "bert_base_en_uncased": "bert-base",
    "roberta_base_en": "roberta-base",
    "bert_large_en_uncased": "bert-large",
    "roberta_large_en": "roberta-large",
}
TITLES = {
    "cola": "CoLA",
    "sst2": "SST-2",
    "mrpc": "MRPC",
    "stsb": "STS-B",
    "qqp": "QQP",
    "mnli": "MNLI",
    "mnli-mm": "MNLI-MM",
    "qnli": "QNLI",
    "rte": "RTE",
    "wnli": "WNLI",
}
MISMATCHED = "mismatched_accuracy"


class Key(NamedTuple):
    """What the runs of a curve have in common.

    Attributes:
        task: As the paper calls it.
        lr: Learning rate.
        runs: Whether frozen blocks are live or how they are cached, and what
            the full model leaves untrained.
    """

    task: str
    lr: float
    runs: str


class Curve(NamedTuple):
    """Scores in points by number of trained blocks, and of `all`.

    Attributes:
        trials: The scores.
        mark: Of `tables.NOTES`, if the full model is no base to compare with.
    """

    trials: operating.Trials
    mark: str


Curves = Mapping[Key, Curve]
# By task and number of trained blocks: the authors' mean, plain mean, standard
# deviation, number of trials, and of those that their averaging kept.
Published = Mapping[str, Mapping[int | str, Sequence[float]]]


def list_curves(runs: pd.DataFrame) -> Curves:
    """The curves of a study: one for each rate, cache and kind of full model.

    A rate is chosen by the search, on validation. These runs have none: to
    choose among theirs would be to look at the test. MNLI has two curves where
    both its development sets were scored.

    Args:
        runs: Of a study; those that train all or the last blocks count.
    """
    runs = runs[runs.approach.str.fullmatch(r"fine_tuning|last_\d+")]
    mismatched = runs[runs.task == "mnli"].assign(
        task="mnli-mm", score=lambda mnli: mnli.metrics.str[MISMATCHED]
    )
    runs = pd.concat([runs, mismatched.dropna(subset="score")])
    order = {task: number for number, task in enumerate(TITLES)}
    runs = runs.sort_values("task", key=lambda t: t.map(order), kind="stable")
    names = runs.approach.replace("fine_tuning", f"last_{ALL}")
    runs = runs.assign(
        tuned=[_number(name.removeprefix("last_")) for name in names],
        variant=[
            _name_variant(*row) for row in zip(runs.approach, runs.settings)
        ],
    )
    curves = {}
    columns = ["task", "data_identity", "lr"]
    for (task, _, lr), group in runs.groupby(columns, sort=False):
        is_full = group.tuned == ALL
        variants = itertools.product(
            group[~is_full].groupby("variant"),
            group[is_full].groupby("variant"),
        )
        for (variant, frozen), (untrained, full) in variants:
            both = pd.concat([full, frozen]).groupby("tuned", sort=False)
            key = Key(TITLES.get(task, task), lr, variant + untrained)
            trials = both.score.agg(list).to_dict()
            curves[key] = Curve(trials, tables.find_mark([full]))
    return curves


def _name_variant(approach: str, settings: Settings) -> str:
    """How frozen blocks ran, or what a full model leaves untrained."""
    if approach != "fine_tuning":
        dtype = settings.get("cache_dtype", "")
        return f"{settings['frozen_prefix']} {dtype}".strip()
    untrained = settings.get("untrained")
    return f", untrained {untrained}" if untrained else ""


def name_encoder(study: Study) -> str:
    """The paper's encoder next to which a study is shown."""
    return ENCODERS.get(study.model, "bert-base")


def read_published(study: Study) -> dict[str, Published]:
    """The published scores of each of the paper's encoders."""
    return {
        encoder: {
            task: {_number(n): means for n, means in cells.items()}
            for task, cells in tasks.items()
        }
        for encoder, tasks in study.published["scores"].items()
    }


def take_means(published: Published, task: str) -> operating.Trials:
    """The authors' means on a task as if each was one trial; or {}."""
    means = published.get(task, {})
    return {number: [mean] for number, (mean, *_) in means.items()}


def _number(text: str) -> int | str:
    return ALL if text == ALL else int(text)
