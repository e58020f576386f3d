"""The base class of the estimators: their parameters, and a fit, a run.

A fit writes a run directory below `out`, and another fit on the same texts with
the same parameters finds it finished. A pickle holds the path of the directory,
not the weights.
"""

# `help` prints the names of types, which as values are long unions.
from __future__ import annotations

import dataclasses
import difflib
import functools
import numbers
import os
import random
import warnings
from collections.abc import Collection, Mapping, Sequence
from typing import ClassVar, Self, TYPE_CHECKING

import numpy as np
import sklearn.base
import sklearn.utils
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from tf_transfer import train
from tf_transfer.config.fields import Setting
from tf_transfer.data.task import Examples, Task
from tf_transfer.estimators import trained_model
from tf_transfer.estimators.trained_model import TrainedModel
from tf_transfer.own import memory_source
from tf_transfer.own.memory_source import MemorySource
from tf_transfer.runs import run_comparison
from tf_transfer.training.records import RunDirectory
from tf_transfer.utils import formatting, screen
from tf_transfer.utils.errors import Interrupted, UserError
from tf_transfer.utils.json_files import Record

if TYPE_CHECKING:
    from tf_transfer.baselines.ranking import Ranking

Path = str | os.PathLike[str]
# A parameter of an estimator.
Parameter = (
    Setting
    | os.PathLike[str]
    | np.generic
    | np.random.RandomState
    | Sequence["Parameter"]
    | Mapping[str, "Parameter"]
)


class FinishedRun:
    """A run whose model is opened when it is first asked for.

    An estimator keeps it, so that predicting changes no attribute of the
    estimator. A pickle has the path alone.

    Args:
        directory: The run directory.
        cache_dir: See `trained_model.load`.
    """

    def __init__(self, directory: str, cache_dir: str) -> None:
        self.directory = directory
        self.cache_dir = cache_dir

    def __getstate__(self) -> Record:
        return {"directory": self.directory, "cache_dir": self.cache_dir}

    @functools.cached_property
    def model(self) -> TrainedModel:
        """The trained model."""
        return trained_model.load(self.directory, cache_dir=self.cache_dir)


class TextInputEstimator(sklearn.base.BaseEstimator):
    """An estimator whose X are texts; scikit-learn reads it in the tags."""

    def __sklearn_tags__(self) -> sklearn.utils.Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.one_d_array = tags.input_tags.string = True
        return tags


