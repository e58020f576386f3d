"""The Elsa authors' own trials as run directories, which the report reads.

    python -m benchmarks.authors_trials elsa_trials.csv --out=runs_of_authors
    python -m tf_transfer.report runs_of_authors

`--search=elsa_search_trials.csv` takes the full models from the search of the
rate, on which the paper's table 5 rests, at the rates of the other trials.

The table has one line per trial, with the columns `model,task,metric,
frozen_blocks,trained_blocks,seed,score`: the raw results in the authors' public
repository (github ljj7975/transformers, commit 4c40497c). Settings and rates
are those of the scripts there. What nobody recorded, such as times, memory and
predictions, is null. `recorded_by` in the key names their authors, so that
nobody takes the runs for ours.
"""

import argparse
import csv
import dataclasses
import json
import math
import os
from collections.abc import Iterable, Iterator
from typing import Any

from tf_transfer.comparison import run_record
from tf_transfer.freezing import experiment as freezing
from tf_transfer.freezing.operating import ALL
from tf_transfer.reports import claims
from tf_transfer.training import records, run_paths
from tf_transfer.utils import files
from tf_transfer.utils.json_files import Record

RECORDED_BY = "the authors of the paper (ljj7975/transformers 4c40497c)"
PRESETS = {
    "bert-base": "bert_base_en_uncased",
    "roberta-base": "roberta_base_en",
    "bert-large": "bert_large_en_uncased",
    "roberta-large": "roberta_large_en",
}
TASKS = {
    "CoLA": "cola",
    "SST-2": "sst2",
    "MRPC": "mrpc",
    "STS-B": "stsb",
    "QQP": "qqp",
    "MNLI": "mnli",
    "QNLI": "qnli",
    "RTE": "rte",
}
MISMATCHED = "MNLI-MM"  # the same runs as MNLI's, on its other development set
# As committed for some weeks, their full models trained no biases and no
# LayerNorm; which commit a trial ran at, nobody recorded.
UNTRAINED = "unknown"
# Of the machine and the times, which nobody recorded.
UNKNOWN = run_record.CONDITIONS


def write_all(
    lines: Iterable[dict[str, str]],
    out: str,
    search: Iterable[dict[str, str]] = (),
) -> int:
    """Writes a run directory for each trial; returns how many.

    Args:
        lines: Of the table, by column.
        out: Folder of the run directories.
        search: Lines of the table of the search. With any, the full models
            are those of the search.
    """
    paper_file = claims.find_file("experiments", "freezing")
    assert paper_file is not None  # it is part of the checkout
    paper = claims.read_paper(paper_file)
    published = claims.read_published("experiments", "freezing")
    parts, rates = published["parameters"], published["rates"]
    if full_models := [*_take_full_models(search, published)]:
        frozen = [line for line in lines if line["trained_blocks"] != ALL]
        lines = full_models + frozen
    count = 0
    for line, metrics in _join_development_sets(lines):
        sizes = dict(paper.sizes[TASKS[line["task"]]])
        sizes["train"] = sizes.pop("train_and_validation")
        lr = rates[line["model"]][line["task"]] * rates["unit"]
        write(line, metrics, lr, sizes, parts[line["model"]], out)
        count += 1
    return count


def _take_full_models(
    search: Iterable[dict[str, str]], published: Record
) -> Iterator[dict[str, str]]:
    """Yields the search's trials at the rates of the frozen trials.

    WNLI and other metrics than the paper's have no frozen trials.
    """
    metrics, rates = published["metrics"], published["rates"]
    for line in search:
        rate = rates[line["model"]].get(line["task"], math.nan) * rates["unit"]
        if math.isclose(float(line["lr"]), rate) and (
            line["metric"] == metrics[line["task"]]
        ):
            yield {**line, "trained_blocks": ALL}


