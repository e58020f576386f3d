"""A contrastive stage on few texts, beside the probe.

    python -m benchmarks.contrastive --data=FOLDER
    python -m benchmarks.contrastive --document=docs/probe.md

FOLDER holds `glue`, `cs224n`, `tweets` and `conll2003`. Six tasks have 8, 16
and 64 training texts per label, in five draws. Three approaches are tested on
the same texts:

- `probe`: the package's, which chooses its states by cross-validation;
- `regression`: logistic regression on the means above the last block, of
  length 1, with the defaults of scikit-learn;
- `contrastive`: the same regression after a stage that trains the last blocks,
  so that texts of one label have similar states and others have not.

The stage is the idea of SetFit (Tunstall et al., "Efficient few-shot learning
without prompts", 2022). A step takes up to 32 texts and the cosines of all
pairs of them. The target is 1 for equal labels and 0 for others, and both kinds
of pairs have the same weight. All that, the steps and the rates are ours.
"""

import itertools
import os
import time
from typing import Any

import numpy as np
import pandas as pd
from absl import flags
from sklearn.linear_model import LogisticRegression

from benchmarks import documents
from benchmarks.contrastive_tasks import TASKS
from tf_transfer.baselines import pooled_states, probe
from tf_transfer.config import command_line
from tf_transfer.data import encoded_split, metrics, tokens
from tf_transfer.data.task import Task
from tf_transfer.glue import experiment as glue
from tf_transfer.utils import files, json_files

NAME = "contrastive"
SIZES = (8, 16, 64)  # training texts per label
TESTED = 300  # texts
LENGTH = 32  # tokens of a text
STEPS, BATCH, WARMUP = 30, 32, 3
RATES = {2: 2e-4, 6: 5e-5}  # by the number of last blocks that train

Case = dict[str, Any]


def define_flags() -> None:
    """Defines the flags of this command."""
    flags.DEFINE_string("data", "data", "Folder of the data sets.")
    flags.DEFINE_integer("draws", 5, "Draws of the training texts.", 2)
    flags.DEFINE_integer("deep_draws", 2, "Draws on which six blocks train.", 0)
    flags.DEFINE_string("cache_dir", "", "Folder for what pip fetches.")
    flags.DEFINE_string(
        "out", f"experiments/{NAME}", "Folder of measured.json."
    )
    flags.DEFINE_string("document", "", "Document to write the table into.")


# === The approaches ===


