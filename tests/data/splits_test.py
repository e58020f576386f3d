"""Parts of a training set: disjoint, in proportion, nested, the seed's."""

import numpy as np
import pytest

from tf_transfer.data import splits

CLASSES = np.random.default_rng(1).choice(3, 1000, p=[0.6, 0.3, 0.1])
SCORES = np.random.default_rng(2).uniform(0, 5, 1000).astype(np.float32)

EITHER_LABEL = pytest.mark.parametrize(
    "labels", [CLASSES, SCORES], ids=["classes", "scores"]
)


def strata(labels):
    """What has to be in proportion: classes, or fifths of the scores."""
    if labels.dtype.kind == "f":
        return np.digitize(labels, np.quantile(labels, [0.2, 0.4, 0.6, 0.8]))
    return labels


def assert_in_proportion(labels, rows):
    every = np.bincount(strata(labels)) * len(rows) / len(labels)
    found = np.bincount(strata(labels)[rows], minlength=len(every))
    assert np.abs(found - every).max() <= 1


@EITHER_LABEL
def test_a_split_is_disjoint_complete_and_stratified(labels):
    train, validation = splits.split_train_validation(labels, 0.1, 0)
    assert len(validation) == 100
    assert sorted([*train, *validation]) == list(range(1000))
    assert_in_proportion(labels, validation)
    assert_in_proportion(labels, train)


@EITHER_LABEL
def test_a_split_depends_on_the_split_seed_alone(labels):
    _, once = splits.split_train_validation(labels, 0.1, 0)
    _, again = splits.split_train_validation(labels, 0.1, 0)
    _, other = splits.split_train_validation(labels, 0.1, 1)
    np.testing.assert_array_equal(once, again)
    assert once.tolist() != other.tolist()


def test_a_split_is_that_of_another_day():
    labels = np.arange(40) % 2
    _, held = splits.split_train_validation(labels, 0.1, 0)
    assert held.tolist() == [3, 19, 34, 36]


@pytest.mark.parametrize(
    "size, fraction, validation", [(1000, 0, 0), (3, 0.1, 1), (3, 0.99, 2)]
)
def test_a_split_leaves_texts_in_both_parts(size, fraction, validation):
    parts = splits.split_train_validation(CLASSES[:size], fraction, 0)
    assert [len(part) for part in parts] == [size - validation, validation]


@EITHER_LABEL
def test_a_smaller_subset_is_part_of_a_larger(labels):
    small, large = (
        splits.choose_subset(labels, size, 0) for size in (100, 300)
    )
    assert len(set(small)) == 100 and len(set(large)) == 300
    assert set(small) < set(large)
    assert_in_proportion(labels, small)
    assert_in_proportion(labels, large)


@EITHER_LABEL
def test_a_subset_depends_on_the_split_seed(labels):
    one, same, other = (splits.choose_subset(labels, 100, s) for s in (0, 0, 1))
    assert one.tolist() == same.tolist()
    assert one.tolist() != other.tolist()


def test_a_sample_is_fixed_and_sorted_and_the_split_seed_s():
    one, same, other = (splits.draw_sample(1000, 100, s) for s in (0, 0, 1))
    assert one.tolist() == same.tolist() == sorted(set(one))
    assert one.tolist() != other.tolist()
    assert splits.draw_sample(5, 100, 0).tolist() == [0, 1, 2, 3, 4]
    # Runs of another day have the same.
    assert splits.draw_sample(1000, 4, 0).tolist() == [44, 291, 386, 882]


@pytest.mark.parametrize("size", [0, 1000, 5000])
def test_no_size_or_one_too_large_takes_every_example(size):
    rows = splits.choose_subset(CLASSES, size, 0)
    np.testing.assert_array_equal(rows, np.arange(1000))


def test_texts_with_the_same_labels_are_one_class():
    sets = np.array([[0, 0], [1, 0], [1, 1]])
    kinds = np.random.default_rng(3).choice(3, 1000, p=[0.6, 0.3, 0.1])
    train, validation = splits.split_train_validation(sets[kinds], 0.1, 0)
    assert len(validation) == 100
    assert_in_proportion(kinds, validation)
    assert_in_proportion(kinds, train)


def test_a_split_has_the_name_of_its_kind_and_its_own():
    named = {"train": {"": 1}, "test": {"": 2, "mismatched": 3}}
    assert splits.flatten(named) == {
        "train": 1,
        "test": 2,
        "test_mismatched": 3,
    }


@pytest.mark.parametrize("groups", [None, np.arange(100) // 2])
def test_folds_are_disjoint_and_cover_the_training_set(groups):
    labels = np.arange(100) % 3
    folds = [
        splits.split_train_validation(labels, 0.1, 0, groups, fold)
        for fold in range(10)
    ]
    held = np.concatenate([fold_held for _, fold_held in folds])
    assert sorted(held) == [*range(100)]
    for train, fold_held in folds:
        assert sorted([*train, *fold_held]) == [*range(100)]
