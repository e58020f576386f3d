"""Six tasks as a user's own tables, which benchmarks of searches read."""

import csv
import os
import re
from collections.abc import Sequence

import pandas as pd

# By task: the file, its columns of texts and of the label, and the file of the
# test. Without one, `TESTING` texts are held out.
TASKS: dict[str, tuple[str, tuple[str, ...], str, str]] = {
    "sst2": ("glue/SST-2/train.tsv", ("sentence",), "label", "dev.tsv"),
    "cola": ("glue/CoLA/train.tsv", ("3",), "1", "dev.tsv"),
    "mrpc": (
        "glue/MRPC/train.tsv",
        ("#1 String", "#2 String"),
        "Quality",
        "dev.tsv",
    ),
    "qqp": (
        "glue_subset/QQP/train.tsv",
        ("question1", "question2"),
        "is_duplicate",
        "dev.tsv",
    ),
    "tweets": ("tweets/train.csv", ("text",), "target", ""),
    "sentiment": (
        "cs224n/ids-sst-train.csv",
        ("sentence",),
        "sentiment",
        "ids-sst-dev.csv",
    ),
}
TESTING = 2_000
TASK_FILE = """\
name = "{task}"
texts = {texts}
label = "label"
labels = {labels}
train = "train.csv"
test = "test.csv"
"""


def write_task(
    task: str, data: str, examples: int, folder: str, draw: int = 0
) -> list[pd.DataFrame]:
    """Writes a user's task file with its two tables.

    Args:
        task: Key of `TASKS`.
        data: Folder of the data sets.
        examples: Number of labelled texts.
        folder: For the files.
        draw: Number of the draw. No two share labelled texts; all have the
            same test.

    Returns:
        The labelled texts and those of the test: columns text0 (and text1) and
        label.
    """
    path, texts, label, test = TASKS[task]
    path = os.path.join(data, path)
    table = _read_texts(path, texts, label)
    shuffled = table.sample(len(table), random_state=0)
    test_texts = shuffled[-TESTING:]
    if test:
        test = os.path.join(os.path.dirname(path), test)
        test_texts = _read_texts(test, texts, label)
    first = draw * examples
    parts = [shuffled[first : first + examples], test_texts[:TESTING]]
    os.makedirs(folder, exist_ok=True)
    for part, name in zip(parts, ("train", "test")):
        part.to_csv(os.path.join(folder, f"{name}.csv"), index=False)
    columns = [name for name in table if name != "label"]
    labels = sorted(set(table["label"]))
    text = TASK_FILE.format(task=task, texts=columns, labels=labels)
    with open(os.path.join(folder, "task.toml"), "w", encoding="utf-8") as file:
        file.write(text)
    return parts


def _read_texts(path: str, texts: Sequence[str], label: str) -> pd.DataFrame:
    """The texts and labels of a file, as strings."""
    with open(path, encoding="utf-8") as file:
        has_tabs = "\t" in file.readline()
    is_quoted = path.endswith(".csv")
    table = pd.read_csv(
        path,
        sep="\t" if has_tabs else ",",
        header=None if texts[0].isdigit() else 0,  # CoLA has no heads
        quoting=csv.QUOTE_MINIMAL if is_quoted else csv.QUOTE_NONE,
        dtype=str,
        encoding="utf-8-sig",
    )
    table.columns = table.columns.map(str)
    columns = {name: f"text{n}" for n, name in enumerate(texts)}
    table = table.rename(columns={**columns, label: "label"})
    table = table[[*columns.values(), "label"]].dropna()
    if re.fullmatch(r"\d+\.0", table["label"].iloc[0]):
        table["label"] = table["label"].str.removesuffix(".0")
    return table
