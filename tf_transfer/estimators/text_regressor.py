"""The estimator of scores: `tf_transfer.TextRegressor`."""

# `help` prints the names of types, which as values are long unions.
from __future__ import annotations

from typing import Self

import numpy as np
import sklearn.base
from numpy.typing import ArrayLike

from tf_transfer.estimators.base import TextEstimator
from tf_transfer.own import memory_source


class TextRegressor(sklearn.base.RegressorMixin, TextEstimator):
    """A regression on texts, or on pairs of texts, for scikit-learn.

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
        directory_: The run directory of the fit, with its scores, errors and
            weights. `tf_transfer.load` opens it.
        record_: The content of its `result.json`, such as
            `record_["validation"]`, the validation scores.
        ranking_: The ranking of the encoders, if `model` is a list: `text` is
            a table, and `runs` a data frame.

    Examples:
        The TF-IDF baseline needs no encoder.

        >>> import tf_transfer
        >>> texts = ["A dull film.", "A good film.", "A great film."] * 20
        >>> regressor = tf_transfer.TextRegressor(features="tfidf")
        >>> regressor = regressor.fit(texts, [1.0, 2.0, 3.0] * 20)
        >>> scores = regressor.predict(["A dull film.", "A great film."])
        >>> scores.round().tolist()
        [1.0, 3.0]
    """

    def fit(
        self, X: ArrayLike, y: ArrayLike, groups: ArrayLike | None = None
    ) -> Self:
        """Trains, or finds the finished run of the same fit.

        It warns if the TF-IDF baseline scores more on the validation texts.

        Args:
            X: [n] texts, or [n, 2] pairs of texts: a list, an array, a pandas
                series or data frame.
            y: [n] scores: numbers, or texts as files have numbers, such as
                "2.5".
            groups: [n] values, such as authors. The texts of one group are
                all trained on or all held out. None: each text by itself.

        Returns:
            The regressor.

        Raises:
            ValueError: The texts, scores, groups or a parameter are invalid.
            KeyboardInterrupt: Ctrl-C; the same fit continues the run.
        """
        texts = memory_source.read_columns(X)
        scores = memory_source.read_scores(texts, y)
        scale = float(scores.mean()), float(scores.std()) or 1.0
        task = memory_source.make_task(len(texts), None, scale)
        return self._fit(texts, scores, groups, task)

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Predicts scores, in the unit of `y`.

        Args:
            X: [n] texts or [n, 2] pairs, as in `fit`.

        Returns:
            float64 [n].

        Raises:
            ValueError: The texts are invalid, or the run directory is gone.
            NotFittedError: The regressor is not fitted.
        """
        return self._load().predict(X)
