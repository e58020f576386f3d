"""The Elsa authors' score of each trial, as one table.

    git clone https://github.com/ljj7975/transformers
    git -C transformers checkout 4c40497c
    python -m benchmarks.elsa_trials transformers --out=elsa_trials.csv

Reads `exp_results/<model>/<task>/<trained>-<metric>.txt`, which has the seed
and the score of one trial per line. `<trained>` is `base` if everything trains,
`no_layer` if no block does, and otherwise the blocks that train, numbered from
0, such as `11_10`. The table has the columns `COLUMNS`; `authors_trials` makes
run directories of it.
"""

import argparse
import csv
import os
from collections.abc import Iterator

from tf_transfer.utils.errors import UserError

COLUMNS = (
    "model",
    "task",
    "metric",
    "frozen_blocks",
    "trained_blocks",
    "seed",
    "score",
)
BLOCKS = {
    "bert-base": 12,
    "roberta-base": 12,
    "bert-large": 24,
    "roberta-large": 24,
}
# The metric that the paper reports, and its name in the authors' files.
METRICS = {
    "CoLA": ("matthews", "mcc"),
    "SST-2": ("accuracy", "acc"),
    "MRPC": ("f1", "f1"),
    "STS-B": ("spearman", "spearmanr"),
    "QQP": ("f1", "f1"),
    "MNLI": ("accuracy", "acc"),
    "MNLI-MM": ("accuracy", "acc"),
    "QNLI": ("accuracy", "acc"),
    "RTE": ("accuracy", "acc"),
}


def name_trained(blocks: int, trained: int) -> str:
    """The authors' name for training this many last blocks of `blocks`."""
    if trained == blocks:
        return "base"
    if not trained:
        return "no_layer"
    last = range(blocks - 1, blocks - trained - 1, -1)
    return "_".join(str(number) for number in last)


def read_trials(path: str) -> list[list[str]]:
    """Seed and score of each trial of a file; no trial without the file.

    Lines without a score are left out, as the authors' own check does.
    """
    if not os.path.isfile(path):
        return []
    with open(path, encoding="utf-8") as file:
        lines = [line.split() for line in file]
    return [line for line in lines if len(line) == 2]


def list_rows(folder: str) -> Iterator[tuple[str | int, ...]]:
    """The rows of the table: by model, frozen blocks, task, and as stored.

    Args:
        folder: of a checkout of the repository.
    """
    for model, blocks in BLOCKS.items():
        for trained in [blocks, *range(blocks // 2, -1, -1)]:
            for task, (metric, ending) in METRICS.items():
                name = f"{name_trained(blocks, trained)}-{ending}.txt"
                for seed, score in read_trials(
                    os.path.join(folder, "exp_results", model, task, name)
                ):
                    yield (
                        model,
                        task,
                        metric,
                        blocks - trained,
                        "all" if trained == blocks else trained,
                        seed,
                        f"{float(score):.6f}",
                    )


def write_table(folder: str, out: str) -> int:
    """Writes the table; returns the number of trials.

    Args:
        folder: of a checkout of the repository.
        out: path of the table.

    Raises:
        UserError: the folder has no trials.
    """
    rows = list(list_rows(folder))
    if not rows:
        raise UserError(
            f"{folder}: has no trials in exp_results. Give the folder of a "
            "checkout of github ljj7975/transformers, commit 4c40497c."
        )
    with open(out, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(rows)
    return len(rows)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", help="a checkout of ljj7975/transformers")
    parser.add_argument("--out", default="elsa_trials.csv")
    given = parser.parse_args()
    try:
        count = write_table(given.folder, given.out)
    except UserError as error:
        raise SystemExit(str(error)) from None
    print(f"{count} trials in {given.out}")


if __name__ == "__main__":
    main()
