"""Searches, rankings and estimators: what they make of their runs."""

import functools
import json
import os
import pathlib
import pickle

import numpy as np
import pytest

from tests.faults import run_scenarios
from tests.faults.points import Scenario
from tests.searches import fake_runs
from tests.support import own_data
from tf_transfer import TextClassifier, train
from tf_transfer.baselines import baseline_runs as baseline_runs, ranking
from tf_transfer.searches import (
    clock as clock_lib,
    controller as search_lib,
)
from tf_transfer.training import records, run_paths
from tf_transfer.utils import files
from tf_transfer.utils.errors import UserError

MODELS = ("first", "second")
FOLDS = 3


def read_json(root, name):
    path = pathlib.Path(root, name)
    return json.loads(path.read_text()) if path.exists() else None


def list_results(root):
    """The numbers of each finished run below a folder, by path."""
    results = {}
    for path in sorted(pathlib.Path(root).rglob("result.json")):
        if path.parent.name != records.EXTENSION:
            result = records.RunDirectory(str(path.parent), None).result()
            name = os.path.relpath(path.parent, root)
            results[name] = run_scenarios.without_times(result)
    return results


# === A search ===


def prepare_search(root):
    run_scenarios.prepare_other(root)
    fake_runs.write_task(pathlib.Path(root), count=120)


def search(root):
    """A whole search, whose runs are made up, apart from TF-IDF's."""
    settings = fake_runs.settings_of(
        os.path.join(root, "news.toml"),
        os.path.join(root, "out"),
        max_epochs=2,
        approaches="1",
        validation_fraction=0.4,  # too large for folds
        budget="99h",
    )
    with pytest.MonkeyPatch.context() as patch:
        fake_runs.put_in(patch, fake_runs.World())
        # Its thread would write at any time.
        patch.setattr(clock_lib, "SAVE_SECONDS", 1e6)
        one = search_lib.Search(settings, 0.0)
        try:
            one.run()
        finally:
            one.clock._is_over.set()


def read_search(root):
    """The run of the answer; a stopped search may train others of the rest."""
    path = os.path.join(root, "out")
    answer = run_paths.find_answer(path)
    if answer == path:
        return None
    name = os.path.relpath(answer, path)
    errors = records.RunDirectory(answer, None).errors()
    return name, list_results(path)[name], errors


# === A ranking of encoders ===


class Guess:
    """In place of the probe: its answers depend on the encoder alone."""

    chosen = None
    parameters = 3

    def __init__(self, model):
        self._shift = MODELS.index(model)

    def fit(self, texts):
        pass

    def logits(self, texts):
        return np.eye(3, dtype=np.float32)[
            (np.arange(len(texts)) + self._shift) % 3
        ]


def fit_probe(root, model):
    """The run of a probe, as `ProbeRunner` makes it."""
    settings = train.Settings(
        task=os.path.join(root, "news.toml"), features="tfidf"
    )
    experiment = train.Train(settings)
    data = experiment.data
    directory = records.RunDirectory(
        os.path.join(root, "runs", "train", model), {"model": model}
    )
    directory.check_key()
    if directory.result() is not None:
        return directory.path
    guess = Guess(model)

    record = baseline_runs.run(
        settings.resolve(),
        directory,
        data.task,
        guess,
        [baseline_runs.of_texts(data.examples[data.task.name])],
        0,
    )
    weights = {"w": np.full(4, MODELS.index(model), np.float32)}
    directory.keep_models([directory.write_model("probe", weights)])
    score = 0.5 + 0.1 * MODELS.index(model)
    directory.write_profile(
        {
            "metric": "accuracy",
            "texts": 1,
            "states": "cls",
            "fold_scores": [score + n / 100 for n in range(FOLDS)],
            "blocks_needed": 1,
            "blocks": [],
        }
    )
    sizes = {"seconds_per_text": 1.0, "size_on_disk": 1}
    directory.write_result({**record, "best_epoch": 1, **sizes})
    directory.close()
    return directory.path


def rank(root):
    ranked = ranking.rank_encoders(MODELS, functools.partial(fit_probe, root))
    path = os.path.join(root, "ranking.json")
    files.write_json(path, {"model": ranked.model, "text": ranked.text})


def read_ranking(root):
    return read_json(root, "ranking.json"), list_results(f"{root}/runs")


def names_what_is_left_out(result, before, expected):
    """An encoder whose files cannot be found is named, and not ranked."""
    ranked, _ = result
    return result == expected or "\nLeft out: " in (ranked or {}).get(
        "text", ""
    )


def leaves_ranking(result, before, expected):
    return is_part(result, before, expected) or names_what_is_left_out(
        result, before, expected
    )


# === An estimator ===


def fit_estimator(root):
    """Fits TF-IDF, pickles the estimator, and answers with the copy."""
    columns = own_data.news(30)
    estimator = TextClassifier(features="tfidf", out=os.path.join(root, "runs"))
    try:
        estimator.fit(columns["body"], columns["team"])
        path = os.path.join(root, "estimator.pickle")
        files.write_atomically(path, pickle.dumps(estimator))
        copy = pickle.loads(files.read_bytes(path))
        answers = copy.predict_proba(["the moon", "a bank"]).tolist()
    except ValueError as error:  # in place of a `UserError`
        raise UserError(str(error)) from None
    files.write_json(os.path.join(root, "answers.json"), answers)


def read_estimator(root):
    return read_json(root, "answers.json"), list_results(f"{root}/runs")


def is_part(result, before, expected):
    """Some runs may have a result already."""
    return all(
        part is None
        or part == one
        or (isinstance(part, dict) and part.items() <= one.items())
        for part, one in zip(result, expected)
    )


SCENARIOS = {
    "search and its runs": Scenario(
        prepare_search,
        search,
        read_search,
        ("out/*",),
        litters=True,
        share=97,
    ),
    "ranking": Scenario(
        lambda root: own_data.write_task(pathlib.Path(root)),
        rank,
        read_ranking,
        ("runs/*", "ranking.json*"),
        leaves=leaves_ranking,
        ends=names_what_is_left_out,
        litters=True,
    ),
    "estimator": Scenario(
        run_scenarios.prepare_other,
        fit_estimator,
        read_estimator,
        ("runs/train/*", "answers.json*", "estimator.pickle*"),
        leaves=is_part,
        litters=True,
    ),
}
