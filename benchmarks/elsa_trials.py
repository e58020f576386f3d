"""The Elsa authors' score of each trial, as two tables.

    git clone https://github.com/ljj7975/transformers
    git -C transformers checkout 4c40497c
    python -m benchmarks.elsa_trials transformers

`elsa_trials.csv` has the trials of each number of trained blocks. It is made
from `exp_results/<model>/<task>/<trained>-<metric>.txt`, which has the seed
and the score of one trial per line. `<trained>` is `base` if everything trains,
`no_layer` if no block does, and otherwise the blocks that train, numbered from
0, such as `11_10`. `elsa_search_trials.csv` has the earlier trials that search
the rate of the full models, from `exp_results/baseline/<model>/<task>/
<rate>_<metric>.txt`. `authors_trials` makes run directories of the tables.
"""

import argparse
import csv
import itertools
import os
from collections.abc import Iterator

from tf_transfer.utils.errors import UserError

SETTINGS = {
    "elsa_trials.csv": ("frozen_blocks", "trained_blocks"),
    "elsa_search_trials.csv": ("lr",),
}
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
# The metrics of each task in the search of the rate.
ACCURACY = ("accuracy", "acc")
SEARCH_METRICS = {
    **{task: [metric] for task, metric in METRICS.items()},
    "MRPC": [ACCURACY, METRICS["MRPC"]],
    "QQP": [ACCURACY, METRICS["QQP"]],
    "STS-B": [("pearson", "pearson"), METRICS["STS-B"]],
    "WNLI": [ACCURACY],
}
RATES = ("1e-5", "2e-5", "3e-5", "4e-5", "5e-5")


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
        folder: Of a checkout of the repository.
    """
    for model, blocks in BLOCKS.items():
        for trained in [blocks, *range(blocks // 2, -1, -1)]:
            for task, (metric, suffix) in METRICS.items():
                name = f"{name_trained(blocks, trained)}-{suffix}.txt"
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


def list_searched(folder: str) -> Iterator[tuple[str, ...]]:
    """The rows of the search: by model, task, metric, rate, and as stored.

    Args:
        folder: Of a checkout of the repository.
    """
    for model, task in itertools.product(
        sorted(BLOCKS), sorted(SEARCH_METRICS)
    ):
        for (metric, suffix), lr in itertools.product(
            SEARCH_METRICS[task], RATES
        ):
            name = f"baseline/{model}/{task}/{lr}_{suffix}.txt"
            path = os.path.join(folder, "exp_results", name)
            for seed, score in read_trials(path):
                yield model, task, metric, lr, seed, f"{float(score):.6f}"


def write_tables(folder: str, out: str) -> list[int]:
    """Writes both tables; returns the number of trials of each.

    Args:
        folder: Of a checkout of the repository.
        out: Folder of the tables.

    Raises:
        UserError: The folder has no trials for a table.
    """
    tables: list[list[tuple[str | int, ...]]] = [
        list(list_rows(folder)),
        list(list_searched(folder)),
    ]
    if not all(tables):
        raise UserError(
            f"{folder}: has no trials in exp_results. Give the folder of a "
            "checkout of github ljj7975/transformers, commit 4c40497c."
        )
    for (name, settings), rows in zip(SETTINGS.items(), tables):
        path = os.path.join(out, name)
        with open(path, "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(
                ("model", "task", "metric", *settings, "seed", "score")
            )
            writer.writerows(rows)
    return [len(rows) for rows in tables]


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", help="a checkout of ljj7975/transformers")
    parser.add_argument("--out", default=".", help="folder of the tables")
    given = parser.parse_args()
    try:
        counts = write_tables(given.folder, given.out)
    except UserError as error:
        raise SystemExit(str(error)) from None
    for name, count in zip(SETTINGS, counts):
        print(f"{count} trials in {os.path.join(given.out, name)}")


if __name__ == "__main__":
    main()
