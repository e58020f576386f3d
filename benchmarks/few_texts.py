"""The effect of more epochs on few texts: four epochs, and 200 updates.

    python -m tf_transfer.sweep experiments/few_texts/GRID.json --out=runs/few
    python -m benchmarks.few_texts --runs=runs/few --document=docs/own_task.md

Run the grids pairs, sentences and tweets first, in a folder with `glue` and
`tweets/train.csv`. Each run's result is that of its best epoch on validation:
the test decides nothing.
"""

import collections
import glob
import os
import statistics

from absl import flags

from benchmarks import documents
from tf_transfer import train
from tf_transfer.config import command_line
from tf_transfer.training import records
from tf_transfer.utils.errors import UserError

NAME = "few_texts"
NAMES = {"fine_tuning": "everything", "last_2": "the last 2 blocks"}

# By approach and texts, then by task, then by epochs: the test score.
Scores = dict[tuple[str, int], dict[str, dict[int, float]]]


def read(folder: str) -> Scores:
    """Reads the test scores of a folder's finished runs, in points."""
    scores: Scores = collections.defaultdict(
        lambda: collections.defaultdict(dict)
    )
    pattern = os.path.join(folder, "train", "**", "result.json")
    for path in glob.glob(pattern, recursive=True):
        directory = records.RunDirectory(os.path.dirname(path), None)
        result, config = directory.result(), directory.config()
        if not result or not config or not result["test"]:
            continue
        settings = config["settings"]
        key = result["approach"], settings["max_train_examples"]
        score = 100 * result["test"][result["metric"]]
        scores[key][result["task"]][settings["max_epochs"]] = score
    if not scores:
        raise UserError(f"--runs={folder}: no run is finished there.")
    return scores


def make_table(scores: Scores) -> str:
    """Writes a Markdown row for each approach and number of texts."""
    tasks = sorted({task for some in scores.values() for task in some})
    heads = ["trains", "texts", "epochs", *tasks, "mean gain"]
    rows = [heads, ["---"] * len(heads)]
    for (approach, texts), by_task in sorted(scores.items()):
        usual = train.usual_epochs(texts, 32)
        cells, gains = [], []
        for task in tasks:
            by_epochs = by_task.get(task, {})
            if {train.EPOCHS, usual} <= by_epochs.keys():
                before, after = by_epochs[train.EPOCHS], by_epochs[usual]
                cells.append(f"{before:.1f} → {after:.1f}")
                gains.append(after - before)
            else:
                cells.append("")
        if gains:
            rows.append(
                [
                    NAMES.get(approach, approach),
                    f"{texts:,}",
                    f"{train.EPOCHS} → {usual}",
                    *cells,
                    f"{statistics.fmean(gains):+.1f}",
                ]
            )
    return documents.as_markdown(rows)


def main(argv: list[str]) -> None:
    """Prints the table, or writes it into a document."""
    del argv
    table = make_table(read(flags.FLAGS.runs))
    print(table)
    if flags.FLAGS.document:
        documents.fill(flags.FLAGS.document, NAME, table)


if __name__ == "__main__":
    flags.DEFINE_string("runs", "runs/few", "Root of the run directories.")
    flags.DEFINE_string("document", "", "Document to write the table into.")
    command_line.command(main)
