"""Estimators of scikit-learn over a run of `tf_transfer.train`.

    from tf_transfer import TextClassifier

    classifier = TextClassifier(trainable_layers=2).fit(texts, labels)
    classifier.predict_proba(["A film to remember."])

A fit is a run: it writes a run directory below `out`, and another fit on the
same texts with the same parameters finds it finished. A pickle holds the path
of the directory, not the weights.
"""

import dataclasses
import difflib
import numbers
import os
import random
import time
import warnings
from collections.abc import Collection, Mapping, Sequence
from typing import ClassVar, Self

import numpy as np
import pandas as pd
import sklearn.base
import sklearn.utils
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from tf_transfer import experiment, search, train
from tf_transfer.config.fields import Setting
from tf_transfer.data import table_files
from tf_transfer.data.columns import normalize_cell
from tf_transfer.data.task import Examples, Task
from tf_transfer.own import memory_source
from tf_transfer.own.memory_source import make_task, MemorySource, NAME
from tf_transfer.runs import run_comparison
from tf_transfer.runs.trained import Predictor
from tf_transfer.searches.settings import Settings as SearchSettings
from tf_transfer.training.records import RunDirectory
from tf_transfer.utils import files, formatting, json_files, screen
from tf_transfer.utils.errors import Interrupted, UserError
from tf_transfer.utils.json_files import Record

Path = str | os.PathLike[str]
Groups = ArrayLike | None  # see `TextClassifier.fit`
# A parameter of an estimator.
Parameter = (
    Setting
    | os.PathLike[str]
    | np.generic
    | np.random.RandomState
    | Sequence["Parameter"]
    | Mapping[str, "Parameter"]
)
GROUPS = "group of the text"  # column of a table


