"""Damaged tables in binary formats: read, or refused in one sentence."""

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from tests.attack import damage
from tests.support import own_data
from tf_transfer.data import table_files
from tf_transfer.utils.errors import UserError

COLUMNS = {name: own_data.news(60)[name] for name in ("body", "team", "stars")}


def write_parquet(rng, path):
    """A table of one compression, with a fault of its own or without."""
    names, cells = [*COLUMNS], [*COLUMNS.values()]
    fault = rng.randrange(4)
    if fault == 0:  # two columns of one name
        names[rng.randrange(3)] = rng.choice(names)
    arrays = [pyarrow.array(some) for some in cells]
    if fault == 1:  # text that is not UTF-8
        words = [word.encode() for word in cells[0]]
        words[rng.randrange(60)] = rng.randbytes(5) + b"\xff"
        binary = pyarrow.array(words, pyarrow.binary())
        arrays[0] = pyarrow.Array.from_buffers(
            pyarrow.string(), 60, binary.buffers()
        )
    kind = rng.choice(("snappy", "none", "zstd", "gzip"))
    table = pyarrow.Table.from_arrays(arrays, names)
    parquet.write_table(table, path, compression=kind)


def write_excel(rng, path):
    """The first sheet of a workbook."""
    openpyxl = pytest.importorskip("openpyxl")
    del rng
    book = openpyxl.Workbook()
    for row in ([*COLUMNS], *zip(*COLUMNS.values())):
        book.active.append(row)
    book.save(path)


@pytest.mark.parametrize(
    "name, write, count",
    [("a.parquet", write_parquet, 5000), ("a.xlsx", write_excel, 500)],
)
def test_a_damaged_table_is_read_or_refused(
    name, write, count, attempts, rng, tmp_path
):
    path, refused = tmp_path / name, 0
    for _ in range(attempts(count)):
        write(rng, path)
        if rng.random() < 0.8:
            damage.damage_file(rng, path)
        try:
            table = table_files.read_table(str(path), {"body": "", "stars": ""})
            assert len(table.texts("body")) == len(table)
            assert np.isfinite(table.scores("stars")).all()
        except UserError as error:
            refused += 1
            lines = str(error).splitlines()
            assert str(path) in lines[0] and len(lines) <= 12, error
            assert len(lines) == 1 or "rows cannot be used" in lines[0]
    assert 0 < refused < attempts(count)
