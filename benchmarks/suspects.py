"""Labels that look wrong, where some were made wrong on purpose.

    python -m benchmarks.suspects --data=FOLDER
    python -m benchmarks.suspects --document=docs/guides/errors.md

FOLDER holds `glue`, `glue_subset`, `cs224n` and `tweets`. In each of six tasks,
some of 1,000 labels are replaced by another class, drawn at random. Five folds
of the probe on `minilm`, and of the TF-IDF baseline, give probabilities of
texts that they were not fitted to, by which `data.suspects` ranks the labels.
As many as were replaced are taken from the top of the ranking. The table has
the share of them that was replaced. Chance is the share of replaced labels.
"""

import contextlib
import io
import os
import statistics
from typing import Any

import numpy as np
from absl import flags

from benchmarks import documents, own_tables
from tf_transfer import train
from tf_transfer.config import command_line
from tf_transfer.data import suspects
from tf_transfer.runs.warm import WarmState
from tf_transfer.training import records
from tf_transfer.utils import files, formatting

NAME = "suspects"
FOLDS = 5
SHARES = (0.05, 0.1)  # of the labels, that are replaced
APPROACHES = {"tfidf": "TF-IDF", "frozen": "the probe"}

Case = dict[str, Any]


def define_flags() -> None:
    """Defines the flags of this command."""
    flags.DEFINE_string("data", "data", "Folder of the data sets.")
    flags.DEFINE_string("model", "minilm", "The encoder.")
    flags.DEFINE_integer("examples", 1000, "Labelled texts of a task.", 100)
    flags.DEFINE_integer("max_length", 128, "Tokens of a text.", 8)
    flags.DEFINE_list("tasks", list(own_tables.TASKS), "Tasks to measure.")
    flags.DEFINE_string("runs", "runs/suspects", "Root of the runs.")
    flags.DEFINE_string("out", "experiments/suspects", "Of measured.json.")
    flags.DEFINE_string("document", "", "Document to write the table into.")


def replace_labels(
    labels: np.ndarray, share: float
) -> tuple[np.ndarray, np.ndarray]:
    """Gives a share of labels another class, drawn at random.

    Args:
        labels: str [texts].
        share: Share of the labels.

    Returns:
        The labels, and bool [texts]: whether each was replaced.
    """
    rng = np.random.default_rng(0)
    replaced = labels.copy()
    classes = sorted({*labels.tolist()})
    count = round(share * len(labels))
    rows = rng.choice(len(labels), count, replace=False)
    for row in rows:
        others = [name for name in classes if name != labels[row]]
        replaced[row] = rng.choice(others)
    return replaced, np.isin(np.arange(len(labels)), rows)


def hold_out(
    path: str, features: str, warm: WarmState
) -> tuple[np.ndarray, np.ndarray]:
    """Labels and logits of all texts of a task, each from its fold.

    Args:
        path: The task file.
        features: One of `APPROACHES`.
        warm: Keeps the encoder from run to run.
    """
    values = flags.FLAGS
    parts = []
    for fold in range(FOLDS):
        settings = train.Settings(
            task=path,
            model=values.model,
            features=features,
            validation_fraction=1 / FOLDS,
            fold=fold,
            max_length=values.max_length,
            baseline=False,
            out=os.path.join(os.path.dirname(path), "runs"),
            cache_dir=os.path.join(values.runs, "cache"),
        )
        with contextlib.redirect_stdout(io.StringIO()):
            run = train.Train(settings, warm=warm)
            run.data.reports_problems = False
            result = run.train(prints_answer=False)
        directory = records.RunDirectory(result.directory, None)
        parts.append(directory.predictions(result.record))
    ids, labels, logits = (
        np.concatenate([part[f"validation_{name}"] for part in parts])
        for name in ("ids", "labels", "logits")
    )
    order = ids.argsort()
    assert np.array_equal(ids[order], np.arange(len(ids)))
    return labels[order], logits[order]


def measure_task(task: str, share: float, warm: WarmState) -> Case:
    """Ranks the labels of a task by the folds of each approach."""
    values = flags.FLAGS
    folder = os.path.join(values.runs, f"{task}_{round(100 * share)}")
    table, _ = own_tables.write_task(task, values.data, values.examples, folder)
    labels, is_replaced = replace_labels(table["label"].to_numpy(str), share)
    table = table.assign(label=labels)
    table.to_csv(os.path.join(folder, "train.csv"), index=False)
    path = os.path.join(folder, "task.toml")
    with open(path, encoding="utf-8") as file:
        lines = [line for line in file if not line.startswith("test =")]
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(lines)
    case: Case = {"texts": len(labels), "replaced": int(is_replaced.sum())}
    for features in APPROACHES:
        found = suspects.find_suspects(*hold_out(path, features, warm))
        is_right = is_replaced[[suspect.row for suspect in found]]
        clear = [s for s in found if s.margin >= suspects.CLEAR_MARGIN]
        case[features] = {
            "found": len(found),
            "clear": len(clear),
            "clear_replaced": int(is_right[: len(clear)].sum()),
            "top_replaced": int(is_right[: case["replaced"]].sum()),
        }
    return case


def measure(out: str) -> Case:
    """Measures every task, and stores the result after each."""
    values = flags.FLAGS
    command_line.import_tensorflow()
    measured: Case = {
        "model": values.model,
        "max_length": values.max_length,
        "tasks": {},
    }
    os.makedirs(out, exist_ok=True)
    warm = WarmState()
    for task in values.tasks:
        cases = {
            str(share): measure_task(task, share, warm) for share in SHARES
        }
        measured["tasks"][task] = cases
        print(task, cases, flush=True)
        files.write_json(os.path.join(out, "measured.json"), measured)
    return measured


def make_table(measured: Case) -> str:
    """The table as Markdown, with the mean over the tasks as its last row."""
    heads, columns = ["task"], []
    for share in SHARES:
        heads += [f"{share:.0%} replaced: chance", *APPROACHES.values()]
        heads.append("clear suspects of the probe (of these, replaced)")
    rows = [heads, ["---"] * len(heads)]
    for task, cases in measured["tasks"].items():
        row, precisions = [task], []
        for share in SHARES:
            case = cases[str(share)]
            count = case["replaced"]
            shares = [count / case["texts"]]
            for name in APPROACHES:
                shares.append(case[name]["top_replaced"] / count)
            found = case["frozen"]
            row += [f"{100 * x:.0f}" for x in shares]
            row.append(f"{found['clear']} ({found['clear_replaced']})")
            precisions += [*shares, None]
        columns.append(precisions)
        rows.append(row)
    means = ["**mean**"]
    for column in zip(*columns):
        is_counted = column[0] is None
        mean = "" if is_counted else f"{100 * statistics.fmean(column):.0f}"
        means.append(mean)
    rows.append(means)
    texts = max(
        case["texts"]
        for cases in measured["tasks"].values()
        for case in cases.values()
    )
    return (
        f"`{measured['model']}`, {formatting.count(texts, 'labelled text')} of "
        f"up to {measured['max_length']} tokens, {FOLDS} folds; precision in "
        "percent:\n\n" + documents.as_markdown(rows)
    )


def main(argv: list[str]) -> None:
    """Measures and prints the table, or fills a document."""
    del argv
    values = flags.FLAGS
    documents.measure_or_fill(
        measure, make_table, values.out, values.document, NAME
    )


if __name__ == "__main__":
    define_flags()
    command_line.command(main)