class TextEstimator(TextInputEstimator):
    """The base class; see `TextClassifier` for parameters and attributes."""

    directory_: str
    record_: Record
    ranking_: Ranking

    def __init__(
        self,
        model: Path | Sequence[Path] = "minilm",
        *,
        features: str = "bert",
        trainable_layers: str | int = 2,
        method: str = "full",
        lr: float | None = None,
        max_epochs: int | None = None,
        batch_size: int | None = None,
        max_length: int | None = None,
        validation_fraction: float = 0.1,
        random_state: int | np.random.RandomState | None = 0,
        out: Path = "runs",
        settings: Mapping[str, Parameter] | None = None,
        verbose: bool = False,
    ) -> None:
        self.model = model
        self.features = features
        self.trainable_layers = trainable_layers
        self.method = method
        self.lr = lr
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.max_length = max_length
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        self.out = out
        self.settings = settings
        self.verbose = verbose

    _run: FinishedRun
    _settings_class: ClassVar[type[train.Settings]] = train.Settings
    _command: ClassVar[str] = "tf_transfer.train"  # with these settings

    def _fit(
        self,
        texts: list[list[str]],
        targets: np.ndarray,
        groups: ArrayLike | None,
        task: Task,
    ) -> Self:
        """Runs the training.

        Args:
            texts: One or two columns.
            targets: Ids of labels, or scores.
            groups: See `TextClassifier.fit`.
            task: See `memory_source.make_task`.
        """
        parameters = {n: _convert(v) for n, v in self.get_params().items()}
        # Before the states of the generators: None draws from NumPy's.
        parameters["random_state"] = _draw_seed(self.random_state)
        parameters.pop("settings")
        parameters |= self._read_settings()
        model = parameters["model"]
        if not isinstance(model, Collection) or not len(model):
            raise ValueError(
                f"model: {model!r:.60} is no encoder. Give a name, a folder or "
                "a list of these."
            )
        states = random.getstate(), np.random.get_state()
        source = MemorySource(
            task,
            Examples(
                np.arange(len(targets)),
                texts,
                targets,
                memory_source.number_groups(groups, texts),
            ),
        )
        try:
            with screen.silence(not parameters.pop("verbose")):
                path = self._train(source, parameters)
        except UserError as error:
            raise ValueError(str(error)) from None
        except Interrupted as stop:  # a grid search must end, too
            raise KeyboardInterrupt(str(stop)) from None
        finally:  # a run seeds the generators that the caller may use
            random.setstate(states[0])
            np.random.set_state(states[1])
        self.directory_ = os.path.abspath(path)
        record = RunDirectory(path, None).result()
        assert record is not None  # the run has ended
        self.record_ = record
        folder = os.fspath(self._read_settings().get("cache_dir", ""))
        self._run = FinishedRun(self.directory_, folder)
        return self

    def _train(self, source: MemorySource, parameters: Record) -> str:
        """Trains a run, and warns if the TF-IDF baseline scores more.

        Args:
            source: The texts.
            parameters: The parameters and further settings, without `verbose`.

        Returns:
            The path of its directory.
        """
        models, seed = parameters.pop("model"), parameters.pop("random_state")
        self.__dict__.pop("ranking_", None)  # of a fit before
        settings = train.Settings(
            **{
                "task": "rte",
                "data": "sample",
                "baseline": False,
                "seed": seed,
                **parameters,
            }
        )
        if not isinstance(models, str):
            self.ranking_ = train.rank(settings, models, source)
            models = self.ranking_.model
        run = train.Train(dataclasses.replace(settings, model=models), source)
        path = run.train().directory
        warning = run_comparison.warn_of_tfidf(run, path)
        if warning:
            warnings.warn(warning, stacklevel=4)
        return path

    def _read_settings(self) -> Record:
        """The further settings, whose names are checked.

        Raises:
            ValueError: There is no such setting.
        """
        settings, cls = self.settings, self._settings_class
        if settings is None:
            return {}
        if not isinstance(settings, Mapping):
            raise ValueError(
                f"settings: {settings!r:.60} is not a dictionary. Give values "
                "by the names of settings, such as {'patience': 2}."
            )
        names = [field.name for field in dataclasses.fields(cls)]
        for name in settings:
            if name not in names:
                near = difflib.get_close_matches(str(name), names, 1)
                words = ("python", "-m", self._command, "--help")
                advice = f"See: {formatting.quote_command(*words)}"
                if name in self.get_params():
                    advice = f"Give it to {type(self).__name__} itself."
                elif near:
                    advice = f"Is {near[0]!r} meant?"
                raise ValueError(
                    f"settings: {name!r:.60} is not a setting of "
                    f"{self._command}. {advice}"
                )
        return {name: _convert(value) for name, value in settings.items()}

    def _load(self) -> TrainedModel:
        """The model of the fit, opened at the first call."""
        check_is_fitted(self, "directory_")
        return self._run.model


def _convert(value: Parameter) -> Parameter:
    """A parameter as settings have it: paths are texts, NumPy's are Python's.

    Items of a list or tuple are converted.
    """
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, np.generic):  # of a grid
        number: Setting = value.item()
        return number
    if isinstance(value, (list, tuple)):
        return [*map(_convert, value)]
    return value


def _draw_seed(random_state: int | np.random.RandomState | None) -> int:
    """The seed of a fit; a number as it is.

    Raises:
        ValueError: Nothing can be drawn from it.
    """
    if isinstance(random_state, np.integer):  # of a grid
        return int(random_state)
    if isinstance(random_state, numbers.Number):
        return random_state
    try:
        generator = sklearn.utils.check_random_state(random_state)
    except ValueError:
        raise ValueError(
            f"random_state: {random_state!r:.60} is no seed. Give a number, a "
            "numpy.random.RandomState or None."
        ) from None
    return int(generator.randint(np.iinfo(np.int32).max))
