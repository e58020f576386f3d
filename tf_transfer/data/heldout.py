"""Which rows of a table are tested: one held-out set, or folds."""

import os
from collections.abc import Sequence

import numpy as np

from tf_transfer.utils.errors import UserError
from tf_transfer.utils.formatting import cut

Split = tuple[np.ndarray, np.ndarray]  # rows to train on, rows to test


def read_ids(path: str, said: str) -> list[str]:
    """Reads the ids of a file, one a line.

    Args:
        path: The file.
        said: What names it, for messages, such as `--test_ids=ids.txt`.

    Raises:
        UserError: There is no such file, or it has no ids, or one twice.
    """
    if not os.path.isfile(path):
        raise UserError(f"{said}: no such file. Give a file with an id a line.")
    try:
        with open(path, encoding="utf-8-sig") as file:
            ids = [line.strip() for line in file if line.strip()]
    except UnicodeDecodeError:
        raise UserError(f"{said}: is not UTF-8. Convert it.") from None
    if not ids:
        raise UserError(f"{said}: holds no ids.")
    if len(set(ids)) < len(ids):
        raise UserError(f"{said}: has an id twice.")
    return ids


def find_rows(
    ids: Sequence[str],
    table_ids: Sequence[str],
    said: str,
    table_path: str,
    column: str,
) -> np.ndarray:
    """Finds the rows of ids, in the order of the ids.

    Args:
        ids: The ids of a file.
        table_ids: The ids of all rows of the table at `table_path`.
        said: What names the file, for messages.
        table_path: For messages.
        column: What names the column of the ids, for messages.

    Returns:
        int64 [ids]. Row numbers.

    Raises:
        UserError: One is not in the table, or there more than once.
    """
    row_of: dict[str, int] = {}
    repeated = set()
    for row, word in enumerate(table_ids):
        if row_of.setdefault(word, row) != row:
            repeated.add(word)
    missing = [word for word in ids if word not in row_of]
    if missing:
        raise UserError(
            f"{said}: {len(missing)} of its {len(ids)} ids are not in "
            f"{table_path}, such as {cut(missing[0])!r}. Is {column} right?"
        )
    several = [word for word in ids if word in repeated]
    if several:
        raise UserError(
            f"{said}: {len(several)} of its {len(ids)} ids stand for several "
            f"rows of {table_path}, such as {cut(several[0])!r}. Give each row "
            "an id of its own."
        )
    return np.array([row_of[word] for word in ids])


def draw_test_rows(
    labels: np.ndarray, groups: np.ndarray, fraction: float, seed: int
) -> np.ndarray:
    """Draws whole groups to test, stratified by the label of their first row.

    Args:
        labels: int64 [rows].
        groups: int [rows]. A number for each row; rows of one group are all
            tested or all trained on.
        fraction: The fraction of the groups that is tested.
        seed: The split seed.

    Returns:
        Sorted row numbers to test.

    Raises:
        UserError: The groups are too few to be split so.
    """
    import sklearn.model_selection

    first_rows = np.unique(groups, return_index=True)[1]
    try:
        _, tested = sklearn.model_selection.train_test_split(
            groups[first_rows],
            test_size=fraction,
            random_state=seed,
            stratify=labels[first_rows],
        )
    except ValueError as error:
        raise UserError(
            f"--test_fraction={fraction:g}: the {len(first_rows)} different "
            f"texts cannot be split so ({error}). Give another fraction, or "
            "--test_ids; with --duplicates=group, a label may have one text "
            "only."
        ) from None
    return np.flatnonzero(np.isin(groups, tested))


def split_train_test(tested: np.ndarray, groups: np.ndarray) -> Split:
    """Leaves rows whose group is tested out of those that train.

    Returns:
        Sorted row numbers to train on, sorted row numbers to test.
    """
    tested = np.sort(tested)
    is_tested = np.isin(groups, groups[tested])
    return np.flatnonzero(~is_tested), tested


def make_folds(
    groups: np.ndarray, count: int, seed: int, order: np.ndarray | None = None
) -> list[Split]:
    """Makes the folds of a cross-validation: each row is tested in one.

    Args:
        groups: int [rows]. A number for each row; rows of one group are in
            one fold.
        count: How many folds.
        seed: Of the shuffle.
        order: int [rows]. Row numbers in the order that the folds are drawn
            on; the table's where it is None.

    Returns:
        For each fold the rows to train on, and the rows to test.

    Raises:
        UserError: There are not as many groups.
    """
    import sklearn.model_selection

    order = np.arange(len(groups)) if order is None else order
    units = groups[order][
        np.sort(np.unique(groups[order], return_index=True)[1])
    ]
    if not 2 <= count <= len(units):
        raise UserError(
            f"--folds={count}: give 2 to {len(units)}, the number of different "
            "texts."
        )
    cut = sklearn.model_selection.KFold(count, shuffle=True, random_state=seed)
    folds = []
    for _, tested in cut.split(units):
        is_tested = np.isin(groups[order], units[tested])
        folds.append((order[~is_tested], order[is_tested]))
    return folds


def check_labels(
    train: np.ndarray,
    labels: np.ndarray,
    label_names: Sequence[str],
    flag: str = "test_ids",
) -> None:
    """Raises `UserError` where no example of a label is left to train on."""
    missing = _missing_labels(labels[train], label_names)
    if missing:
        raise UserError(
            f"--{flag}: leaves no example of label {cut(missing[0])!r} to "
            f"train on, of {len(train)}. Leave more."
        )


def check_fold(
    number: int,
    count: int,
    labels: np.ndarray,
    train: np.ndarray,
    tested: np.ndarray,
    label_names: Sequence[str],
) -> None:
    """Raises `UserError` where a fold trains or tests without some label."""
    for rows, verb in ((train, "trains"), (tested, "tests")):
        missing = _missing_labels(labels[rows], label_names)
        if missing:
            raise UserError(
                f"--folds={count}: fold {number} {verb} on no example of label "
                f"{cut(missing[0])!r}. Give fewer folds, or another "
                "--fold_seed."
            )


def _missing_labels(
    labels: np.ndarray, label_names: Sequence[str]
) -> list[str]:
    present = set(np.unique(labels).tolist())
    return [
        name for label, name in enumerate(label_names) if label not in present
    ]
