"""Goes through the points of a scenario: an operation and how it fails."""

import contextlib
import dataclasses
import fnmatch
import io
import os
import re
import signal
import subprocess
import traceback
from collections.abc import Callable
from typing import Any

import pytest

from tests.conftest import runs_slow
from tests.faults import disk as disk_lib
from tests.support.commands import ROOT
from tf_transfer.config import command_line
from tf_transfer.utils import files
from tf_transfer.utils.errors import UserError

HANGS = 600  # seconds after which a point, of milliseconds, is named
SHARE = 20  # one in so many points, where slow tests run


@dataclasses.dataclass
class Scenario:
    """What a command does to files, and what must come of it.

    Attributes:
        prepare: writes what there is before, into a folder.
        act: does it in the folder; again, it finishes what is unfinished.
        read: what has come of it, to be compared with `==`.
        own: patterns of the paths that it may change.
        leaves: whether a fault may leave, until all is done again, what has
            come of it: from that, what was before and what is at the end.
        ends: whether, after a fault that it has survived, what has come of it
            is right; as `leaves`.
        check: what is wrong in the folder at any time, in words.
        litters: whether it may leave temporary files when it is killed, where
            another process may write to the same folder.
        refusals: parts of the messages in which it may refuse to go on after
            a fault, with what to do.
        share: of its points, one in so many is tried: up to three, every
            operation fails in some way.
    """

    prepare: Callable[[str], None]
    act: Callable[[str], None]
    read: Callable[[str], Any]
    own: tuple[str, ...]
    leaves: Callable[[Any, Any, Any], bool] = lambda result, before, expected: (
        result in (before, expected)
    )
    ends: Callable[[Any, Any, Any], bool] = lambda result, before, expected: (
        result == expected
    )
    check: Callable[[str], str] = lambda root: ""
    litters: bool = False
    refusals: tuple[str, ...] = ()
    share: int = 1


@dataclasses.dataclass
class Point:
    """An operation of a scenario, and how it fails: `run:17:EIO`."""

    scenario: str
    number: int
    kind: str

    def __str__(self):
        return f"{self.scenario}:{self.number}:{self.kind}"


def choose(points, config):
    """The points of this session: all, one, or some, chosen by the commit.

    A twentieth is tried if slow tests run, else a fortieth.

    Args:
        points: of a trial.
        config: pytest's.
    """
    if config.getoption("--fault"):
        return [p for p in points if str(p) == config.getoption("--fault")]
    if config.getoption("--faults"):
        return points
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], capture_output=True, text=True, cwd=ROOT
    ).stdout
    share = SHARE if runs_slow(config) else 2 * SHARE
    return points[int(commit.strip() or "0", 16) % share :: share]


def _report_hang(number, frame):
    raise Hang


class Hang(BaseException):
    """Nothing has happened for long: the traceback shows where."""


class Unreadable(str):
    """Why a result cannot be read: nobody takes it for a number."""


class Trial:
    """A scenario in a folder, tried at point after point.

    Attributes:
        points: all of them.
    """

    def __init__(self, name, scenario, root):
        signal.signal(signal.SIGALRM, _report_hang)
        self.name, self.scenario, self.root = (
            name,
            scenario,
            os.path.realpath(root),
        )
        disk_lib.write_tree(self.root, {})
        scenario.prepare(self.root)
        self._before = disk_lib.read_tree(self.root)
        self._read_before = self._read()
        with disk_lib.Disk(self.root) as disk:
            end, said = self._act()
        assert end == "done", said
        self._expected = self._read()
        self._others = self._read_others()
        self.operations = disk.operations
        self.points = [
            Point(name, number, kind)
            for number, (operation, _) in enumerate(disk.operations, 1)
            for kind, fails in disk_lib.KINDS.items()
            if operation in fails
        ]
        # The end of the process loses what it has not synced.
        for kind in disk_lib.ENDS[1:]:
            self.points.append(Point(name, len(disk.operations) + 1, kind))
        self.points = self.points[:: scenario.share]

    def try_point(self, point):
        """What is wrong at a point, in words; "" for nothing."""
        disk_lib.write_tree(self.root, self._before)
        disk = disk_lib.Disk(self.root, point.number, point.kind)
        with disk:
            end, said = self._act()
        problem = ""
        if end not in ("done", "refused", "stopped", "ended"):
            problem = f"{end}: {said}"
        elif end == "done":
            result = self._read()
            if not self.scenario.ends(
                result, self._read_before, self._expected
            ):
                problem = f"ended as if all were well, with {result}"
        if "power" in point.kind:
            disk.cut_power()
        problem = problem or self._compare() or self._look()
        problem = problem or self._repeat()
        if not problem:
            return ""
        at = disk.operations[point.number - 1 : point.number]
        return f"{point} {at}: {problem}"

    def _compare(self):
        """What a fault has left that it may not."""
        result, scenario = self._read(), self.scenario
        if isinstance(result, Unreadable):
            return ""
        if scenario.leaves(result, self._read_before, self._expected):
            return ""
        return f"leaves {result}"

    def _repeat(self):
        """Does the scenario again; what is wrong with it."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "fsync", lambda descriptor: None)
            end, said = self._act()
        if end == "refused" and any(
            part in said for part in self.scenario.refusals
        ):
            return ""
        if end != "done":
            return f"done again, it {end}: {said}"
        result = self._read()
        if result != self._expected:
            return f"done again, it has another result: {result}"
        litter = [p for p in disk_lib.read_tree(self.root) if "tmp" in p]
        if litter and not self.scenario.litters:
            return f"done again, it leaves {litter}"
        return self._look()

    def _read(self):
        try:
            return self.scenario.read(self.root)
        except (UserError, OSError) as error:
            return Unreadable(str(error))

    def _act(self):
        """Acts as a command does; how it ended, and what it said."""
        files._sha256.cache_clear()  # as in a new process
        out, err = io.StringIO(), io.StringIO()
        end = "done"
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            signal.alarm(HANGS)
            try:
                command_line.exit_on_error(lambda: self.scenario.act(self.root))
            except SystemExit as stop:
                end = {1: "refused", 2: "refused", 130: "stopped"}[stop.code]
            except disk_lib.Ended:
                end = "ended"
            except BaseException:
                end = "has a traceback"
                traceback.print_exc()
            finally:
                signal.alarm(0)
        said = err.getvalue()
        if end == "refused":
            said = "\n" + said
            error = said[said.index("\nerror: ") + 1 :].strip()
            if len(error.splitlines()) > 2:
                end = "says more than two lines"
            # Where, what is wrong. What to do.
            elif not re.fullmatch(
                r"error: .+?[.:;]\s+\S.+\.(\n.+)?", error, re.DOTALL
            ):
                end = "does not say what to do"
            said = error
        return end, said

    def _read_others(self):
        """The files that the scenario may not change."""
        return {
            path: content
            for path, content in disk_lib.read_tree(self.root).items()
            if content is not None
            and not any(fnmatch.fnmatch(path, p) for p in self.scenario.own)
        }

    def _look(self):
        """What is wrong in the folder, whatever has happened."""
        others = self._read_others()
        changed = [
            path
            for path in {*others, *self._others}
            if others.get(path) != self._others.get(path)
        ]
        if changed:
            return f"changes {sorted(changed)}"
        return self.scenario.check(self.root)