class TextEstimator(sklearn.base.BaseEstimator):
    """The base class of estimators over one run, with their parameters.

    Args:
        model: The encoder, as `--model`. Of several, in a list, each fit takes
            the one that `train.rank` puts first.
        features: `bert` trains the encoder; `frozen` fits the probe, `tfidf`
            the TF-IDF baseline.
        trainable_layers: The number of last blocks that train, `all` or
            `head`.
        method: What is trained inside of them, as `--method`.
        lr: The learning rate; None for the usual one.
        max_epochs: The epochs; None for the usual number.
        batch_size: Texts of a batch.
        max_length: The longest text in tokens; None for the usual length.
        validation_fraction: The fraction of the texts that selects the epoch.
        random_state: The seed of initial weights, order and dropout. A
            `RandomState`, or None for NumPy's own, draws one for each fit.
        out: The root of the run directories.
        settings: Further fields of `train.Settings`, by name; None for none.
        verbose: Whether to print what the command prints.

    Attributes:
        directory_: The run directory.
        record_: The content of its `result.json`.
        ranking_: Of several encoders, the `baselines.ranking.Ranking`.
    """

    def __init__(
        self,
        model: Path | Sequence[Path] = "minilm",
        *,
        features: str = "bert",
        trainable_layers: str | int = 2,
        method: str = "full",
        lr: float | None = None,
        max_epochs: int | None = None,
        batch_size: int = 32,
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

    # What answers, once it is asked.
    _predictor: Predictor | None = None
    _settings_class: ClassVar[type[train.Settings]] = train.Settings
    _command: ClassVar[str] = "tf_transfer.train"  # with these settings

    def _fit(
        self,
        texts: list[list[str]],
        targets: np.ndarray,
        groups: Groups,
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
        self.record_ = RunDirectory(path, None).result()
        self._predictor = None
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

    def _load(self) -> Predictor:
        """What answers, read from the run directory at the first call."""
        if self._predictor is None:
            with screen.silence(not self.verbose):
                folder = self._read_settings().get("cache_dir", "")
                run = experiment.open_run(self.directory_, folder)
                self._predictor = run.predictor()
        return self._predictor

    def _logits(self, X: ArrayLike) -> np.ndarray:
        check_is_fitted(self, "directory_")
        texts = memory_source.read_columns(X)
        predictor = self._load()
        wanted = len(predictor.task.texts)
        if len(texts) != wanted:
            raise ValueError(
                f"X has {len(texts)} texts in a row, and the estimator was "
                f"fitted on {wanted}."
            )
        return predictor.logits(Examples(np.arange(len(texts[0])), texts, None))

    def __getstate__(self) -> Record:
        state = dict(super().__getstate__())
        if "directory_" in state:
            state["_predictor"] = None
        return state

    def __sklearn_tags__(self) -> sklearn.utils.Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.one_d_array = tags.input_tags.string = True
        return tags


class TextClassifier(sklearn.base.ClassifierMixin, TextEstimator):
    """A classifier of texts or of pairs of texts; see `TextEstimator`.

    A fit warns if the TF-IDF baseline scores more on the validation texts.

    Attributes:
        classes_: The classes, sorted.
    """

    def fit(self, X: ArrayLike, y: ArrayLike, groups: Groups = None) -> Self:
        """Trains.

        Args:
            X: [n] texts, or [n, 2] pairs: lists, arrays, a pandas series or
                data frame.
            y: [n] labels of any type that can be sorted, of at least two
                classes. Numbers are whole.
            groups: [n] values, such as authors; texts of one are all trained
                on or all validate, and are in one fold. None: each for itself.

        Raises:
            ValueError: The texts, the labels, the groups or a parameter are
                invalid.
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
        task = make_task(len(texts), tuple(map(str, classes)))
        self._fit(texts, ids, groups, task)
        self.classes_ = np.asarray(classes)
        return self

    def predict_proba(self, X: ArrayLike) -> np.ndarray:
        """float64 [n, classes]. The probability of each of `classes_`."""
        logits = self._logits(X)
        return self._load().probabilities(logits)

    def predict(self, X: ArrayLike) -> np.ndarray:
        """[n]. The most probable class of each text or pair."""
        best = self.predict_proba(X).argmax(axis=1)
        answers: np.ndarray = self.classes_[best]
        return answers


class TextSearch(TextClassifier):
    """A search for the best training of a classifier, within a budget.

    A fit is `tf_transfer.search` (docs/guides/search.md) in a folder of its own
    below `out`. Another one with the same texts and parameters and a larger
    budget continues it.

    Args:
        model: See `TextEstimator`.
        budget: The time of a fit, such as 90s, 30m, 2h or 1h30m.
        random_state: The seed of the split into training, validation and test;
            see `TextEstimator`.
        out: The root of the folders of searches.
        settings: Further fields of `SearchSettings`, by name, such as
            `approaches` and `max_loss`; None for none.
        verbose: Whether to print what the command prints.

    Attributes:
        folder_: The folder of the search, with its page, `search.html`.
        sentence_: What to use, what it gains, and how sure that is.
        table_: A data frame of the approaches and the baselines.
        directory_, record_, classes_: Of the answer, which predicts; see
            `TextClassifier`.
    """

    def __init__(
        self,
        model: Path | Sequence[Path] = "minilm",
        *,
        budget: str = "30m",
        random_state: int | np.random.RandomState | None = 0,
        out: Path = "searches",
        settings: Mapping[str, Parameter] | None = None,
        verbose: bool = False,
    ) -> None:
        self.model = model
        self.budget = budget
        self.random_state = random_state
        self.out = out
        self.settings = settings
        self.verbose = verbose

    _settings_class = SearchSettings
    _command = "tf_transfer.search"

    def _train(self, source: MemorySource, parameters: Record) -> str:
        """Searches; see `TextEstimator._train`.

        Workers of other processes read the texts, so a table holds them.
        """
        task, examples = source.task, source.read("train")
        key = {**parameters, "budget": "", "data": source.identity}
        name = f"{NAME}-{json_files.hash_json(key)[:10]}"
        out = os.path.join(parameters.pop("out"), name)
        columns = dict(zip(task.texts, examples.texts))
        names = np.array(task.labels, object)
        if len({*map(normalize_cell, names.tolist())}) < len(names):
            raise UserError("y: two classes are one in a table. Rename one.")
        columns[task.label] = names[examples.labels].tolist()
        if examples.groups is not None:
            columns[GROUPS] = examples.groups.tolist()
            parameters["group_column"] = GROUPS
        table = os.path.join(out, "texts.jsonl")
        os.makedirs(out, exist_ok=True)
        files.write_atomically(
            table, table_files.write_table(columns, ".jsonl")
        )
        models, seed = parameters.pop("model"), parameters.pop("random_state")
        if not isinstance(models, str):
            parameters["models"] = ",".join(f'"{model}"' for model in models)
            models = models[0]
        settings = SearchSettings(
            **{
                "task": NAME,
                "data": table,
                "text_column": ",".join(task.texts),
                "label_column": task.label,
                "model": models,
                "split_seed": seed,
                "out": out,
                **parameters,
            }
        )
        answer = search.open_search(settings, time.monotonic()).run()
        if answer.model is None:
            raise UserError("\n".join(answer.lines))
        self.folder_ = os.path.abspath(out)
        self.sentence_ = answer.sentence
        self.table_ = pd.DataFrame(answer.table)
        return str(answer.model.directory.path)

    def predict_proba(self, X: ArrayLike) -> np.ndarray:
        """float64 [n, classes]. The probability of each of `classes_`."""
        probabilities = super().predict_proba(X)
        # In the order of a table's labels.
        names = self._load().task.labels or ()
        order = [
            names.index(normalize_cell(label))
            for label in self.classes_.tolist()
        ]
        return probabilities[:, order]


class TextRegressor(sklearn.base.RegressorMixin, TextEstimator):
    """A regression on texts or on pairs of texts; see `TextEstimator`."""

    def fit(self, X: ArrayLike, y: ArrayLike, groups: Groups = None) -> Self:
        """Trains.

        Args:
            X: See `TextClassifier.fit`.
            groups: See `TextClassifier.fit`.
            y: [n] numbers.

        Raises:
            ValueError: The texts, the scores, the groups or a parameter are
                invalid.
        """
        texts = memory_source.read_columns(X)
        scores = memory_source.read_scores(texts, y)
        scale = float(scores.mean()), float(scores.std()) or 1.0
        task = make_task(len(texts), None, scale)
        return self._fit(texts, scores, groups, task)

    def predict(self, X: ArrayLike) -> np.ndarray:
        """float64 [n]. The score of each text or pair."""
        return self._logits(X)[:, 0]


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
