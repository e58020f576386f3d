"""Hart's held-out tweets, and the order of rows of his folds.

    git clone https://github.com/jackhart/BERT-tuning
    git -C BERT-tuning checkout 6016114
    python -m benchmarks.hart_split BERT-tuning --out=tweets

Writes `hart_test_ids.txt`, the ids of his `data/test.csv` in rising order, and
`hart_order.txt`, the ids of `data/train.csv` followed by those of
`data/test.csv`: his `simple_tfidf.py` draws the folds on the two in this order.
One id per line.
"""

import argparse
import csv
import os

from tf_transfer.utils import files
from tf_transfer.utils.errors import UserError

TEST_IDS = "hart_test_ids.txt"
ORDER = "hart_order.txt"


def read_ids(path: str) -> list[str]:
    """The column `id` of a CSV file of the repository, in its order.

    Raises:
        UserError: The file is missing, or has no such column.
    """
    if not os.path.isfile(path):
        raise UserError(
            f"{path}: no such file. Give the folder of a checkout of "
            "github jackhart/BERT-tuning, commit 6016114."
        )
    with open(path, encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file)
        if "id" not in (rows.fieldnames or []):
            raise UserError(f"{path}: has no column `id`.")
        return [row["id"] for row in rows]


def write_split(folder: str, out: str) -> None:
    """Writes both files.

    Args:
        folder: Of a checkout of the repository.
        out: Folder of the two files.
    """
    train = read_ids(os.path.join(folder, "data", "train.csv"))
    test = read_ids(os.path.join(folder, "data", "test.csv"))
    os.makedirs(out, exist_ok=True)
    for name, ids in [
        (TEST_IDS, sorted(test, key=int)),
        (ORDER, train + test),
    ]:
        text = "".join(f"{number}\n" for number in ids)
        files.write_atomically(os.path.join(out, name), text.encode())


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", help="a checkout of jackhart/BERT-tuning")
    parser.add_argument("--out", default="tweets", help="the files' folder")
    given = parser.parse_args()
    try:
        write_split(given.folder, given.out)
    except UserError as error:
        raise SystemExit(str(error)) from None
    print(f"{TEST_IDS} and {ORDER} in {given.out}")


if __name__ == "__main__":
    main()
