"""Splits, the plan of an epoch, and padded batches.

A plan is drawn in NumPy from (seed, epoch) alone: which examples make which
batch, and to which length each batch is padded. So a resumed run cuts the plan
at its step and goes on. The input pipeline then gathers and pads inside
tf.data, without Python an example.
"""

import dataclasses

import numpy as np
import tensorflow as tf

from tf_transfer.data.word_pieces import IGNORED

BUCKETS = (16, 32, 48, 64, 80, 96, 112, 128, 160, 192, 256, 320, 384, 512)
GROUPED_POOL = 50  # batches that `grouped` sorts by length together
EVALUATION_BATCH = 64
PREFETCH = 8
GATHERERS = 2  # threads that gather batches ahead of the step


@dataclasses.dataclass
class States:
    """What a frozen prefix put out for the examples of a split, stored.

    Attributes:
        vectors: a tensor [vectors, hidden], mapped from a file or in memory.
        starts: int64 [examples]. Each example's first vector.
        have: bool [examples]. Which ones are stored.
        is_pooled: whether an example has one vector, not one a token.
        before: vectors of an example that stand before those of its tokens.
    """

    vectors: object
    starts: np.ndarray
    have: np.ndarray
    is_pooled: bool
    before: int = 0


@dataclasses.dataclass
class Split:
    """Tokenised examples with their labels.

    Attributes:
        tokens: `tokens.Tokens`.
        labels: int64 or float32 [examples]; zeros where hidden. With
            `word_starts` int64 [tokens] beside `tokens.flat`: of tokens that
            stand for a word, and `IGNORED` of all others.
        ids: int64 [examples]. Row numbers in the source.
        states: `States`, or None where every block is run.
        sides: texts of an example that are run each by itself. The second
            ones stand behind all first ones in `tokens` and `states`.
        word_starts: int64 [sentences]. Where the task labels words: each
            sentence's first word; an example is a sentence or a part of one.
    """

    tokens: object
    labels: np.ndarray
    ids: np.ndarray
    states: States | None = None
    sides: int = 1
    word_starts: np.ndarray | None = None

    def __len__(self):
        return len(self.ids)

    @property
    def targets(self):
        """What is scored: labels of examples, or of words in their order."""
        if self.word_starts is None:
            return self.labels
        return self.labels[self.labels != IGNORED]

    @property
    def words(self):
        """int64 [examples]. Labels of each: 1, or those of its words."""
        if self.word_starts is None:
            return np.ones(len(self), np.int64)
        tokens = self.tokens
        behind = np.cumsum(self.labels != IGNORED)
        ends = behind[tokens.starts + tokens.lengths - 1]
        return np.diff(ends, prepend=0)

    def of_words(self, rows, length):
        """Which of the outputs for some examples are words'.

        Args:
            rows: int64 [n]. Examples.
            length: int. To what they were padded.

        Returns:
            bool [n, length].
        """
        tokens, place = self.tokens, np.arange(length)
        inside = place < tokens.lengths[rows, None]
        index = np.where(inside, tokens.starts[rows, None] + place, 0)
        return inside & (self.labels[index] != IGNORED)

    @property
    def lengths(self):
        """int32 [examples]. Tokens of each one's longest text."""
        return self.tokens.lengths.reshape(self.sides, -1).max(axis=0)

    def take(self, rows):
        """Some of the examples, without stored states.

        Raises:
            ValueError: words are labelled: their labels stand beside the
                tokens, and a sentence may be several examples.
        """
        if self.word_starts is not None:
            raise ValueError(
                "a split whose words are labelled has no part: take sentences "
                "before they are encoded"
            )
        texts = np.concatenate(
            [rows + side * len(self) for side in range(self.sides)]
        )
        return Split(
            self.tokens.take(texts),
            self.labels[rows],
            self.ids[rows],
            sides=self.sides,
        )


@dataclasses.dataclass
class Plan:
    """The batches of one pass over a split.

    Attributes:
        rows: int64 [steps, batch]. Short batches repeat their first row.
        counts: int32 [steps]. How many rows of each batch count.
        lengths: int32 [steps]. The bucket that each batch is padded to.
    """

    rows: np.ndarray
    counts: np.ndarray
    lengths: np.ndarray

    def __len__(self):
        return len(self.counts)

    def start_at(self, step):
        """The part of the plan from `step` on."""
        return self.part(slice(step, None))

    def part(self, steps):
        """Some of its steps, a slice."""
        return Plan(self.rows[steps], self.counts[steps], self.lengths[steps])

    @staticmethod
    def join(plans):
        """Plans one behind the other, as one."""
        return Plan(
            *(
                np.concatenate([getattr(plan, field.name) for plan in plans])
                for field in dataclasses.fields(Plan)
            )
        )


# === In which order, padded to what ===


def buckets_up_to(max_length):
    """Bucket lengths for texts of at most `max_length` tokens."""
    return tuple(b for b in BUCKETS if b < max_length) + (max_length,)


