"""Groups: texts of one author, patient or document, which are alike.

A column of a table names the group of each row (docs/guides/task_file.md). Rows
of one group are in one split and in one fold, and intervals draw whole groups.
"""

import hashlib
import itertools
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from tf_transfer.data import splits
from tf_transfer.data.columns import Cell, normalize_cell, Table
from tf_transfer.utils import formatting
from tf_transfer.utils.errors import UserError
from tf_transfer.utils.formatting import cut

# What names the groups, for messages.
NAMES = "--group_column (`group` in a task file, `groups` of fit)"
# A column of groups has more values than this, with this many rows each on
# average (ours).
VALUES, ROWS = 10, 5


def parse_groups(table: Table, column: str) -> np.ndarray:
    """int64 [rows]. A number for each word of a column, the same in all files.

    Raises:
        BadRows: Cells are empty.
    """
    words = table.convert(column, _parse_cell)
    digests = (
        hashlib.blake2b(word.encode(), digest_size=8).digest() for word in words
    )
    return np.frombuffer(b"".join(digests), np.int64)


def _parse_cell(cell: Cell) -> str:
    word = normalize_cell(cell)
    if not word:
        raise ValueError("is empty")
    return word


def merge_groups(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Numbers rows so that all rows of a group of either kind share one.

    Args:
        first: int64 [rows]. The groups of the rows, of one kind.
        second: int64 [rows]. The groups of the rows, of the other kind.

    Returns:
        int64 [rows], from 0 on.
    """
    from scipy.sparse import coo_array, csgraph

    one, other = (
        np.unique(groups, return_inverse=True)[1] for groups in (first, second)
    )
    size = 2 * len(one)
    edges = np.ones(len(one)), (one, other + len(one))
    _, parts = csgraph.connected_components(coo_array(edges, (size, size)))
    return np.unique(parts[one], return_inverse=True)[1]


def check_apart(parts: Iterable[Table], column: str, flag: str) -> None:
    """Raises `UserError` if a group is in two parts, with the line.

    Args:
        parts: The rows of each split.
        column: The column of the groups.
        flag: The flag or key that names it.
    """
    earlier = np.zeros(0, np.int64)
    for table in parts:
        groups = parse_groups(table, column)
        is_shared = np.isin(groups, earlier)
        if is_shared.any():
            row = int(is_shared.argmax())
            name = cut(normalize_cell(table.columns[column][row]))
            raise UserError(
                f"{table.locate(row)}, column {cut(column)!r}: group {name!r} "
                f"is also in another split, as are those of {is_shared.sum():,}"
                f" of the {len(groups):,} rows here. Put all rows of a group "
                f"into one split, or leave {flag} out."
            )
        earlier = np.concatenate([earlier, groups])


# === Splits and folds ===


def can_hold_out(groups: np.ndarray, fraction: float, fold: int) -> bool:
    """Whether some groups train if a fraction of them is held out.

    Args:
        groups: int64 [examples]. The group of each.
        fraction: The fraction of the groups that is held out, above 0.
        fold: Which of the disjoint parts of that fraction.
    """
    count = len(np.unique(groups))
    return fold * splits.count_held(count, fraction) < count > 1


def check_held_out(groups: np.ndarray, fraction: float, fold: int) -> None:
    """Raises `UserError` if no group can validate; see `can_hold_out`."""
    if not can_hold_out(groups, fraction, fold):
        raise UserError(
            f"{NAMES}: {_count_groups(groups)}, too few to validate on fold "
            f"{fold} of --validation_fraction={fraction:g}. Give texts of more "
            "groups, a smaller --fold, or separate validation texts."
        )


def _count_groups(groups: np.ndarray) -> str:
    number = formatting.count(len(np.unique(groups)), "group")
    return f"has {number} in {len(groups):,} training texts"


def check_folds(groups: np.ndarray, count: int) -> None:
    """Raises `UserError` if training texts have fewer groups than folds."""
    if len(np.unique(groups)) < count:
        raise UserError(
            f"{NAMES}: {_count_groups(groups)}, fewer than the {count} folds "
            "of a cross-validation. Give texts of more groups; --features=bert "
            "trains without folds."
        )


def make_folds(
    labels: np.ndarray,
    groups: np.ndarray,
    count: int,
    seed: int,
    repeats: int = 1,
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Folds of a cross-validation within the training set, of whole groups.

    Args:
        labels: See `task.Examples`. Folds have classes in proportion, as far
            as groups allow; of other labels, similar sizes.
        groups: int64 [examples]. The group of each.
        count: The number of folds.
        seed: The seed of the folds.
        repeats: The number of repetitions, each with folds of its own.

    Returns:
        For each fold the rows to train on, and the rows to test.

    Raises:
        UserError: There are more folds than groups.
    """
    from sklearn import model_selection

    check_folds(groups, count)
    if labels.ndim > 1 or labels.dtype.kind == "f":
        labels = np.zeros(len(labels), np.int64)
    splitter = model_selection.StratifiedGroupKFold(
        count, shuffle=True, random_state=np.random.RandomState(seed)
    )
    folds = (splitter.split(labels, labels, groups) for _ in range(repeats))
    return [*itertools.chain(*folds)]


# === A column that may name groups ===


def find_column(columns: Mapping[str, Sequence[Cell]]) -> str:
    """The only column with as few values as groups have; "" if none is.

    Args:
        columns: The cells of the columns to search, by name.
    """
    found = [name for name, cells in columns.items() if _has_few_values(cells)]
    return found[0] if len(found) == 1 else ""


def _has_few_values(cells: Sequence[Cell]) -> bool:
    words = [*filter(None, map(normalize_cell, cells))]
    return VALUES < len({*words}) <= len(words) / ROWS