class Split:
    """Texts of a task, as the frozen blocks read them.

    Attributes:
        labels: int64 [texts].
        mask: bool [texts, length]. False on padding.
        below: by the number of blocks that train, the states below them:
            float32 [texts, length, hidden].
        inputs: what the probe reads.
    """

    def __init__(self, encoder: Any, table: pd.DataFrame) -> None:
        import tensorflow as tf

        from tf_transfer.models import prefix

        self.labels = table["label"].to_numpy()
        blocks = len(encoder.blocks)
        read = [
            prefix.FrozenPrefix(blocks, "pooled_blocks", "float32"),
            *(
                prefix.FrozenPrefix(blocks - trained, "tokens", "float32")
                for trained in RATES
            ),
        ]
        texts = tokens.encode(
            encoder.tokenizer.encode,
            encoder.special,
            [table["text"].tolist()],
            LENGTH,
        )
        place = np.arange(LENGTH)
        self.mask = place < texts.lengths[:, None]
        index = np.where(self.mask, texts.starts[:, None] + place, 0)
        ids = np.where(self.mask, texts.flat[index], encoder.special.pad)
        parts = []
        for rows in np.array_split(np.arange(len(ids)), len(ids) // 64 + 1):
            batch = {
                "ids": tf.constant(ids[rows]),
                "segments": tf.zeros_like(ids[rows]),
                "mask": tf.constant(self.mask[rows]),
            }
            outputs = prefix.run(encoder, batch, read)
            parts.append([output.numpy() for output in outputs])
        vectors, *below = [np.concatenate(part) for part in zip(*parts)]
        self.below = dict(zip(RATES, below))
        stored = encoded_split.StoredStates(
            vectors, np.arange(len(ids)), np.ones(len(ids), bool), True
        )
        self.inputs = pooled_states.PooledStates(
            {1: stored},
            encoder.hidden,
            encoder.pooler.get_weights(),
            self.labels,
        )

    def batch(self, rows: np.ndarray, blocks: int) -> tuple[Any, Any]:
        """States below the last blocks and mask, as long as the longest."""
        import tensorflow as tf

        mask = self.mask[rows]
        length = mask.sum(axis=1).max()
        states = self.below[blocks][rows, :length]
        return tf.constant(states), tf.constant(mask[:, :length])


class Stage:
    """The contrastive stage of an encoder's last blocks.

    Args:
        encoder: the encoder.
        blocks: how many of its last blocks train.
    """

    def __init__(self, encoder: Any, blocks: int) -> None:
        import tensorflow as tf

        from tf_transfer.models import prefix
        from tf_transfer.training import optimizer

        self.blocks, total = blocks, len(encoder.blocks)
        trained = encoder.blocks[total - blocks :]
        weights = [w for block in trained for w in block.trainable_weights]
        self._initial = [
            (variable, variable.numpy())
            for block in trained
            for variable in block.variables  # with the state of dropout
        ]
        self._rate = optimizer.LearningRate("linear", warms_up=True)
        self._adam = adam = optimizer.BertAdam(
            weights, self._rate, optimizer.AdamOptions(bias_correction=True)
        )

        @tf.function(reduce_retracing=True)
        def embed(x: Any, mask: Any, training: bool) -> Any:
            """float32 [texts, hidden], of length 1."""
            first = total - blocks + 1
            x = encoder.run_blocks(x, mask, first, total, training)
            return tf.math.l2_normalize(prefix.mean_pool(x, mask), axis=1)

        @tf.function(reduce_retracing=True)
        def step(x: Any, mask: Any, labels: Any) -> None:
            is_equal = tf.cast(labels[:, None] == labels[None], tf.float32)
            is_other_text = 1 - tf.eye(tf.shape(labels)[0])
            with tf.GradientTape() as tape:
                vectors = embed(x, mask, training=True)
                cosines = tf.matmul(vectors, vectors, transpose_b=True)
                errors = tf.square(cosines - is_equal) * is_other_text
                loss = 0.0
                for pairs in (is_equal * is_other_text, 1 - is_equal):
                    loss += tf.math.divide_no_nan(
                        tf.reduce_sum(errors * pairs), tf.reduce_sum(pairs)
                    )
            gradients = tape.gradient(loss, [w.value for w in weights])
            adam.update(gradients, adam.read_numbers())
            adam.count()

        self._embed, self._step = embed, step

    def reset(self) -> None:
        """Sets the pretrained weights, and resets the optimizer."""
        for variable, value in self._initial:
            variable.assign(value)
        self._adam.reset(weight_decay=0.01)
        self._rate.numbers.assign([RATES[self.blocks], STEPS, WARMUP])

    def train(self, split: Split, seed: int) -> None:
        """Trains, from the pretrained weights."""
        import tensorflow as tf

        self.reset()
        rng = np.random.default_rng(seed)
        size = min(BATCH, len(split.labels))
        for _ in range(STEPS):
            rows = rng.choice(len(split.labels), size, replace=False)
            batch = split.batch(rows, self.blocks)
            self._step(*batch, tf.constant(split.labels[rows]))

    def score(self, train: Split, test: Split) -> float:
        """The test accuracy of a regression on the means, in percent."""
        model = LogisticRegression(max_iter=1000)
        model.fit(self._embed_all(train), train.labels)
        return 100 * model.score(self._embed_all(test), test.labels)

    def _embed_all(self, split: Split) -> np.ndarray:
        count = len(split.labels)
        order = np.argsort(split.mask.sum(axis=1), kind="stable")
        parts = [
            self._embed(*split.batch(rows, self.blocks), False).numpy()
            for rows in np.array_split(order, count // 64 + 1)
        ]
        vectors: np.ndarray = np.concatenate(parts)[np.argsort(order)]
        return vectors


# === The measurement ===


def name_stage(blocks: int) -> str:
    """The approach in records and tables."""
    return f"contrastive, last {blocks}"


def measure_draw(
    task: Task, train: Split, test: Split, stages: list[Stage], seed: int
) -> Case:
    """Test accuracies in percent, and seconds of a processor's core."""
    fitted = probe.Probe(task, 6, True, seed).fit(train.inputs)
    accuracy = metrics.METRICS["accuracy"](
        test.labels, fitted.logits(test.inputs)
    )
    stages[0].reset()
    case = {
        "probe": 100 * accuracy,
        "states": str(fitted.states),
        "regression": stages[0].score(train, test),
    }
    for stage in stages:
        began = time.process_time()
        stage.train(train, seed)
        name = name_stage(stage.blocks)
        case[f"{name}, s"] = time.process_time() - began
        case[name] = stage.score(train, test)
        stage.reset()
    return case


def measure(out: str) -> list[Case]:
    """Measures what is not stored yet, and stores each draw."""
    command_line.import_tensorflow()
    from tf_transfer.models import loading

    values, path = flags.FLAGS, os.path.join(out, "measured.json")
    os.makedirs(out, exist_ok=True)
    cases = []
    if os.path.exists(path):
        cases = json_files.read(path, list[Case])
    settings = glue.Settings(task="sst2", cache_dir=values.cache_dir)
    encoder = loading.load("minilm", settings.cache_folder, dropout=0.1)
    stages = [Stage(encoder, blocks) for blocks in RATES]
    tables = {task: TASKS[task](values.data) for task in TASKS}
    tests: dict[str, Split] = {}
    grid = itertools.product(range(values.draws), SIZES, TASKS)
    for draw, size, name in [*grid][len(cases) :]:
        table = tables[name].sample(frac=1, random_state=0)
        labels, table["label"] = np.unique(table["label"], return_inverse=True)
        if name not in tests:
            tests[name] = Split(encoder, table[:TESTED])
        groups = table[TESTED:].groupby("label")
        task = Task(
            name, "", ("text",), "label", tuple(map(str, labels)), "accuracy"
        )
        train = Split(encoder, groups.sample(size, random_state=draw))
        few = stages if draw < values.deep_draws else stages[:1]
        scores = measure_draw(task, train, tests[name], few, draw)
        cases.append({"task": name, "size": size, "draw": draw, **scores})
        files.write_json(path, cases)
        print(cases[-1], flush=True)
    return cases


def make_table(cases: list[Case]) -> str:
    """Means by size and task, and paired differences, as Markdown."""
    frame = pd.DataFrame(cases)
    return "\n\n".join(_make_table(frame, blocks) for blocks in RATES)


def _make_table(frame: pd.DataFrame, blocks: int) -> str:
    stage = name_stage(blocks)
    measured = frame.dropna(subset=stage)
    scored = measured[["size", "task", "probe", "regression", stage]].copy()
    for name in ("probe", "regression"):
        scored[f"less the {name}"] = scored[stage] - scored[name]
    rows = [["texts per label", "task", *scored.columns[2:]]]
    rows.append(["---"] * len(rows[0]))
    for size, sized in scored.groupby("size"):
        means = sized.groupby("task").mean()
        for task, row in means.iterrows():
            cells = [f"{row[n]:.1f}" for n in means.columns[1:4]]
            cells += [f"{row[n]:+.1f}" for n in means.columns[4:]]
            rows.append([str(size), str(task), *cells])
        errors = means.sem()
        cells = [f"{means[n].mean():.1f}" for n in means.columns[1:4]]
        cells += [
            f"{means[n].mean():+.1f} ± {errors[n]:.1f}"
            for n in means.columns[4:]
        ]
        rows.append([str(size), "mean", *cells])
    draws = measured.groupby(["size", "task"]).size().min()
    seconds = measured[f"{stage}, s"].median()
    return (
        f"`minilm`, {stage}, {draws} draws. Test accuracy in percent; the mean "
        "of the differences has its standard error over the tasks. The stage "
        f"takes {seconds:.0f} seconds of a processor's core:\n\n"
        + documents.as_markdown(rows)
    )


def main(argv: list[str]) -> None:
    """Measures and prints the table, or fills a document."""
    del argv
    values = flags.FLAGS
    documents.measure_or_fill(
        measure, make_table, values.out, values.document, NAME
    )


if __name__ == "__main__":
    define_flags()
    command_line.start_with_words(main)
