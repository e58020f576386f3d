"""The plan of an epoch, and its padded batches.

A plan is drawn in NumPy from (seed, epoch) alone: which examples make which
batch, and to which length each batch is padded. So a resumed run continues
the plan at its step. The input pipeline then gathers and pads inside
tf.data, without a Python call for each example.
"""

import dataclasses
import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tf_transfer.data.encoded_split import EncodedSplit, IGNORED

if TYPE_CHECKING:
    import tensorflow as tf

    Tensors = dict[str, tf.Tensor]

# Padding adds three tokens at most up to 128, and 6 % beyond. Finer lengths
# would gain little, and libraries prepare their products for each.
BUCKETS = (*range(4, 128, 4), *range(128, 256, 8), *range(256, 513, 16))
XLA_BUCKETS = (32, 64, 128, 256, 512)  # it compiles a program for each
GROUPED_POOL = 50  # batches that `grouped` sorts by length together
EVALUATION_BATCH = 64
GPU_EVALUATION_TOKENS = 32_768  # of a batch, padding included
PREFETCH = 8
GATHERERS = 2  # threads that gather batches ahead of the step


@dataclasses.dataclass
class BatchPlan:
    """The batches of one pass over a split.

    Attributes:
        rows: int64 [steps, batch]. Short batches repeat their first row.
        counts: int32 [steps]. How many rows of each batch count.
        lengths: int32 [steps]. The bucket that each batch is padded to.
    """

    rows: np.ndarray
    counts: np.ndarray
    lengths: np.ndarray

    def __len__(self) -> int:
        return len(self.counts)

    def start_at(self, step: int) -> "BatchPlan":
        """The rest of the plan from `step` on."""
        return self.slice_steps(slice(step, None))

    def slice_steps(self, steps: slice) -> "BatchPlan":
        """The plan of some of the steps."""
        return BatchPlan(
            self.rows[steps], self.counts[steps], self.lengths[steps]
        )

    @staticmethod
    def concatenate(plans: Sequence["BatchPlan"]) -> "BatchPlan":
        """Several plans, one behind the other, as one."""
        return BatchPlan(
            *(
                np.concatenate([getattr(plan, field.name) for plan in plans])
                for field in dataclasses.fields(BatchPlan)
            )
        )


# === Order and padding ===


def buckets_up_to(max_length: int, uses_xla: bool = False) -> tuple[int, ...]:
    """The bucket lengths for texts of at most `max_length` tokens."""
    buckets = XLA_BUCKETS if uses_xla else BUCKETS
    return (*(b for b in buckets if b < max_length), max_length)


