"""Every example has its turn: splits, the plan of an epoch, padded batches."""

import dataclasses

import numpy as np
import pytest

from tf_transfer.data import batches, tokens
from tf_transfer.data.encoded_split import EncodedSplit

LENGTHS = np.random.default_rng(4).integers(3, 129, 530)

EITHER_BATCHING = pytest.mark.parametrize("batching", ["random", "grouped"])


# === The plan of an epoch ===


def plan_epoch(**changes):
    arguments = {
        "lengths": LENGTHS,
        "batch_size": 32,
        "batching": "random",
        "seed": 0,
        "epoch": 1,
        "buckets": batches.buckets_up_to(128),
    }
    return batches.plan_epoch(**{**arguments, **changes})


def rows_that_count(plan):
    return [row[:count].tolist() for row, count in zip(plan.rows, plan.counts)]


def padded_tokens(plan):
    return int(np.sum(plan.lengths * plan.counts))


@EITHER_BATCHING
@pytest.mark.parametrize("batch_size", [1, 7, 32, 530, 600])
@pytest.mark.parametrize("replicas", [1, 3])
def test_an_epoch_sees_every_example_once(batching, batch_size, replicas):
    plan = plan_epoch(
        batching=batching, batch_size=batch_size, replicas=replicas
    )
    assert len(plan) == -(-530 // batch_size)
    assert set(plan.counts[:-1]) <= {batch_size}
    assert sorted(sum(rows_that_count(plan), [])) == list(range(530))


@EITHER_BATCHING
def test_a_short_last_batch_can_be_left_out(batching):
    plan = plan_epoch(batching=batching, drop_last=True)
    whole = plan_epoch(batching=batching)
    assert rows_that_count(plan) == rows_that_count(whole)[:-1]
    assert len(plan) == batches.count_steps(530, 32, drop_last=True) == 16
    few = plan_epoch(batch_size=600, drop_last=True)
    assert few.counts.tolist() == [530]


def test_an_evaluation_sees_every_example_once():
    plan = batches.plan_evaluation(LENGTHS, 64, 2, batches.buckets_up_to(128))
    assert len(plan) == 9
    assert sorted(sum(rows_that_count(plan), [])) == list(range(530))
    assert padded_tokens(plan) < padded_tokens(plan_epoch(batch_size=64))


@pytest.mark.parametrize("replicas, width", [(1, 5), (2, 6), (3, 6), (4, 8)])
def test_batches_are_filled_to_a_multiple_of_the_replicas(replicas, width):
    plan = plan_epoch(batch_size=5, replicas=replicas)
    assert plan.rows.shape == (106, width)
    assert rows_that_count(plan) == rows_that_count(plan_epoch(batch_size=5))


@EITHER_BATCHING
def test_the_order_depends_on_seed_and_epoch(batching):
    orders = {
        tuple(plan_epoch(batching=batching, seed=s, epoch=e).rows.ravel())
        for s in (0, 1)
        for e in (1, 2)
        for _ in range(2)  # drawn again, it is the same
    }
    assert len(orders) == 4


@EITHER_BATCHING
def test_no_text_is_left_out_or_in_a_short_batch_for_its_length(batching):
    """The 18 of a last batch are other texts in each epoch."""
    last = [
        rows_that_count(plan_epoch(batching=batching, epoch=epoch))[-1]
        for epoch in range(1, 101)
    ]
    lengths = LENGTHS[np.concatenate(last)]
    assert len({*np.concatenate(last)}) > 500
    assert lengths.mean() == pytest.approx(LENGTHS.mean(), rel=0.05)


def test_grouped_batches_pad_less_than_random_ones():
    grouped = plan_epoch(batching="grouped")
    assert padded_tokens(grouped) < 0.8 * padded_tokens(plan_epoch())


def test_grouped_batches_do_not_come_in_the_order_of_their_length():
    steps = np.diff(plan_epoch(batching="grouped").lengths[:-1])
    assert steps.min() < 0 < steps.max()


def test_grouped_sorts_within_a_pool_only(monkeypatch):
    """Batches differ from epoch to epoch, not only in their order."""
    monkeypatch.setattr(batches, "GROUPED_POOL", 4)
    epochs = [
        {frozenset(rows) for rows in rows_that_count(plan)}
        for plan in (plan_epoch(batching="grouped", epoch=e) for e in (1, 2))
    ]
    assert not epochs[0] & epochs[1]


@EITHER_BATCHING
def test_a_batch_is_padded_to_the_smallest_bucket_that_holds_it(batching):
    plan = plan_epoch(batching=batching)
    for rows, length in zip(plan.rows, plan.lengths):
        longest = LENGTHS[rows].max()
        assert length == min(
            b for b in batches.buckets_up_to(128) if b >= longest
        )


def test_little_is_padded():
    ladder = np.asarray(batches.buckets_up_to(512))
    for length in range(1, 513):
        padded = ladder[np.searchsorted(ladder, length)]
        assert padded - length <= max(3, 0.06 * length)


@pytest.mark.parametrize(
    "max_length, expected",
    [(4, (4,)), (12, (4, 8, 12)), (14, (4, 8, 12, 14))],
)
def test_the_last_bucket_is_the_longest_length(max_length, expected):
    assert batches.buckets_up_to(max_length) == expected


def test_a_plan_resumes_where_it_was_left():
    plan = plan_epoch()
    rest = plan.start_at(5)
    assert len(rest) == len(plan) - 5
    assert rows_that_count(rest) == rows_that_count(plan)[5:]
    np.testing.assert_array_equal(rest.lengths, plan.lengths[5:])


# === Batches ===

PAD = 9
TEXTS = [[1, 2, 3, 4], [5, 6], [7, 8, 1], [2, 3, 4, 5, 6], [7, 7]]
FIRST_LENGTHS = [2, 2, 1, 3, 2]  # the second and the last have one segment only


@pytest.fixture
def split():
    """Five texts, each with a label of its own."""
    lengths = np.array([len(text) for text in TEXTS], np.int32)
    return EncodedSplit(
        tokens.Tokens(
            np.concatenate(TEXTS).astype(np.int32),
            np.cumsum(lengths, dtype=np.int64) - lengths,
            lengths,
            np.array(FIRST_LENGTHS, np.int32),
            np.zeros(5, np.int32),
        ),
        labels=np.arange(5) + 10,
        ids=np.arange(5),
    )


def plan_of(split, batch_size, replicas=1):
    return batches.plan_epoch(
        split.tokens.lengths, batch_size, "random", 0, 1, replicas, (3, 6)
    )


def elements(dataset):
    return list(dataset.as_numpy_iterator())


def test_batches_hold_padded_ids_mask_segments_and_labels(split):
    plan = plan_of(split, 2)
    for batch, rows, length in zip(
        elements(batches.pipeline(split, plan, PAD)), plan.rows, plan.lengths
    ):
        for position, row in enumerate(rows):
            text, empty = TEXTS[row], length - len(TEXTS[row])
            second = len(text) - FIRST_LENGTHS[row]
            assert batch["ids"][position].tolist() == text + [PAD] * empty
            assert batch["mask"][position].tolist() == (
                [True] * len(text) + [False] * empty
            )
            assert batch["segments"][position].tolist() == (
                [0] * FIRST_LENGTHS[row] + [1] * second + [0] * empty
            )
            assert batch["labels"][position] == 10 + row


def test_the_pipeline_follows_the_plan(split):
    plan = plan_of(split, 2)
    found = elements(batches.pipeline(split, plan.start_at(1), PAD))
    assert [batch["ids"].shape[1] for batch in found] == list(plan.lengths[1:])
    labels = [batch["labels"].tolist() for batch in found]
    assert labels == (plan.rows[1:] + 10).tolist()


@pytest.mark.parametrize("replicas", [1, 2, 4])
def test_weights_of_a_batch_sum_to_one_over_its_replicas(split, replicas):
    plan = plan_of(split, 3, replicas)  # 3 and 2 examples
    dataset = batches.pipeline(split, plan, PAD, replicas=replicas)
    weights = np.array([batch["weights"] for batch in elements(dataset)])
    weights = weights.reshape(2, -1)
    for found, count in zip(weights, (3, 2)):
        np.testing.assert_allclose(found[:count], 1 / count, rtol=1e-6)
        assert not found[count:].any()


@pytest.mark.parametrize("replicas", [2, 4])
def test_the_elements_of_all_replicas_make_the_batch(split, replicas):
    plan = plan_of(split, 4, replicas)
    whole = elements(batches.pipeline(split, plan, PAD))
    parts = elements(batches.pipeline(split, plan, PAD, replicas))
    assert len(whole) == 2
    for step, expected in enumerate(whole):
        shares = parts[step * replicas : (step + 1) * replicas]
        for name in expected:
            found = np.concatenate([share[name] for share in shares])
            np.testing.assert_array_equal(found, expected[name], name)


def test_some_examples_have_their_own_texts_labels_and_ids(split):
    some = split.take(np.array([3, 1]))
    assert some.labels.tolist() == [13, 11] and some.ids.tolist() == [3, 1]
    [batch] = elements(batches.pipeline(some, plan_of(some, 2), PAD))
    texts = zip(batch["labels"], batch["ids"], batch["mask"], strict=True)
    found = {label: ids[mask].tolist() for label, ids, mask in texts}
    assert found == {13: TEXTS[3], 11: TEXTS[1]}


def test_examples_cannot_be_taken_where_words_are_labelled(split):
    labelled = dataclasses.replace(
        split,
        labels=np.zeros_like(split.tokens.flat, np.int64),
        word_starts=split.tokens.starts,
    )
    with pytest.raises(ValueError, match="take sentences before they are enc"):
        labelled.take(np.array([1]))


def test_scores_stay_floats(split):
    split.labels = np.linspace(0, 5, 5).astype(np.float32)
    [batch] = elements(batches.pipeline(split, plan_of(split, 5), PAD))
    assert batch["labels"].dtype == np.float32
    assert sorted(batch["labels"]) == [0, 1.25, 2.5, 3.75, 5]


def test_a_batch_is_no_larger_than_the_training_set():
    plan = batches.plan_epoch(np.arange(1, 6), 65536, "random", 0, 1)
    assert plan.rows.shape == (1, 5) and plan.counts.tolist() == [5]
