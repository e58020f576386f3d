"""Runs tests on a module as it is, with coverage, and on its mutants.

Each time in a fork of a process that has imported what the tests need: for a
changed function, also the tests and this package; for code that is executed by
an import, the large libraries alone.
"""

import contextlib
import importlib.machinery
import importlib.util
import inspect
import json
import os
import pathlib
import signal
import sys
import time
import types

import coverage
import pytest

from tests.mutants import mutations

ROOT = pathlib.Path(__file__).parents[2]
PACKAGE = ROOT / "tf_transfer"
OWN = ("tf_transfer", "tests", "benchmarks")
PASSES, CANNOT_CHANGE = 0, 99  # exit codes


def import_libraries(names):
    """Imports what the tests import, apart from this project."""
    for name in names:
        if name.split(".")[0] not in OWN and name not in sys.modules:
            with contextlib.suppress(Exception):
                importlib.import_module(name)


class _Observer:
    """A plugin of pytest: durations, and which test executes a line.

    A fixture that tests share counts for all tests of the file.
    """

    def __init__(self, measured):
        self.durations = {}
        self._measured = measured

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item):
        self._measured.switch_context(item.nodeid)
        try:
            return (yield)
        finally:
            self._measured.switch_context("")

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef, request):
        is_shared = fixturedef.scope != "function"
        if is_shared:
            file = request.node.nodeid.split("::")[0]
            self._measured.switch_context(file)
        try:
            return (yield)
        finally:
            if is_shared:
                self._measured.switch_context(request._pyfuncitem.nodeid)

    def pytest_runtest_logreport(self, report):
        spent = self.durations.get(report.nodeid, 0.0) + report.duration
        self.durations[report.nodeid] = spent


class _Selection:
    """A plugin of pytest: of the tests in some files, those that are named."""

    def __init__(self, names):
        self._names = names

    def pytest_collection_modifyitems(self, items):
        items[:] = [item for item in items if item.nodeid in self._names]


class _Loop:
    """A plugin of pytest: runs tests once for each change of a function.

    Args:
        name: of the module.
        changes: by number, the name of the function, the code of the changed
            module, and the tests.
        durations: dict from a test to its seconds without a change.
        folder: for temporary files.

    Attributes:
        path: of a file with a number and an exit code in each line.
    """

    def __init__(self, name, changes, durations, folder):
        self.path = os.path.join(folder, "codes")
        self._name = name
        self._changes = changes
        self._durations = durations
        self._folder = folder

    def pytest_runtestloop(self, session):
        with open(self.path, "w", encoding="utf-8") as file:
            for number, (owner, code, tests) in self._changes.items():
                items = [i for i in session.items if i.nodeid in tests]

                def run(owner=owner, code=code, items=items):
                    return self._run(session, items, owner, code)

                print(number, _fork(run, self._folder, 3600), file=file)
                file.flush()
        return True

    def _run(self, session, items, owner, code):
        try:
            _replace_code(sys.modules[self._name], owner, code)
        except (KeyError, AttributeError, StopIteration, ValueError):
            return CANNOT_CHANGE
        for item, following in zip(items, [*items[1:], None]):
            # Ends the process: what takes so long is an endless loop.
            signal.alarm(60 + int(10 * self._durations[item.nodeid]))
            session.config.hook.pytest_runtest_protocol(
                item=item, nextitem=following
            )
            if session.testsfailed:
                return 1
        return PASSES


def _replace_code(module, owner, code):
    """Gives a function of a module its code in the changed module."""
    found = module
    for name in owner.split("."):
        found = vars(found)[name]
    function = inspect.unwrap(getattr(found, "fget", found))
    old = function.__code__
    function.__code__ = next(
        new
        for new in _list_codes(code)
        if (new.co_name, new.co_firstlineno)
        == (old.co_name, old.co_firstlineno)
    )


def _list_codes(code):
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield constant
            yield from _list_codes(constant)


class _Finder(importlib.machinery.SourceFileLoader):
    """Imports a module from given code."""

    def __init__(self, name, path, code):
        super().__init__(name, path)
        self._code = code

    def find_spec(self, name, path, target=None):
        if name != self.name:
            return None
        return importlib.util.spec_from_file_location(
            name, self.path, loader=self
        )

    def get_code(self, fullname):
        return self._code


