"""Runs of some seconds, to be killed and starved of disk."""

import os
import pathlib

import pytest

from tests.conftest import running_eagerly, tiny_settings
from tests.training import resume_test
from tf_transfer.config import command_line


def settings_in(folder, cached):
    """Of a run of some seconds, all of whose files are in the folder."""
    changes = {"frozen_prefix": "cached"} if cached else {}
    return tiny_settings(
        os.path.join(folder, "runs"),
        **resume_test.SETTINGS,
        **changes,
        cache_dir=os.path.join(folder, "cache"),
    )


def train(folder, cached):
    """Does what the command does, eagerly and on one block."""
    from tf_transfer.glue import experiment as glue
    from tf_transfer.models import tiny
    from tf_transfer.training import steps

    tiny.BLOCKS = 1
    steps.LONGEST_CHUNK = 1  # so that a kill can fall inside an epoch
    with pytest.MonkeyPatch.context() as patch, running_eagerly(patch):
        command_line.exit_on_error(
            lambda: glue.run(settings_in(folder, cached))
        )


def run_folder(folder):
    [path] = pathlib.Path(folder, "runs").glob("glue/*/*/*")
    return path


def assert_two_lines(code, out, err):
    assert code in (1, 2), (code, out, err)
    [error] = [x for x in err.splitlines() if x.startswith("error: ")]
    after = err.splitlines()[err.splitlines().index(error) :]
    assert len(after) <= 2 and "Traceback" not in out + err, err


def assert_same_numbers(folder, expected):
    left = resume_test.what_a_run_left(run_folder(folder))
    resume_test.assert_same(left, expected)
    litter = [p for p in pathlib.Path(folder).rglob("*") if ".tmp-" in p.name]
    assert not litter
