"""Contrastive training of the last two blocks on few texts, and the probe.

    python -m benchmarks.contrastive --data=FOLDER
    python -m benchmarks.contrastive --document=docs/guides/few_texts.md

FOLDER holds `glue`, `cs224n`, `tweets` and `conll2003`. Six tasks have 8, 16
and 64 training texts per label, in three draws. Both train on the same texts,
without validation, by the defaults of `tf_transfer.train`. The test has 300
texts. The command finds finished runs again.
"""

import itertools
from typing import Any

import numpy as np
import pandas as pd
from absl import flags

from benchmarks import documents
from benchmarks.contrastive_tasks import TASKS
from tf_transfer import train
from tf_transfer.config import command_line
from tf_transfer.data.task import Examples, Source, Task
from tf_transfer.runs.warm import WarmState
from tf_transfer.utils import screen

NAME = "contrastive"
SIZES = (8, 16, 64)  # training texts per label
TEST_TEXTS = 300
SETTINGS: dict[str, Any] = {
    "task": "sst2",
    "model": "minilm",
    "max_length": 64,
    "validation_fraction": 0.0,
}
APPROACHES: dict[str, dict[str, Any]] = {
    "probe": {"features": "frozen"},
    "contrastive": {"trainable_layers": "2", "method": "contrastive"},
}

Case = dict[str, Any]


def define_flags() -> None:
    """Defines the flags of this command."""
    flags.DEFINE_string("data", "data", "Folder of the data sets.")
    flags.DEFINE_integer("draws", 3, "Draws of the training texts.", 2)
    flags.DEFINE_string("runs", "runs", "Root of the run directories.")
    flags.DEFINE_string("cache_dir", "", "Folder of stored states.")
    flags.DEFINE_string(
        "out", f"experiments/{NAME}", "Folder of measured.json."
    )
    flags.DEFINE_string("document", "", "Document to write the table into.")


class Draw(Source):
    """A draw of training texts, with the test texts of its task.

    Args:
        name: Of the task, in `TASKS`.
        table: Its texts and labels, shuffled; the first are tested.
        size: Training texts per label.
        draw: The number of the draw, from 0.
    """

    def __init__(
        self, name: str, table: pd.DataFrame, size: int, draw: int
    ) -> None:
        classes, ids = np.unique(table["label"], return_inverse=True)
        rows = np.arange(len(table))
        groups = pd.Series(ids[TEST_TEXTS:], rows[TEST_TEXTS:])
        drawn = groups.groupby(groups).sample(size, random_state=draw)
        texts = table["text"].to_numpy()
        self.task = Task(
            name, "", ("text",), "label", tuple(map(str, classes)), "accuracy"
        )
        self.identity = f"contrastive {name} {size} {draw}"
        self._examples = {
            split: Examples(chosen, [texts[chosen].tolist()], ids[chosen])
            for split, chosen in (
                ("train", drawn.index.to_numpy()),
                ("dev", rows[:TEST_TEXTS]),
            )
        }

    def read(self, split: str) -> Examples:
        """The drawn texts, or those of the test."""
        return self._examples[split]


def measure() -> list[Case]:
    """The test scores of each approach on each draw."""
    values, warm = flags.FLAGS, WarmState()
    cases = []
    tables = {
        task: TASKS[task](values.data).sample(frac=1, random_state=0)
        for task in TASKS
    }
    for draw, size, name in itertools.product(
        range(values.draws), SIZES, TASKS
    ):
        source = Draw(name, tables[name], size, draw)
        case: Case = {"task": name, "size": size, "draw": draw}
        for approach, changes in APPROACHES.items():
            settings = train.Settings(
                **SETTINGS,
                **changes,
                out=values.runs,
                cache_dir=values.cache_dir,
            )
            run = train.Train(settings, source, warm=warm)
            with screen.silence(True):
                record = run.train(prints_answer=False).record
            case[approach] = 100 * record["test"]["accuracy"]
        cases.append(case)
        print(case, flush=True)
    return cases


def make_table(cases: list[Case]) -> str:
    """Means by size and task, and paired differences, as Markdown."""
    frame = pd.DataFrame(cases)
    frame["difference"] = frame["contrastive"] - frame["probe"]
    rows = [["texts per label", "task", *APPROACHES, "difference"]]
    rows.append(["---"] * len(rows[0]))
    for size, sized in frame.groupby("size"):
        means = sized.groupby("task")[rows[0][2:]].mean()
        for task, row in means.iterrows():
            scores = [f"{row[name]:.1f}" for name in APPROACHES]
            rows.append(
                [str(size), str(task), *scores, f"{row['difference']:+.1f}"]
            )
        mean, error = means.mean(), means["difference"].sem()
        scores = [f"{mean[name]:.1f}" for name in APPROACHES]
        difference = f"{mean['difference']:+.1f} ± {error:.1f}"
        rows.append([str(size), "mean", *scores, difference])
    return (
        f"`minilm`, {frame['draw'].nunique()} draws. Test accuracy in percent; "
        "the mean of the differences has its standard error over the tasks:\n\n"
        + documents.as_markdown(rows)
    )


def main(argv: list[str]) -> None:
    """Measures and prints the table, or fills a document."""
    del argv
    values = flags.FLAGS
    documents.measure_or_fill(
        lambda _: measure(), make_table, values.out, values.document, NAME
    )


if __name__ == "__main__":
    define_flags()
    command_line.command(main)