class Room:
    """Modules with the tests that are for them.

    Args:
        modules: paths below the package.
        tests: files and folders below the project.
        folder: for temporary files.

    Attributes:
        reports: dict from the module to coverage's numbers.
    """

    def __init__(self, modules, tests, folder):
        self.modules = modules
        self._folder = folder
        where = [os.path.join(folder, n) for n in ("coverage", "tests.json")]
        code = _fork(lambda: self._observe(tests, *where), folder, 3600)
        if code != PASSES:
            raise SystemExit(f"{' '.join(tests)}: {self.read_output()}")
        self._measured = coverage.Coverage(where[0], branch=True)
        self._measured.load()
        with open(where[1], encoding="utf-8") as file:
            self._durations, libraries = json.load(file)
        import_libraries(libraries)
        report = os.path.join(folder, "report.json")
        self._measured.json_report(outfile=report)
        with open(report, encoding="utf-8") as file:
            files = json.load(file)["files"]
        self.reports = {
            module: next(files[f] for f in files if f.endswith(module))
            for module in modules
        }

    def read_output(self):
        """The end of what the last process printed."""
        path = os.path.join(self._folder, "output")
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()[-2000:]

    def _observe(self, tests, data, durations):
        measured = coverage.Coverage(
            data,
            branch=True,
            include=[str(PACKAGE / module) for module in self.modules],
        )
        observer = _Observer(measured)
        measured.start()
        code = _run(tests, [observer], self._folder)
        measured.stop()
        measured.save()
        with open(durations, "w", encoding="utf-8") as file:
            json.dump([observer.durations, [*sys.modules]], file)
        return code

    def _choose(self, module, lines):
        """The tests that execute any of some lines."""
        data = self._measured.get_data()
        contexts = data.contexts_by_lineno(str(PACKAGE / module))
        chosen = set().union(*(contexts.get(line, ()) for line in lines))
        return {
            test
            for test in self._durations
            if chosen & {test, test.split("::")[0]}
        }

    def find_survivors(self, module, mutants):
        """The mutants that pass the tests that execute them.

        Args:
            module: its path below the package.
            mutants: of the module; without a number, it is not changed.
        """
        source = (PACKAGE / module).read_text(encoding="utf-8")
        name = f"tf_transfer.{module.removesuffix('.py').replace('/', '.')}"
        codes, changes = {}, {}
        for index, mutant in enumerate(mutants):
            tree = mutations.make_mutant(source, mutant.number)
            code = compile(tree, PACKAGE / module, "exec")
            tests = {*self._durations}  # of code that an import executes
            if mutant.owner:
                tests = self._choose(module, mutant.lines)
            if not tests:
                codes[index] = PASSES
            elif mutant.owner:
                changes[index] = mutant.owner, code, tests
            else:
                codes[index] = self._run_fresh(name, module, code, tests)
        if changes:
            loop = _Loop(name, changes, self._durations, self._folder)
            tests = set().union(*(tests for _, _, tests in changes.values()))
            _fork(lambda: self._run_tests(tests, loop), self._folder, 36000)
            with open(loop.path, encoding="utf-8") as file:
                codes.update(tuple(map(int, line.split())) for line in file)
        for index in changes:
            if codes[index] == CANNOT_CHANGE:
                codes[index] = self._run_fresh(
                    name, module, *changes[index][1:]
                )
        return [m for n, m in enumerate(mutants) if codes[n] == PASSES]

    def _run_fresh(self, name, module, code, tests):
        """The exit code of tests that import a changed module."""
        limit = 20 + 10 * sum(self._durations[test] for test in tests)

        def run():
            path = str(PACKAGE / module)
            sys.meta_path.insert(0, _Finder(name, path, code))
            return self._run_tests(tests)

        return _fork(run, self._folder, limit)

    def _run_tests(self, tests, *plugins):
        """Runs tests; files that take less time are the first."""
        seconds = {}
        for test in tests:
            file = test.split("::")[0]
            seconds[file] = seconds.get(file, 0.0) + self._durations[test]
        files = sorted(seconds, key=seconds.get)
        return _run(files, [_Selection(tests), *plugins], self._folder)


def _run(tests, plugins, folder):
    words = ["-x", "-q", "-p", "no:xdist", "-p", "no:cacheprovider"]
    words += ["-o", "addopts=", "--rootdir", str(ROOT)]
    words += ["--basetemp", os.path.join(folder, "tests")]
    return int(pytest.main([*words, *tests], plugins=plugins))


def _fork(function, folder, seconds):
    """The exit code of a function in a process that may take so long."""
    process = os.fork()
    if not process:
        code = 1
        try:
            os.setsid()
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
            output = os.open(os.path.join(folder, "output"), flags)
            for descriptor in (1, 2):
                os.dup2(output, descriptor)
            code = function()
        finally:
            sys.stdout.flush()
            os._exit(code)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(process, os.WNOHANG)
        if done:
            break
        time.sleep(0.02)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process, signal.SIGKILL)
    if not done:
        _, status = os.waitpid(process, 0)
    return os.waitstatus_to_exitcode(status)
