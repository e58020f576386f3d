"""Vectors of texts for scikit-learn: `tf_transfer.TextFeatures`."""

# `help` prints the names of types, which as values are long unions.
from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
from typing import Self

import numpy as np
import sklearn.base
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from tf_transfer import train
from tf_transfer.baselines import pooled_states, probe
from tf_transfer.data.encoded_split import EncodedSplit
from tf_transfer.data.task import Examples, Sentences
from tf_transfer.estimators.base import TextInputEstimator
from tf_transfer.feature_cache.feature_cache import FeatureCache
from tf_transfer.models.encoder import Encoder
from tf_transfer.own import memory_source
from tf_transfer.training.strategy import Devices
from tf_transfer.utils import screen
from tf_transfer.utils.errors import UserError

POOLINGS = {"mean": "mean", "cls": "cls_state"}


class TextFeatures(
    sklearn.base.ClassNamePrefixFeaturesOutMixin,
    sklearn.base.TransformerMixin,
    TextInputEstimator,
):
    """Vectors of texts by a frozen encoder, as a step of a pipeline.

    Nothing trains. The vectors are kept in the feature cache, so the encoder
    reads each text once, also in a cross-validation or another program.

    Args:
        model: The encoder: a name such as `minilm`, or a folder of
            transformers or keras-hub.
        block: The block above which states are read, from 0, the embeddings.
            None: the last.
        pooling: The states of a text that make its vector: `mean` of all
            tokens, or `cls`, the first token's.
        max_length: The longest text in tokens; what exceeds it is cut off.
            None: 256, or what the encoder allows.
        cache_dir: The folder of the feature cache and of downloads. Empty: the
            usual one.

    Attributes:
        block_: The block above which states are read.

    Examples:
        >>> from sklearn.linear_model import LogisticRegression
        >>> from sklearn.pipeline import make_pipeline
        >>> import tf_transfer
        >>> texts = ["A film to forget.", "A film to remember."] * 20
        >>> features = tf_transfer.TextFeatures("tiny")
        >>> features.fit_transform(texts).shape
        (40, 32)
        >>> model = make_pipeline(features, LogisticRegression(C=100))
        >>> model = model.fit(texts, ["bad", "good"] * 20)
        >>> model.predict(["A film to remember."]).tolist()
        ['good']
    """

    block_: int

    def __init__(
        self,
        model: str | os.PathLike[str] = "minilm",
        *,
        block: int | None = None,
        pooling: str = "mean",
        max_length: int | None = None,
        cache_dir: str | os.PathLike[str] = "",
    ) -> None:
        self.model = model
        self.block = block
        self.pooling = pooling
        self.max_length = max_length
        self.cache_dir = cache_dir

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Checks texts and parameters, and loads the encoder.

        Args:
            X: [n] texts: a list, an array or a pandas series.
            y: Unused.

        Returns:
            The transformer.

        Raises:
            ValueError: The texts or a parameter are invalid.
        """
        _read_texts(X)
        encoder = self._open().encoder
        blocks = len(encoder.blocks)
        if self.pooling not in POOLINGS:
            raise ValueError(
                f"pooling: {self.pooling!r:.60} is unknown. Give one of "
                f"{', '.join(POOLINGS)}."
            )
        if self.block is not None and self.block not in range(blocks + 1):
            raise ValueError(
                f"block: {self.block!r:.60} is no block. Give a number from 0 "
                f"to {blocks}."
            )
        self.block_ = blocks if self.block is None else self.block
        self._n_features_out = encoder.hidden
        return self

    def transform(self, X: ArrayLike) -> np.ndarray:
        """Computes the vectors of texts, or reads them from the cache.

        Args:
            X: [n] texts, as in `fit`.

        Returns:
            float32 [n, width of the encoder].

        Raises:
            ValueError: The texts are invalid, or the cache finds no room.
            NotFittedError: `fit` was not called.
        """
        check_is_fitted(self, "block_")
        texts = _read_texts(X)
        states = probe.States(self.block_, POOLINGS[self.pooling])
        with screen.silence(True):
            try:
                return self._open().read(texts).matrix(states)
            except UserError as error:
                raise ValueError(str(error)) from None

    def _open(self) -> _FrozenEncoder:
        model, cache_dir = os.fspath(self.model), os.fspath(self.cache_dir)
        with screen.silence(True):
            try:
                return _open(model, self.max_length, cache_dir)
            except UserError as error:
                raise ValueError(str(error)) from None


class _FrozenEncoder:
    """An encoder in memory, with the run whose texts it reads.

    Args:
        settings: Of a probe with this encoder.
    """

    def __init__(self, settings: train.Settings) -> None:
        task = memory_source.make_task(1, None)
        nothing = Examples(np.arange(0), [[]], np.zeros(0))
        source = memory_source.MemorySource(task, nothing)
        self._run, self._task = train.Train(settings, source), task
        self._devices: Devices = self._run.set_up_devices()
        self.encoder: Encoder = self._run.load_encoder()

    def read(self, texts: list[str]) -> pooled_states.PooledStates:
        """The states of texts above every block."""
        options = self._run.cache_options()
        assert options is not None  # a probe always stores its states
        examples = Examples(
            np.arange(len(texts)), [texts], np.zeros(len(texts))
        )

        def encode(
            texts: Examples | Sentences, texts_per_row: int, name: str
        ) -> EncodedSplit:
            return self._run.data.encode(
                texts, self._task, self.encoder, name, texts_per_row
            )

        with contextlib.closing(
            FeatureCache(self.encoder, self._devices, options, lambda: False)
        ) as cache:
            reader = pooled_states.Reader(cache, self.encoder, encode, False)
            return reader.texts({"texts": examples})["texts"]


@functools.lru_cache(maxsize=1)  # a cross-validation asks for one, often
def _open(model: str, max_length: int | None, cache_dir: str) -> _FrozenEncoder:
    settings = train.Settings(
        task="rte",
        data="sample",
        baseline=False,
        features="frozen",
        model=model,
        cache_dir=cache_dir,
    )
    if max_length is not None:
        settings = dataclasses.replace(settings, max_length=max_length)
    return _FrozenEncoder(settings)


def _read_texts(X: ArrayLike) -> list[str]:
    """The texts, which are no pairs."""
    columns = memory_source.read_columns(X)
    if len(columns) > 1:
        raise ValueError("X has pairs of texts. Give [n] texts.")
    return columns[0]
