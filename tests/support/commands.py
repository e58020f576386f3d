"""Runs the package's commands: in a process of their own, or in this one."""

import contextlib
import json
import pathlib
import subprocess
import sys

from absl import flags

from tf_transfer.config import command_line
from tf_transfer.glue import experiment as glue

ROOT = str(pathlib.Path(__file__).absolute().parents[2])


def start(module, *arguments):
    """Starts `python -m tf_transfer.<module>` from the repository root."""
    return subprocess.Popen(
        [sys.executable, "-m", f"tf_transfer.{module}", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )


def finish(process):
    """Waits for a process; returns its exit code, stdout and stderr."""
    out, err = process.communicate()
    return process.returncode, out, err


def results_of(program, *arguments):
    """Runs a Python program to its end; what it says in lines of RESULT."""
    output = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    ).stdout
    return [
        json.loads(line.removeprefix("RESULT"))
        for line in output.splitlines()
        if line.startswith("RESULT")
    ]


def define_glue():
    """Defines the flags of `tf_transfer.glue`."""
    command_line.define_flags(glue.Settings, "glue")


def run_glue():
    """Does what `python -m tf_transfer.glue` does once its flags are read."""
    execute(glue.Glue)


def execute(cls):
    """Does what the command of an experiment does once its flags are read."""
    cls(command_line.from_flags(cls.Settings)).execute()


@contextlib.contextmanager
def flags_of(define, *arguments):
    """Inside, a command's flags are defined, with these arguments parsed.

    `define` is a class of settings, or a function that defines the flags.
    """
    before = set(flags.FLAGS)
    if isinstance(define, type):
        command_line.define_flags(define, "command")
    else:
        define()
    try:
        flags.FLAGS(["command", *arguments])
        yield
    finally:
        for name in set(flags.FLAGS) - before:
            delattr(flags.FLAGS, name)


def call(main, define, *arguments):
    """Runs a command in this process, as its module does; its exit code."""
    with flags_of(define, *arguments):
        try:
            command_line.exit_on_error(main)
        except SystemExit as end:
            return end.code
    return 0
