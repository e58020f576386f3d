"""A finished run as an object that predicts: `tf_transfer.load`."""

# `help` prints the names of types, which as values are long unions.
from __future__ import annotations

import os

import numpy as np
from numpy.typing import ArrayLike

from tf_transfer import experiment
from tf_transfer.data import metrics
from tf_transfer.data.task import Examples, Task
from tf_transfer.own import memory_source
from tf_transfer.runs import input_texts
from tf_transfer.runs.trained import Predictor
from tf_transfer.utils import screen
from tf_transfer.utils.errors import UserError
from tf_transfer.utils.json_files import Record


def load(
    run: str | os.PathLike[str],
    *,
    task: str = "",
    cache_dir: str | os.PathLike[str] = "",
) -> TrainedModel:
    """Opens a finished run to predict with it.

    The command `tf_transfer.predict --run` opens the same folders.

    Args:
        run: The run directory, which holds `result.json`; or the folder of a
            search, whose answer then predicts. An estimator has it as
            `directory_`.
        task: The task that predicts, if the run has several.
        cache_dir: The folder for downloads; empty for the usual one.

    Returns:
        The trained model.

    Raises:
        ValueError: The run is unfinished, damaged or without a model; its
            encoder is another one than now; or it has no such task.

    Examples:
        >>> import tf_transfer
        >>> texts = ["A bad film.", "A good film."] * 20
        >>> fitted = tf_transfer.TextClassifier("tiny", features="tfidf")
        >>> fitted = fitted.fit(texts, ["bad", "good"] * 20)
        >>> model = tf_transfer.load(fitted.directory_)
        >>> model.predict(["A good film.", "A bad one."]).tolist()
        ['good', 'bad']
        >>> model.classes_.tolist()
        ['bad', 'good']
    """
    with screen.silence(True):
        try:
            opened = experiment.open_run(os.fspath(run), os.fspath(cache_dir))
            return TrainedModel(opened.predictor(task))
        except UserError as error:
            raise ValueError(str(error)) from None


class TrainedModel:
    """A trained model, as `load` returns it.

    Texts are lists, arrays, a pandas series or data frame: [n] texts, or
    [n, 2] pairs if the run was trained on pairs. A run on entities takes
    sentences, each a list of words.

    Args:
        predictor: Of the finished run.

    Attributes:
        classes_: str [classes]. The labels, in the order of the columns of
            `predict_proba`; of entities, the tags. Not there for scores.
        directory_: The run directory.
        record_: The content of its `result.json`.

    Examples:
        See `load`.
    """

    classes_: np.ndarray

    def __init__(self, predictor: Predictor) -> None:
        self._predictor = predictor
        if predictor.task.labels is not None:
            self.classes_ = np.array(predictor.task.labels, object)
        self.directory_ = os.path.abspath(predictor.directory)
        self.record_: Record = predictor.record

    def __repr__(self) -> str:
        return f"<TrainedModel of {self.directory_}>"

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Predicts.

        Args:
            X: The texts, pairs or sentences; see the class.

        Returns:
            Of classes, [n] labels. Of several labels per text, int64
            [n, classes] of 0 and 1. Of scores, float64 [n]. Of entities, [n]
            lists with a tag for each word.

        Raises:
            ValueError: The texts are not such as the run was trained on.
        """
        task = self._predictor.task
        if task.is_tagging:
            return self._tag(X)
        logits = self._compute_logits(X)
        if task.kind == "score":
            return metrics.clip_scores(task, logits).astype(np.float64)
        if task.kind == "labels":
            return metrics.decide_each(logits)
        labels: np.ndarray = self.classes_[metrics.decide(logits)]
        return labels

    def predict_proba(self, X: ArrayLike) -> np.ndarray:
        """Predicts the probability of each class.

        Args:
            X: The texts or pairs; see the class.

        Returns:
            float64 [n, classes]. A row sums to 1, but not where a text may
            have several labels.

        Raises:
            ValueError: The run predicts scores or entities; or the texts are
                not such as it was trained on.
        """
        task = self._predictor.task
        if task.kind not in ("classes", "labels"):
            raise ValueError(
                f"{self.directory_}: predicts {_name_kind(task)}, which have "
                "no probabilities. Call predict."
            )
        return self._predictor.probabilities(self._compute_logits(X))

    def _compute_logits(self, X: ArrayLike) -> np.ndarray:
        """float32 [n, units]. The outputs for texts, prepared as the run's."""
        columns, task = memory_source.read_columns(X), self._predictor.task
        if len(columns) != len(task.texts):
            raise ValueError(
                f"X has {len(columns)} texts in a row, and the model was "
                f"fitted on {len(task.texts)}."
            )
        settings = self._predictor.experiment.settings
        prepared = [
            input_texts.prepare(settings, texts, [""] * len(texts))
            for texts in columns
        ]
        ids = np.arange(len(columns[0]))
        return self._predictor.logits(Examples(ids, prepared, None))

    def _tag(self, X: ArrayLike) -> np.ndarray:
        """[n] lists. The tags of each sentence's words."""
        sentences = memory_source.read_sentences(X)
        tags = np.empty(len(sentences), object)
        for row, tags_of_words in enumerate(self._predictor.tags(sentences)):
            tags[row] = tags_of_words
        return tags


def _name_kind(task: Task) -> str:
    return "entities" if task.is_tagging else "scores"