def plan_epoch(
    lengths,
    batch_size,
    batching,
    seed,
    epoch,
    replicas=1,
    buckets=BUCKETS,
    lap=0,
):
    """Draws the batches of a training epoch.

    Args:
        lengths: int [examples]. Tokens of each example.
        batch_size: examples a step, over all replicas.
        batching: `random` or `grouped`.
        seed, epoch, lap: all that the order depends on; a set that is used
            more than once in an epoch has laps from 0.
        replicas: batches are filled up to a multiple of it.
        buckets: lengths that batches may be padded to.

    Returns:
        `Plan` of ceil(examples / batch_size) steps.
    """
    rng = np.random.default_rng([seed, epoch, 11, *([lap] if lap else [])])
    order = rng.permutation(len(lengths))
    if batching == "grouped":
        pool = GROUPED_POOL * batch_size
        order = np.concatenate(
            [
                part[np.argsort(lengths[part], kind="stable")]
                for part in np.split(order, range(pool, len(order), pool))
            ]
        )
        full = len(order) // batch_size * batch_size
        batches = order[:full].reshape(-1, batch_size)
        batches = batches[rng.permutation(len(batches))]
        order = np.concatenate([batches.ravel(), order[full:]])
    return _plan(order, lengths, batch_size, replicas, buckets)


def plan_evaluation(lengths, batch_size, replicas=1, buckets=BUCKETS):
    """Every example once, sorted by length, in large batches."""
    order = np.argsort(-lengths.astype(np.int64), kind="stable")
    return _plan(order, lengths, batch_size, replicas, buckets)


def _plan(order, lengths, batch_size, replicas, buckets):
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
    return Plan(rows, counts, padded.astype(np.int32))


# === Batches ===


def pipeline(split, plan, pad, part=(0, 1), local_replicas=1):
    """A dataset that yields the batches of a plan, gathered and padded.

    Args:
        split: `Split`.
        plan: `Plan`.
        pad: the padding id.
        part: (worker, workers): the share of each batch that is read here.
        local_replicas: consecutive elements go to the replicas of a worker.

    Returns:
        `tf.data.Dataset` of dicts: `ids` and `segments` int32 [texts, length],
        `mask` bool [texts, length], `labels` [batch], `weights` float32
        [batch], which are 1 / (examples of the whole batch) or 0, so that
        weighted sums over replicas are means over the batch. Texts are the
        examples, or all their first sides and behind them the second ones.
        Where words are labelled, `labels` are [batch, length], and weights
        are the examples' shares of the batch's words.

        With stored states also `states` [texts, before + length, hidden], or
        [texts, hidden] where pooled. Then `ids` and `segments` are left out
        if every text is stored; if not, `have` bool [texts] is beside
        them, and what stands in `states` where it is False means nothing.
    """
    worker, workers = part
    counted = np.arange(plan.rows.shape[1])[None] < plan.counts[:, None]
    weights = split.words[plan.rows] * counted
    weights = weights / np.maximum(weights.sum(axis=1, keepdims=True), 1)
    width = plan.rows.shape[1] // workers
    own = slice(worker * width, (worker + 1) * width)

    def spread(array):  # [steps, batch] -> [steps * replicas, batch of one]
        return array[:, own].reshape(-1, width // local_replicas)

    gather = _gatherer(split, pad)
    dataset = tf.data.Dataset.from_tensor_slices(
        (
            spread(plan.rows),
            spread(weights.astype(np.float32)),
            np.repeat(plan.lengths, local_replicas),
        )
    )
    options = tf.data.Options()
    # Its thread sleeps for longer and longer, up to a minute, and the end of
    # an iterator waits until it wakes: longer than many an epoch.
    options.autotune.enabled = False
    return (
        dataset.map(gather, num_parallel_calls=GATHERERS, deterministic=True)
        .prefetch(PREFETCH * local_replicas)
        .with_options(options)
    )


def _gatherer(split, pad):
    """A function (rows, weights, length) to a padded batch."""
    tokens, states = split.tokens, split.states
    lengths = tf.constant(tokens.lengths)
    labels = tf.constant(split.labels)
    starts = tf.constant(tokens.starts)
    if states is None or not states.have.all():
        flat = tf.constant(tokens.flat)
        firsts = tf.constant(tokens.firsts)
    if states is not None:
        have = tf.constant(states.have)
        state_starts = tf.constant(np.where(states.have, states.starts, 0))

    def index_of(starts, mask):
        """Where the tokens of each text are; 0 on padding."""
        index = starts[:, None] + tf.range(tf.shape(mask)[1], dtype=tf.int64)
        return tf.where(mask, index, 0)

    def gather(rows, weights, length):
        place = tf.range(length)
        batch = {"weights": weights}
        if split.word_starts is None:
            batch["labels"] = tf.gather(labels, rows)
        rows = tf.concat(
            [rows + side * len(split) for side in range(split.sides)], axis=0
        )
        mask = tf.sequence_mask(tf.gather(lengths, rows), length)
        batch["mask"] = mask
        if split.word_starts is not None:
            index = index_of(tf.gather(starts, rows), mask)
            found = tf.gather(labels, index)
            batch["labels"] = tf.where(mask, found, IGNORED)
        if states is None or not states.have.all():
            index = index_of(tf.gather(starts, rows), mask)
            second = place[None] >= tf.gather(firsts, rows)[:, None]
            batch["ids"] = tf.where(mask, tf.gather(flat, index), pad)
            batch["segments"] = tf.cast(second & mask, tf.int32)
        if states is not None:
            index = tf.gather(state_starts, rows)
            stored = tf.gather(have, rows)
            if not states.is_pooled:
                wide = mask
                if states.before:
                    counts = tf.shape(rows)[0], states.before
                    wide = tf.concat([tf.ones(counts, tf.bool), mask], axis=1)
                index = index_of(index, wide & stored[:, None])
            batch["states"] = tf.gather(states.vectors, index)
            if not states.have.all():
                batch["have"] = stored
        return batch

    return gather
