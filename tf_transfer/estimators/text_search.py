"""The search as an estimator: `tf_transfer.TextSearch`."""

# `help` prints the names of types, which as values are long unions.
from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from tf_transfer import search
from tf_transfer.data import table_files
from tf_transfer.data.columns import normalize_cell
from tf_transfer.estimators.base import Parameter, Path
from tf_transfer.estimators.text_classifier import TextClassifier
from tf_transfer.own.memory_source import MemorySource, NAME
from tf_transfer.searches.settings import Settings
from tf_transfer.utils import files, json_files
from tf_transfer.utils.errors import UserError
from tf_transfer.utils.json_files import Record

GROUP_COLUMN = "group of the text"  # column of a table


class TextSearch(TextClassifier):
    """A classifier that searches what to train, within a budget of time.

    A fit is the search of `python -m tf_transfer.search`: it chooses between
    the TF-IDF baseline, the probe, the last blocks and everything, and their
    learning rates, on five folds. A tenth of the texts is held out to test the
    answer. A fit writes a folder; another fit of the same texts with the same
    parameters and a larger budget continues the search.

    Args:
        model: The encoder: a name such as `minilm`, or a folder of
            transformers or keras-hub. A list of encoders is ranked first, and
            the search takes the best.
        budget: The time of a fit, such as `90s`, `30m`, `2h` or `1h30m`.
        random_state: The seed of the split into training, validation and test
            texts. A `RandomState`, or None for NumPy's own, draws one for each
            fit.
        out: The folder below which fits write the folders of their searches.
        settings: Further settings of `python -m tf_transfer.search`, by name,
            such as `{"approaches": "1,2", "max_loss": 1}`. None: their
            defaults.
        verbose: Whether to print progress and scores.

    Attributes:
        classes_: [classes] The different labels, sorted.
        sentence_: What to use, what it gains, and how sure that is.
        table_: A data frame of the approaches and the baselines.
        folder_: The folder of the search, with its page, `search.html`.
        directory_: The run directory of the answer, which predicts.
        record_: The content of its `result.json`.

    Examples:
        >>> import tf_transfer
        >>> texts = ["A dull film.", "A fair film.", "A great film."] * 100
        >>> labels = ["bad", "fair", "good"] * 100
        >>> search = tf_transfer.TextSearch("tiny", budget="2m")
        >>> search = search.fit(texts, labels)
        >>> "the probe" in search.table_["approach"].tolist()
        True
        >>> search.predict(["A great film."]).tolist()
        ['good']
    """

    folder_: str
    sentence_: str
    table_: pd.DataFrame

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

    _settings_class = Settings
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
            columns[GROUP_COLUMN] = examples.groups.tolist()
            parameters["group_column"] = GROUP_COLUMN
        table = os.path.join(out, "texts.jsonl")
        os.makedirs(out, exist_ok=True)
        files.write_atomically(
            table, table_files.write_table(columns, ".jsonl")
        )
        models, seed = parameters.pop("model"), parameters.pop("random_state")
        if not isinstance(models, str):
            parameters["models"] = ",".join(f'"{model}"' for model in models)
            models = models[0]
        settings = Settings(
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
        """Predicts the probability of each class; see `TextClassifier`."""
        model = self._load()
        # A table has its own order of labels.
        names = model.classes_.tolist()
        order = [
            names.index(normalize_cell(label))
            for label in self.classes_.tolist()
        ]
        return model.predict_proba(X)[:, order]
