"""The examples of docs/gallery, run on `minilm`.

    python -m benchmarks.gallery --conll=FOLDER
    python -m benchmarks.gallery --conll=FOLDER --only=blocks,features
    python -m benchmarks.gallery --conll=FOLDER --tables=FOLDER

Each page has one example, which runs in a new process and an empty folder with
the tables. Its output, and its figure, are written into the page. FOLDER of
--conll holds `eng.train` of CoNLL-2003. With --tables, the tables alone are
written.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence

import numpy as np
import pandas as pd
from absl import flags

from benchmarks import documents
from tf_transfer import train
from tf_transfer.config import command_line
from tf_transfer.data import conll
from tf_transfer.data.task import Examples, Sentences
from tf_transfer.utils.errors import RunError

FOLDER = "docs/gallery"
EXAMPLES = ("table", "encoders", "blocks", "few_labels", "entities", "features")
ROWS = 1000  # of each table
FIGURE = "curve.svg"


def define_flags() -> None:
    """Defines the flags of this command."""
    flags.DEFINE_string("conll", "conll2003", "Folder with eng.train.")
    flags.DEFINE_string("tables", "", "Folder to write the tables into.")
    flags.DEFINE_list("only", list(EXAMPLES), "The examples to run.")


def read_code(name: str) -> str:
    """The Python of an example's page."""
    with open(os.path.join(FOLDER, f"{name}.md"), encoding="utf-8") as file:
        [code] = re.findall(r"^```python\n(.*?)^```", file.read(), re.M | re.S)
    return str(code)


def write_tables(reviews: Examples, sentences: Sentences, folder: str) -> None:
    """Writes `reviews.csv` and `sentences.jsonl`.

    Args:
        reviews: Sentences with the label ids 0, bad, and 1, good.
        sentences: Tagged sentences.
        folder: Where to.
    """
    os.makedirs(folder, exist_ok=True)
    labels = np.array(["bad", "good"])[reviews.labels]
    table = pd.DataFrame({"text": reviews.texts[0], "label": labels})
    table.to_csv(os.path.join(folder, "reviews.csv"), index=False)
    words = pd.DataFrame({"words": sentences.words, "tags": sentences.tags})
    path = os.path.join(folder, "sentences.jsonl")
    words.to_json(path, orient="records", lines=True)


def read_tables(conll_folder: str) -> tuple[Examples, Sentences]:
    """The rows of both tables: the first stratified, the second from the top.

    Args:
        conll_folder: Holds `eng.train`.
    """
    settings = train.Settings(
        task="sst2", data="rotten_tomatoes", max_train_examples=ROWS
    )
    reviews = train.Train(settings).data.examples["sst2"]["train"][""]
    assert isinstance(reviews, Examples)
    path = os.path.join(conll_folder, "eng.train")
    return reviews, conll.read_sentences(path).take(np.arange(ROWS))


def run_example(name: str, tables: str) -> str:
    """Runs an example, and copies its figure next to its page.

    Args:
        name: One of `EXAMPLES`.
        tables: Folder of the tables.

    Returns:
        What it prints, and its figure, as Markdown.

    Raises:
        RunError: It fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(tables, folder, dirs_exist_ok=True)
        process = subprocess.run(
            [sys.executable, "-c", read_code(name)],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": os.getcwd(), "MPLBACKEND": "svg"},
            capture_output=True,
            text=True,
        )
        if process.returncode:
            raise RunError(f"{FOLDER}/{name}.md: fails.\n{process.stderr}")
        text = f"It prints:\n\n```text\n{process.stdout.strip()}\n```"
        if os.path.exists(figure := os.path.join(folder, FIGURE)):
            shutil.copy(figure, os.path.join(FOLDER, FIGURE))
            text += f"\n\n![The figure]({FIGURE})"
    return text


def main(argv: Sequence[str] = ()) -> None:
    """Writes the tables, or runs the examples and fills their pages."""
    command_line.refuse_words(argv)
    values = flags.FLAGS
    rows = read_tables(values.conll)
    if values.tables:
        write_tables(*rows, values.tables)
        return
    with tempfile.TemporaryDirectory() as tables:
        write_tables(*rows, tables)
        for name in values.only:
            text = run_example(name, tables)
            print(f"{name}\n\n{text}", flush=True)
            documents.fill(os.path.join(FOLDER, f"{name}.md"), "output", text)


if __name__ == "__main__":
    define_flags()
    command_line.command(main)
