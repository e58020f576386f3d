"""One process with TensorFlow loaded, that forks one for each case.

For what needs a process of its own: it is killed, gets a signal, or sets up
devices. Importing TensorFlow takes seconds, a fork milliseconds.
"""

import contextlib
import importlib
import json
import os
import pathlib
import runpy
import subprocess
import sys
import time
import traceback

from tf_transfer.config import command_line

ROOT = str(pathlib.Path(__file__).absolute().parents[2])
START = "from tests.support import forks; forks.serve({loads})"

# What a command that trains nothing does without.
LARGE = {
    "keras",
    "keras_hub",
    "matplotlib",
    "pandas",
    "scipy",
    "sklearn",
    "tensorflow",
}


class Case:
    """A forked process.

    Attributes:
        pid: for signals.
    """

    def __init__(self, server, pid, path):
        self.pid = pid
        self._server = server
        self._path = path

    def output(self, kind="out"):
        """What it has printed so far; nothing before it has begun."""
        try:
            with open(f"{self._path}.{kind}", encoding="utf-8") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def wait_for(self, text, count=1):
        """Waits until it has printed a text so many times."""
        for _ in range(6000):
            if self.output().count(text) >= count:
                return
            time.sleep(0.02)
        raise AssertionError(self.output() + self.output("err"))

    def finish(self):
        """Waits for its end; the exit code (-9 if killed), stdout, stderr."""
        code = self._server.ask({"pid": self.pid})
        return code, self.output(), self.output("err")

    def loaded(self):
        """Which large libraries had been loaded at its end."""
        return self.output("loaded").split()

    def results(self):
        """Waits for its end; what it says in lines of RESULT."""
        code, out, err = self.finish()
        assert code == 0, out + err
        return [
            json.loads(line.removeprefix("RESULT"))
            for line in out.splitlines()
            if line.startswith("RESULT")
        ]


class Forks:
    """The server; `with` ends it.

    Args:
        loads: whether TensorFlow is loaded before any fork.
    """

    def __init__(self, loads=True):
        self._process = subprocess.Popen(
            [sys.executable, "-c", START.format(loads=loads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self._process.stdin.close()
        self._process.wait()

    def ask(self, order):
        """Sends an order; its answer."""
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def start(self, function, *arguments, folder, environment=None):
        """Starts `function(*arguments)` in a fork.

        Args:
            function: of a module that can be imported.
            arguments: as JSON can carry them.
            folder: where its output is kept.
            environment: dict of changes.
        """
        path = os.path.join(folder, f"case-{time.monotonic_ns()}")
        pid = self.ask(
            {
                "function": [function.__module__, function.__qualname__],
                "arguments": arguments,
                "path": path,
                "environment": environment or {},
            }
        )
        return Case(self, pid, path)


def run_command(module, *words):
    """Runs a command as `python -m` does; a `tiny` has one block."""
    if "tensorflow" in sys.modules:
        importlib.import_module("tf_transfer.models.tiny").BLOCKS = 1
    sys.argv = [f"{module}.py", *words]
    runpy.run_module(
        f"tf_transfer.{module}", run_name="__main__", alter_sys=True
    )


# === In the server ===


def serve(loads):
    """Answers orders, a line each, until there are no more."""
    importlib.import_module("numpy")
    if loads:
        command_line.import_tensorflow()
        importlib.import_module("tf_transfer.training.trainer")
    for line in sys.stdin:
        order = json.loads(line)
        if "pid" in order:
            _, status = os.waitpid(order["pid"], 0)
            answer = os.waitstatus_to_exitcode(status)
        else:
            answer = os.fork()
            if not answer:
                _run(order)
        print(json.dumps(answer), flush=True)


def _run(order):
    """Is the forked process; never returns."""
    flags = os.O_WRONLY | os.O_CREAT
    for number, kind in enumerate(("out", "err"), 1):
        os.dup2(os.open(f"{order['path']}.{kind}", flags), number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.environ.update(order["environment"])
    code = 1
    module, name = order["function"]
    try:
        getattr(importlib.import_module(module), name)(*order["arguments"])
        code = 0
    except SystemExit as end:
        code = end.code or 0
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
            with open(f"{order['path']}.loaded", "w") as file:
                file.write(" ".join(sorted(LARGE & set(sys.modules))))
        os._exit(code)
