"""Which rows are tested: nothing on both sides, whatever is asked for."""

import numpy as np
import pytest
import sklearn.model_selection

from tf_transfer.data import heldout
from tf_transfer.utils.errors import UserError

ALONE = np.arange(100)
LABELS = np.array([0, 0, 0, 1] * 25)


def test_a_drawn_set_is_stratified_and_the_seed_s():
    tested = heldout.draw_test_rows(LABELS, ALONE, 0.2, 0)
    assert len(tested) == 20 and LABELS[tested].sum() == 5
    assert (
        tested.tolist()
        == heldout.draw_test_rows(LABELS, ALONE, 0.2, 0).tolist()
    )
    assert (
        tested.tolist()
        != heldout.draw_test_rows(LABELS, ALONE, 0.2, 1).tolist()
    )


def test_what_is_tested_is_not_trained_on():
    train, tested = heldout.split_train_test(np.array([5, 3]), ALONE)
    assert tested.tolist() == [3, 5]
    assert sorted([*train, *tested]) == ALONE.tolist()


def test_groups_stay_on_one_side():
    groups = ALONE // 4
    train, tested = heldout.split_train_test(
        heldout.draw_test_rows(LABELS, groups, 0.2, 0), groups
    )
    assert not set(groups[train]) & set(groups[tested])
    assert len(train) + len(tested) == 100
    # A test set that is given does not grow: its twins are left out.
    train, tested = heldout.split_train_test(np.array([0]), groups)
    assert (len(train), len(tested)) == (96, 1)


def test_folds_are_scikit_learn_s_on_the_order_that_is_given():
    order = np.random.default_rng(0).permutation(100)
    found = heldout.make_folds(ALONE, 10, 57, order)
    expected = sklearn.model_selection.KFold(
        10, shuffle=True, random_state=57
    ).split(order)
    for (train, tested), (theirs, tests) in zip(found, expected, strict=True):
        assert train.tolist() == order[theirs].tolist()
        assert tested.tolist() == order[tests].tolist()


def test_groups_stay_in_one_fold():
    groups = ALONE // 3
    found = heldout.make_folds(groups, 5, 0)
    assert sorted(np.concatenate([t for _, t in found])) == ALONE.tolist()
    for train, tested in found:
        assert not set(groups[train]) & set(groups[tested])


@pytest.mark.parametrize("count", [1, 0, 101])
def test_a_number_of_folds_that_cannot_be_is_named(count):
    with pytest.raises(UserError, match=f"--folds={count}: give 2 to 100"):
        heldout.make_folds(ALONE, count, 0)


def test_a_fold_without_a_class_is_named():
    words = ("calm", "disaster")
    labels = np.array([0, 0, 0, 1])
    heldout.check_fold(1, 2, labels, [0, 3], [1, 3], words)
    with pytest.raises(UserError, match="fold 2 tests on no.*'disaster'"):
        heldout.check_fold(2, 2, labels, [0, 3], [1, 2], words)
    with pytest.raises(UserError, match="fold 1 trains on no.*'calm'"):
        heldout.check_fold(1, 2, labels, [3], [1, 3], words)


def test_too_few_to_draw_from_is_named():
    with pytest.raises(UserError, match="--test_fraction=0.01"):
        heldout.draw_test_rows(LABELS, ALONE, 0.01, 0)


def test_ids_and_their_rows(tmp_path):
    path = tmp_path / "ids.txt"
    path.write_text("b\n\nc \n")
    ids = heldout.read_ids(str(path), "--test_ids=f")
    assert ids == ["b", "c"]
    said = "--test_ids=f", "d", "--id_column"
    rows = heldout.find_rows(ids, ["a", "c", "a", "b"], *said)
    assert rows.tolist() == [3, 1]
    with pytest.raises(UserError, match="--test_ids=f: 1 of its 2 ids.*'c'"):
        heldout.find_rows(ids, ["a", "b"], *said)
    with pytest.raises(UserError, match="f: 1 of its 2 ids stand for several"):
        heldout.find_rows(ids, ["c", "b", "c"], *said)


@pytest.mark.parametrize(
    "content, said", [("", "holds no ids"), ("a\na\n", "has an id twice")]
)
def test_a_file_of_ids_that_cannot_be_is_named(tmp_path, content, said):
    path = tmp_path / "ids.txt"
    with pytest.raises(UserError, match="--row_order=f: no such file"):
        heldout.read_ids(str(path), "--row_order=f")
    path.write_bytes(b"\xe9\n")
    with pytest.raises(UserError, match="--row_order=f: is not UTF-8"):
        heldout.read_ids(str(path), "--row_order=f")
    path.write_text(content)
    with pytest.raises(UserError, match=said):
        heldout.read_ids(str(path), "--row_order=f")
