"""Shared by all tests: tiny runs, offline, in a few seconds."""

import dataclasses
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

import pytest

SHARED = os.path.join(
    os.path.dirname(__file__), os.pardir, os.pardir, "shared", "data"
)


def pytest_addoption(parser):
    parser.addoption("--run_slow", action="store_true", help="run slow tests")


def pytest_collection_modifyitems(config, items):
    slow = pytest.mark.skip(reason="slow: give --run_slow")
    shared = pytest.mark.skip(reason="needs the data beside the checkout")
    for item in items:
        if "slow" in item.keywords and not config.getoption("--run_slow"):
            item.add_marker(slow)
        if "shared" in item.keywords and not os.path.isdir(SHARED):
            item.add_marker(shared)


@pytest.fixture
def shared_data():
    """Folder of the real data sets."""
    return SHARED


@pytest.fixture(autouse=True)
def no_user_cache(monkeypatch, tmp_path):
    """No test reads or writes the user's cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def tiny_settings(out, **changes):
    """GLUE settings of a run that takes seconds."""
    from tf_transfer import glue

    settings = glue.GlueSettings(
        task="rte",
        data="sample",
        model="tiny",
        batch_size=8,
        max_epochs=2,
        max_length=32,
        lr=1e-3,
        out=str(out),
    )
    return dataclasses.replace(settings, **changes)


@pytest.fixture
def tiny_run(tmp_path):
    """Runs GLUE on `tiny` and `sample`; returns the result and its folder."""
    from tf_transfer import glue

    def run(**changes):
        settings = tiny_settings(
            changes.pop("out", tmp_path / "runs"), **changes
        )
        return glue.run(settings), run_folder(settings)

    return run


def run_folder(settings):
    """The newest run directory of these settings' task and approach."""
    parent = os.path.join(
        settings.out, "glue", settings.task, settings.approach
    )
    folders = [os.path.join(parent, name) for name in os.listdir(parent)]
    return max(folders, key=lambda f: os.stat(f).st_mtime_ns)


@pytest.fixture
def one_block(monkeypatch):
    """A smaller `tiny`: most of the time of a run goes into tracing it."""
    from tf_transfer.models import tiny

    monkeypatch.setattr(tiny, "BLOCKS", 1)
