"""Which rows of a table are tested: one held-out set, or folds."""

import os

import numpy as np
import sklearn.model_selection

from tf_transfer.utils.errors import UserError


def read_ids(path, flag):
    """The ids of a file, one a line.

    Raises:
        UserError: no such file, or it has one twice.
    """
    if not os.path.isfile(path):
        raise UserError(
            f"--{flag}={path}: no such file. Give a file with an id a line."
        )
    with open(path, encoding="utf-8-sig") as file:
        found = [line.strip() for line in file if line.strip()]
    if not found:
        raise UserError(f"--{flag}={path}: holds no ids.")
    if len(set(found)) < len(found):
        raise UserError(f"--{flag}={path}: has an id twice.")
    return found


def rows_of_ids(ids, table_ids, path, flag, data):
    """The row numbers of ids, in their order.

    Raises:
        UserError: one is not in the table.
    """
    places = {word: row for row, word in enumerate(table_ids)}
    missing = [word for word in ids if word not in places]
    if missing:
        raise UserError(
            f"--{flag}={path}: {len(missing)} of its {len(ids)} ids are not in "
            f"{data}, such as {missing[0]!r}. Is --id_column right?"
        )
    return np.array([places[word] for word in ids])


def draw(labels, groups, fraction, seed):
    """A held-out set: stratified where rows stand for themselves.

    Args:
        groups: int [rows]. Rows of one group are on one side.
        fraction: part of the groups that is tested.
        seed: the split seed.

    Returns:
        Sorted row numbers to test.
    """
    first = np.unique(groups, return_index=True)[1]
    try:
        _, tested = sklearn.model_selection.train_test_split(
            groups[first],
            test_size=fraction,
            random_state=seed,
            stratify=labels[first],
        )
    except ValueError as error:
        raise UserError(
            f"--test_fraction={fraction:g}: the {len(first)} different texts "
            f"cannot be divided so ({error}). Give another one, or --test_ids; "
            "with --duplicates=group, a label may have one text only."
        ) from None
    return np.flatnonzero(np.isin(groups, tested))


def divide(tested, groups):
    """Rows to train on and to test; whose text is tested is not trained on.

    Returns:
        Sorted row numbers to train on, sorted row numbers to test.
    """
    tested = np.sort(tested)
    is_tested = np.isin(groups, groups[tested])
    return np.flatnonzero(~is_tested), tested


def folds(groups, count, seed, order=None):
    """Cross-validation: each row is tested in one fold.

    Args:
        groups: int [rows]. Rows of one group are in one fold.
        count: how many folds.
        seed: of the shuffle.
        order: row numbers as the folds are drawn on them; unset, the table's.

    Returns:
        List of (rows to train on, rows to test).
    """
    order = np.arange(len(groups)) if order is None else order
    units = groups[order][
        np.sort(np.unique(groups[order], return_index=True)[1])
    ]
    if not 2 <= count <= len(units):
        raise UserError(
            f"--folds={count}: give 2 to {len(units)}, which is all that these "
            "data can be cut into."
        )
    cut = sklearn.model_selection.KFold(count, shuffle=True, random_state=seed)
    found = []
    for _, tested in cut.split(units):
        inside = np.isin(groups[order], units[tested])
        found.append((order[~inside], order[inside]))
    return found


def check_labels(train, labels, words, flag="test_ids"):
    """Raises `UserError` where a label is left out of what is trained on."""
    missing = set(range(len(words))) - set(np.unique(labels[train]).tolist())
    if missing:
        raise UserError(
            f"--{flag}: leaves no example of label {words[min(missing)]!r} to "
            f"train on, of {len(train)}. Leave more."
        )


def check_fold(number, count, labels, train, tested, words):
    """Raises `UserError` where a side of a fold has no example of a label."""
    for rows, side in ((train, "trains"), (tested, "tests")):
        missing = set(range(len(words))) - set(np.unique(labels[rows]).tolist())
        if missing:
            raise UserError(
                f"--folds={count}: fold {number} {side} on no example of label "
                f"{words[min(missing)]!r}. Give fewer folds, or another "
                "--fold_seed."
            )