def count_steps(examples: int, batch_size: int, drop_last: bool = False) -> int:
    """Steps of a pass over this many examples; see `plan_epoch`."""
    if drop_last and examples > batch_size:
        return examples // batch_size
    return -(-examples // batch_size)


def plan_epoch(
    lengths: np.ndarray,
    batch_size: int,
    batching: str,
    seed: int,
    epoch: int,
    replicas: int = 1,
    buckets: Sequence[int] = BUCKETS,
    repeat: int = 0,
    drop_last: bool = False,
) -> BatchPlan:
    """Draws the batches of a training epoch.

    Args:
        lengths: int [examples]. Tokens of each example.
        batch_size: Examples per step, summed over all replicas.
        batching: `random`, or `grouped` by length.
        seed: The seed of the order, with `epoch` and `repeat`.
        epoch: Counted from 1.
        replicas: Batches are filled up to a multiple of it.
        buckets: Lengths that batches may be padded to.
        repeat: Counts the passes over a split that an epoch uses more than
            once, from 0.
        drop_last: Whether a last batch that is short is left out.

    Returns:
        A plan of `count_steps` steps.
    """
    # Beyond that, a batch would only be padding.
    batch_size = min(batch_size, len(lengths))
    rng = np.random.default_rng(
        [seed, epoch, 11, *([repeat] if repeat else [])]
    )
    order = rng.permutation(len(lengths))
    if batching == "grouped":
        pool = GROUPED_POOL * batch_size
        full = len(order) // batch_size * batch_size
        order, rest = order[:full], order[full:]
        order = np.concatenate(
            [
                rows[np.argsort(lengths[rows], kind="stable")]
                for rows in np.split(order, range(pool, len(order), pool))
            ]
        )
        batches = order.reshape(-1, batch_size)
        batches = batches[rng.permutation(len(batches))]
        order = np.concatenate([batches.ravel(), rest])
    plan = _plan(order, lengths, batch_size, replicas, buckets)
    steps = count_steps(len(lengths), batch_size, drop_last)
    return plan.slice_steps(slice(steps))


def plan_evaluation(
    lengths: np.ndarray,
    batch_size: int,
    replicas: int = 1,
    buckets: Sequence[int] = BUCKETS,
) -> BatchPlan:
    """Plans every example once, the longest first, in large batches."""
    order = np.argsort(-lengths.astype(np.int64), kind="stable")
    return _plan(order, lengths, batch_size, replicas, buckets)


def _plan(
    order: np.ndarray,
    lengths: np.ndarray,
    batch_size: int,
    replicas: int,
    buckets: Sequence[int],
) -> BatchPlan:
    steps = -(-len(order) // batch_size)
    counts = np.full(steps, batch_size, np.int32)
    counts[-1] = len(order) - (steps - 1) * batch_size
    fill = np.repeat(order[(steps - 1) * batch_size], batch_size - counts[-1])
    rows = np.concatenate([order, fill]).reshape(steps, batch_size)
    extra = -batch_size % replicas
    rows = np.concatenate([rows, np.repeat(rows[:, :1], extra, axis=1)], axis=1)
    ladder = np.asarray(buckets)
    longest = lengths[rows].max(axis=1)
    padded = ladder[np.searchsorted(ladder, longest)]
    return BatchPlan(rows, counts, padded.astype(np.int32))


# === Batches ===


def pipeline(
    split: EncodedSplit,
    plan: BatchPlan,
    pad: int,
    replicas: int = 1,
    gathers_states: bool = True,
) -> "tf.data.Dataset":
    """Makes a dataset of the batches of a plan, gathered and padded.

    Args:
        split: The examples.
        plan: The examples of each batch.
        pad: The padding id.
        replicas: A batch is as many consecutive elements, one for each.
        gathers_states: Whether stored states are read here, or in the step.

    Returns:
        A dataset of dicts: `ids` and `segments` int32 [texts, length], `mask`
        bool [texts, length], `labels` [batch], `weights` float32 [batch],
        which are 1 / (examples of the whole batch) or 0, so that weighted
        sums over replicas are means over the batch. Texts are the examples;
        or, with two an example, all first texts and behind them the second
        ones. Where words are labelled, `labels` are [batch, length], and
        weights are the examples' shares of the batch's words.

        With stored states also `states` [texts, num_cls + length, hidden], or
        [texts, hidden] where pooled. Then `ids` and `segments` are left out
        if every text is stored. If not, `is_stored` bool [texts] is added,
        and the content of `states` where it is False means nothing. Without
        `gathers_states`, `index` int64 has the rows of the stored vectors that
        make `states`.
    """
    import tensorflow as tf  # plans do without it

    tokens, states = split.tokens, split.states
    needs_ids = states is None or not states.is_stored.all()
    examples = {
        "labels": split.labels,
        "lengths": tokens.lengths,
        "starts": tokens.starts,
    }
    if needs_ids:
        examples["flat"] = tokens.flat
        examples["first_lengths"] = tokens.first_lengths
    if states is not None:
        examples["is_stored"] = states.is_stored
        examples["state_starts"] = np.where(states.is_stored, states.starts, 0)
        if gathers_states:
            examples["states"] = states.tensor
    layout = _Layout(
        pad,
        split.texts_per_example,
        labels_words=split.word_starts is not None,
        is_pooled=states is not None and states.is_pooled,
        num_cls=states.num_cls if states is not None else 0,
        prefetch=PREFETCH * replicas,
    )
    size = plan.rows.shape[1] // replicas
    steps = {
        "rows": plan.rows.reshape(-1, size),
        "weights": _loss_weights(split, plan).reshape(-1, size),
        "length": np.repeat(plan.lengths, replicas),
    }
    options = tf.data.Options()
    # Its thread sleeps for longer and longer, up to a minute, and the end of
    # an iterator waits until it wakes: longer than many an epoch.
    options.autotune.enabled = False
    # There is nothing to rewrite, and to find that out takes longer than the
    # rest of what an iterator does before its first batch.
    options.experimental_optimization.apply_default_optimizations = False
    with tf.device("CPU:0"):
        inputs = tf.nest.map_structure(tf.convert_to_tensor, (steps, examples))
        specs = tf.nest.map_structure(_relax_spec, inputs)
        # A concrete function is traced once even where functions run eagerly.
        program = _gatherer(layout).get_concrete_function(*specs)
        return program(*inputs).with_options(options)


@dataclasses.dataclass(frozen=True)
class _Layout:
    """What shapes the program that gathers batches; see `pipeline`."""

    pad: int
    texts_per_example: int
    labels_words: bool
    is_pooled: bool
    num_cls: int
    prefetch: int


def _relax_spec(values: "tf.Tensor") -> "tf.TensorSpec":
    """The spec of a tensor, for any size of its first axis."""
    import tensorflow as tf

    return tf.TensorSpec([None, *values.shape[1:]], values.dtype)


@functools.cache
def _gatherer(layout: _Layout) -> "tf.types.experimental.PolymorphicFunction":
    """A program from (steps, examples) to the dataset of `pipeline`.

    A dataset's `map` traces its function whenever it is called, which takes
    longer than a short epoch. Inside a program it is traced once.
    """
    import tensorflow as tf

    def column(values: tf.Tensor) -> tf.Tensor:
        return tf.expand_dims(values, 1)

    def token_index(
        starts: tf.Tensor, mask: tf.Tensor, length: tf.Tensor
    ) -> tf.Tensor:
        """The positions of the tokens of each text; 0 on padding."""
        return tf.where(mask, column(starts) + tf.range(length), 0)

    def gather(step: "Tensors", examples: "Tensors") -> "Tensors":
        """A padded batch."""
        position = tf.range(step["length"])
        length = tf.cast(step["length"], tf.int64)
        rows = step["rows"]
        batch = {"weights": step["weights"]}
        if not layout.labels_words:
            batch["labels"] = tf.gather(examples["labels"], rows)
        texts = rows
        if layout.texts_per_example > 1:
            count = tf.size(examples["lengths"], out_type=tf.int64)
            count = count // layout.texts_per_example
            texts = tf.concat(
                [
                    rows + text * count
                    for text in range(layout.texts_per_example)
                ],
                axis=0,
            )
        mask = position < column(tf.gather(examples["lengths"], texts))
        batch["mask"] = mask
        needs_ids = "flat" in examples
        if needs_ids or layout.labels_words:
            starts = tf.gather(examples["starts"], texts)
            index = token_index(starts, mask, length)
        if layout.labels_words:
            labels = tf.gather(examples["labels"], index)
            batch["labels"] = tf.where(mask, labels, IGNORED)
        if needs_ids:
            first_lengths = tf.gather(examples["first_lengths"], texts)
            is_second = position >= column(first_lengths)
            ids = tf.gather(examples["flat"], index)
            batch["ids"] = tf.where(mask, ids, layout.pad)
            batch["segments"] = tf.cast(is_second & mask, tf.int32)
        if "is_stored" in examples:
            index = tf.gather(examples["state_starts"], texts)
            here = tf.gather(examples["is_stored"], texts)
            if not layout.is_pooled:
                wide = mask
                if layout.num_cls:
                    cls_shape = tf.shape(texts)[0], layout.num_cls
                    wide = tf.concat(
                        [tf.ones(cls_shape, tf.bool), mask], axis=1
                    )
                index = token_index(
                    index, wide & column(here), length + layout.num_cls
                )
            if "states" in examples:
                batch["states"] = tf.gather(examples["states"], index)
            else:
                batch["index"] = index
            if needs_ids:
                batch["is_stored"] = here
        return batch

    @tf.function(autograph=False)
    def make_dataset(steps: "Tensors", examples: "Tensors") -> tf.data.Dataset:
        @tf.autograph.experimental.do_not_convert  # traced sooner
        def gather_step(step: "Tensors") -> "Tensors":
            return gather(step, examples)

        dataset = tf.data.Dataset.from_tensor_slices(steps)
        return dataset.map(
            gather_step, num_parallel_calls=GATHERERS, deterministic=True
        ).prefetch(layout.prefetch)

    return make_dataset


# === One vector a text ===


def load_plan(split: EncodedSplit, plan: BatchPlan) -> dict[str, "tf.Tensor"]:
    """Loads the tensors from which `take_batch` takes batches, on the host.

    Args:
        split: The examples; each text has one stored vector.
        plan: The examples of each batch.
    """
    import tensorflow as tf

    states = split.states
    assert states is not None
    starts = states.starts.reshape(split.texts_per_example, -1)
    with tf.device("CPU:0"):
        return {
            "rows": tf.constant(plan.rows),
            "weights": tf.constant(_loss_weights(split, plan)),
            "labels": tf.constant(split.labels),
            "starts": tf.constant(starts),
        }


def take_batch(
    loaded: dict[str, "tf.Tensor"], step: "tf.Tensor"
) -> dict[str, "tf.Tensor"]:
    """A batch as in `pipeline`, with `index` for `states`, without a mask.

    Args:
        loaded: From `load_plan`.
        step: int32 []. Its number in the plan.
    """
    import tensorflow as tf

    with tf.device("CPU:0"):
        rows = loaded["rows"][step]
        starts = tf.gather(loaded["starts"], rows, axis=1)
        return {
            "labels": tf.gather(loaded["labels"], rows),
            "weights": loaded["weights"][step],
            "index": tf.reshape(starts, [-1]),
        }


def _loss_weights(split: EncodedSplit, plan: BatchPlan) -> np.ndarray:
    """float32 [steps, batch]. Shares of the examples in the mean of a batch."""
    counted = np.arange(plan.rows.shape[1])[None] < plan.counts[:, None]
    weights = split.words[plan.rows] * counted
    totals = np.maximum(weights.sum(axis=1, keepdims=True), 1)
    shares: np.ndarray = (weights / totals).astype(np.float32)
    return shares