def _join_development_sets(
    lines: Iterable[dict[str, str]],
) -> Iterator[tuple[dict[str, str], dict[str, float]]]:
    """Yields each trial's line and metrics; MNLI has both development sets."""
    trials: dict[tuple[str, ...], dict[str, str]] = {}
    mismatched: dict[tuple[str, ...], float] = {}
    for line in lines:
        trial = line["model"], line["trained_blocks"], line["seed"]
        if line["task"] == MISMATCHED:
            mismatched[trial] = float(line["score"])
        else:
            trials[line["task"], *trial] = line
    for (task, *rest), line in trials.items():
        metrics = {line["metric"]: float(line["score"])}
        if task == "MNLI":
            metrics["mismatched_accuracy"] = mismatched[tuple(rest)]
        yield line, metrics


def write(
    line: dict[str, str],
    metrics: dict[str, float],
    lr: float,
    sizes: dict[str, int],
    parameters: list[int],
    out: str,
) -> None:
    """Writes the run directory of one trial.

    Args:
        line: Of the table.
        metrics: After the last epoch, on the official development set.
        lr: Learning rate.
        sizes: Examples of each split.
        parameters: See `parameters` of `experiments/freezing/published.json`.
        out: Folder of the run directories.
    """
    settings = freezing.Settings(
        model=PRESETS[line["model"]],
        data=RECORDED_BY,
        task=TASKS[line["task"]],
        trainable_layers=line["trained_blocks"],
        lr=lr,
        seed=int(line["seed"]),
        out=out,
    ).resolve()
    identities = {
        "model_identity": f"{settings.model}, {RECORDED_BY}",
        "data_identity": f"{line['task']}, {RECORDED_BY}",
        "recorded_by": RECORDED_BY,
    }
    key = run_paths.locate(settings, "freezing", [], identities, 1).key
    recorded = {"untrained": UNTRAINED} if settings.trains_everything else {}
    key |= recorded
    folder = os.path.join(
        out,
        "freezing",
        settings.task,
        settings.approach,
        run_paths.run_name(settings, key),
    )
    os.makedirs(folder, exist_ok=True)
    embeddings, block, blocks, pooler, _ = parameters
    files.write_json(
        os.path.join(folder, "config.json"),
        {
            "settings": {**dataclasses.asdict(settings), **recorded},
            "key": key,
            "parts": {
                "embeddings": embeddings,
                **{f"block {n + 1}": block for n in range(blocks // block)},
                "pooler": pooler,
            },
            "split_sizes": sizes,
            "git_commit": None,
            "versions": {"transformers": "2.1.1", "torch": "1.2.0"},
            **dict.fromkeys(UNKNOWN),
            "starts": [],
        },
    )
    scores = {"validation": None, "test": metrics}
    last: dict[str, Any] = {
        "epoch": settings.max_epochs,
        "phase": 1,
        "phase_epoch": settings.max_epochs,
        **scores,
        "elapsed_seconds": None,
        "peak_memory_bytes": None,
    }
    with open(
        os.path.join(folder, "epochs.jsonl"), "w", encoding="utf-8"
    ) as file:
        file.write(json.dumps(last) + "\n")
    records.RunDirectory(folder, key).write_result(
        {
            "task": settings.task,
            "approach": settings.approach,
            "trainable_layers": settings.trainable_layers,
            "lr": settings.lr,
            "batch_size": settings.batch_size,
            "seed": settings.seed,
            "metric": line["metric"],
            **scores,
            "best_epoch": settings.max_epochs,
            "epochs_run": settings.max_epochs,
            "stop_reason": "max_epochs",
            "phases": [],
            **dict.fromkeys(
                (
                    "train_seconds",
                    "seconds_per_epoch",
                    "prefix_seconds",
                    "prefix_build_seconds",
                    "trainable_parameters",
                    "total_parameters",
                )
            ),
        }
    )


def read_table(path: str) -> list[dict[str, str]]:
    """The lines of a table of `elsa_trials`, by column."""
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table", help="such as elsa_trials.csv")
    parser.add_argument("--out", default="runs_of_authors")
    parser.add_argument("--search", help="such as elsa_search_trials.csv")
    given = parser.parse_args()
    search = read_table(given.search) if given.search else []
    count = write_all(read_table(given.table), given.out, search)
    print(f"{count} trials in {given.out}")


if __name__ == "__main__":
    main()
