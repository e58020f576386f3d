"""A table of finished runs: score, seconds an epoch, trainable parameters.

    python -m tf_transfer.report runs

Reads run directories only. A run without result.json is not finished and is
counted, not shown.
"""

import os

from absl import app

from tf_transfer import settings as settings_lib
from tf_transfer.errors import UserError

COLUMNS = (
    "task", "approach", "lr", "batch", "seed", "metric", "validation", "test",
    "epochs", "s/epoch", "trained", "share",
)  # fmt: skip


def find_runs(root):
    """Results of the finished runs below `root`, and how many are not."""
    from tf_transfer.training import records

    results, unfinished = [], 0
    for folder, folders, files in os.walk(root):
        folders.sort()
        if "config.json" not in files:
            continue
        folders.clear()
        result = records.RunDirectory(folder, None).result()
        if result is None:
            unfinished += 1
        else:
            results.append(result)
    return results, unfinished


def row(result):
    """One line of the table, as strings."""
    metric = result["metric"]

    def score(split):
        return f"{result[split][metric]:.4f}" if result[split] else "-"

    seconds = result["seconds_per_epoch"]
    trained, total = result["trainable_parameters"], result["total_parameters"]
    cached = " cached" if result["prefix_seconds"] is not None else ""
    return (
        result["task"], result["approach"] + cached, f"{result['lr']:g}",
        str(result["batch_size"]), str(result["seed"]), metric,
        score("validation"), score("test"), str(result["epochs_run"]),
        f"{seconds:.1f}" if seconds else "-", f"{trained:,}",
        f"{trained / total:.1%}",
    )  # fmt: skip


def table(results):
    """The results as aligned text, sorted by task and share trained."""
    results = sorted(
        results,
        key=lambda r: (
            r["task"],
            -r["trainable_parameters"],
            r["lr"],
            r["seed"],
        ),
    )
    rows = [COLUMNS, *map(row, results)]
    widths = [max(map(len, column)) for column in zip(*rows)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) for cell, width in zip(cells, widths)
        ).rstrip()
        for cells in rows
    )


def main(argv):
    """Prints the table of the runs below a folder."""
    root = argv[1] if len(argv) > 1 else "runs"
    if not os.path.isdir(root):
        raise UserError(f"{root}: no such folder. Give the --out of your runs.")
    results, unfinished = find_runs(root)
    if not results:
        raise UserError(f"{root}: holds no finished run.")
    print(table(results))
    if unfinished:
        print(f"Not shown: {unfinished} unfinished.")
    print(f"\nTo look closer: tensorboard --logdir {root}")


if __name__ == "__main__":
    app.run(lambda argv: settings_lib.guarded(lambda: main(argv)))
