"""The estimator of classes: `tf_transfer.TextClassifier`."""

# `help` prints the names of types, which as values are long unions.
from __future__ import annotations

import numbers
from typing import Self

import numpy as np
import sklearn.base
from numpy.typing import ArrayLike

from tf_transfer.estimators.base import TextEstimator
from tf_transfer.own import memory_source


class TextClassifier(sklearn.base.ClassifierMixin, TextEstimator):
    """A classifier of texts, or of pairs of texts, for scikit-learn.

    A fit trains an encoder with the recipe of `python -m tf_transfer.train`.
    It writes a run directory; another fit of the same texts with the same
    parameters reads it. A pickle holds the path of that directory, not the
    weights.

    Args:
        model: The encoder: a name such as `minilm`, or a folder of
            transformers or keras-hub. Of a list of encoders, each fit ranks
            all by their probes and takes the best; see `ranking_`.
        features: What is fitted. `bert` trains the encoder with a head.
            `frozen` fits the probe, a regression on states of the frozen
            encoder. `tfidf` fits the TF-IDF baseline, without an encoder.
        trainable_layers: How much of the encoder trains: the number of last
            blocks, `all`, or `head` for no block.
        method: What trains in these blocks: `full`, every weight; `lora`;
            `bias`; `norm`; or `contrastive`, for few texts per class.
        lr: The learning rate. None: 2e-4 for last blocks, 1e-3 for `head`, and
            5e-5 for `all`, or 2e-4 for encoders of at most 512 values per
            token; methods have their own.
        max_epochs: The number of epochs. None: 3 for `all`, else 6, and more
            for few texts.
        batch_size: Texts per step. None: 16 for `all`, else 32.
        max_length: The longest text, or pair, in tokens; what exceeds it is
            cut off. None: 256, or what the encoder allows.
        validation_fraction: The fraction of the texts that is held out for
            validation. The others train.
        random_state: The seed of initial weights, order and dropout. A
            `RandomState`, or None for NumPy's own, draws one for each fit.
        out: The folder below which fits write their run directories.
        settings: Further settings of `python -m tf_transfer.train`, by name,
            such as `{"patience": 2}`. None: their defaults.
        verbose: Whether to print progress and scores.

    Attributes:
        classes_: [classes] The different labels, sorted.
        directory_: The run directory of the fit, with its scores, errors and
            weights. `tf_transfer.load` opens it.
        record_: The content of its `result.json`, such as
            `record_["validation"]`, the validation scores.
        ranking_: The ranking of the encoders, if `model` is a list: `text` is
            a table, and `runs` a data frame.

    Examples:
        `tiny` has random weights, for trying; `minilm` is a real encoder.

        >>> import tf_transfer
        >>> texts = ["A film to forget.", "A film to remember."] * 20
        >>> labels = ["bad", "good"] * 20
        >>> classifier = tf_transfer.TextClassifier(
        ...     "tiny", trainable_layers=1, max_epochs=1
        ... )
        >>> classifier = classifier.fit(texts, labels)
        >>> classifier.classes_.tolist()
        ['bad', 'good']
        >>> classifier.predict_proba(["A film to remember."]).shape
        (1, 2)
    """

    classes_: np.ndarray

    def fit(
        self, X: ArrayLike, y: ArrayLike, groups: ArrayLike | None = None
    ) -> Self:
        """Trains, or finds the finished run of the same fit.

        It warns if the TF-IDF baseline scores more on the validation texts.

        Args:
            X: [n] texts, or [n, 2] pairs of texts: a list, an array, a pandas
                series or data frame.
            y: [n] labels of at least two classes: texts, whole numbers or
                another type that can be sorted, but no dates.
            groups: [n] values, such as authors. The texts of one group are
                all trained on or all held out. None: each text by itself.

        Returns:
            The classifier.

        Raises:
            ValueError: The texts, labels, groups or a parameter are invalid.
            KeyboardInterrupt: Ctrl-C; the same fit continues the run.
        """
        texts = memory_source.read_columns(X)
        cells, classes = memory_source.read_targets(texts, y)
        if len(classes) < 2:
            raise ValueError(
                f"y has one class only: {classes[0]!r}. A classifier needs two."
            )
        fractions = [
            c for c in classes if isinstance(c, numbers.Real) and c % 1
        ]
        if fractions:
            raise ValueError(
                f"y has continuous values, such as {fractions[0]!r}, and a "
                "classifier needs classes. Take a TextRegressor, or give the "
                "classes as texts."
            )
        id_of = {label: number for number, label in enumerate(classes)}
        ids = np.array([id_of[label] for label in cells], np.int64)
        task = memory_source.make_task(len(texts), tuple(map(str, classes)))
        self._fit(texts, ids, groups, task)
        self.classes_ = np.asarray(classes)
        return self

    def predict_proba(self, X: ArrayLike) -> np.ndarray:
        """Predicts the probability of each class.

        Args:
            X: [n] texts or [n, 2] pairs, as in `fit`.

        Returns:
            float64 [n, classes], in the order of `classes_`. Rows sum to 1.

        Raises:
            ValueError: The texts are invalid, or the run directory is gone.
            NotFittedError: The classifier is not fitted.
        """
        return self._load().predict_proba(X)

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Predicts the most probable class.

        Args:
            X: [n] texts or [n, 2] pairs, as in `fit`.

        Returns:
            [n] labels, of the type of `y`.

        Raises:
            ValueError: The texts are invalid, or the run directory is gone.
            NotFittedError: The classifier is not fitted.
        """
        best = self.predict_proba(X).argmax(axis=1)
        answers: np.ndarray = self.classes_[best]
        return answers
