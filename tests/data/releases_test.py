"""TFDS's own parser over the same files gives the same examples."""

import functools
import os

import numpy as np
import pytest
import requests

from tests.data import glue_files
from tests.data.glue_files import (
    COMPLETE,
    open_source,
    QQP_WITH_BROKEN_ROWS,
    SHAPES,
    splits,
    write,
)
from tf_transfer.data import corpora, glue
from tf_transfer.utils import servers
from tf_transfer.utils.errors import UserError


def assert_same_examples(found, expected):
    assert found.texts == expected.texts
    if expected.labels is None:
        assert found.labels is None
    else:
        assert found.labels.dtype == expected.labels.dtype
        np.testing.assert_array_equal(found.labels, expected.labels)


@pytest.fixture
def tfds_over(monkeypatch, tmp_path):
    """Makes TFDS find a folder of official files as if it had fetched them.

    Everything else is TFDS's own: its parser, its records, its decoding.
    """
    import tensorflow_datasets as tfds

    def over(root):
        manager = tfds.download.DownloadManager
        monkeypatch.setattr(
            manager, "download_and_extract", lambda self, url: str(root)
        )
        monkeypatch.setattr(
            manager,
            "download",
            lambda self, urls: mrpc_sources(root, tmp_path / "mrpc"),
        )

    monkeypatch.setattr(
        tfds, "builder", functools.partial(tfds.builder, data_dir=tmp_path)
    )
    monkeypatch.setattr(  # each folder has its own
        corpora, "_find_release", corpora._find_release.__wrapped__
    )
    monkeypatch.setattr(servers, "find_problem", answers)
    return over


@pytest.fixture
def folder(tmp_path):
    """A folder of official files of our own."""
    return glue_files.copy_sample(tmp_path)


def answers(url):
    """A network in which every address that is one answers."""
    requests.Request("HEAD", url).prepare()


def mrpc_sources(root, folder):
    """What TFDS makes MRPC from: Microsoft's files, and which rows are dev."""
    os.makedirs(folder)
    official = os.path.join(root, "MRPC")
    lines = {}
    for split in ("train", "dev"):
        with open(os.path.join(official, f"{split}.tsv"), "rb") as file:
            lines[split] = file.read().splitlines(keepends=True)
    ids = [line.split(b"\t")[1:3] for line in lines["dev"][1:]]
    content = {
        "train": b"".join(lines["train"] + lines["dev"][1:]),
        "dev_ids": b"".join(b"\t".join(pair) + b"\n" for pair in ids),
    }
    for name, data in content.items():
        (folder / name).write_bytes(data)
    return {
        "train": str(folder / "train"),
        "dev_ids": str(folder / "dev_ids"),
        "test": os.path.join(official, "test.tsv"),
    }


# === The same examples ===


@pytest.mark.parametrize("task", SHAPES)
def test_tfds_gives_what_the_folder_gives(tfds_over, task):
    tfds_over(glue.SAMPLE)
    source = open_source(task, "tfds")
    assert source.identity == f"tfds glue/{task}/2.0.0"
    expected = open_source(task, "sample")
    for split in splits(task):
        assert_same_examples(source.read(split), expected.read(split))


def test_tfds_leaves_out_the_broken_rows_of_qqp_too(tfds_over, folder):
    write(folder, "qqp", QQP_WITH_BROKEN_ROWS)
    tfds_over(folder)
    found = open_source("qqp", "tfds").read("train")
    assert_same_examples(found, open_source("qqp", folder).read("train"))


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.parametrize(
    "task",
    sorted(COMPLETE.keys() - {"sst2"}),  # its 67,349 rows take minutes
)
def test_tfds_gives_what_the_real_folder_gives(tfds_over, shared_data, task):
    root = os.path.join(shared_data, "glue")
    tfds_over(root)
    source, expected = open_source(task, "tfds"), open_source(task, root)
    for split in splits(task):
        assert_same_examples(source.read(split), expected.read(split))


# === Without a network ===


@pytest.mark.parametrize("task", ["rte", "mrpc"])
def test_tfds_without_a_network_says_what_to_do(tfds_over, monkeypatch, task):
    monkeypatch.setattr(servers, "find_problem", lambda url: "ConnectionError")
    source = open_source(task, "tfds")
    with pytest.raises(UserError) as error:
        source.read("train")
    for words in ("https://", "(ConnectionError)", "--data=sample"):
        assert words in str(error.value)


def test_a_download_that_fails_is_a_line_and_no_traceback(
    tfds_over, monkeypatch
):
    import tensorflow_datasets as tfds

    def fail(self, url):
        raise ConnectionResetError("the line went dead")

    monkeypatch.setattr(
        tfds.download.DownloadManager, "download_and_extract", fail
    )
    with pytest.raises(UserError, match="could not prepare glue/rte .the line"):
        open_source("rte", "tfds").read("train")
