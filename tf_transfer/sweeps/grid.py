"""A grid file and the runs it stands for. Needs no TensorFlow.

    {"experiment": "glue",
     "flagfile": "flags/glue/wang.flags",
     "flags": {"batch_size": 16},
     "axes": [{"task": ["rte", "mrpc"], "trainable_layers": ["all"],
               "lr": [2e-5], "seed": [0, 1]},
              {"task": ["rte", "mrpc"], "trainable_layers": [4],
               "lr": [2e-5, 1e-3], "seed": [0, 1]}]}

stands for every combination of the axes' values, for each of the objects in
`axes`; one object needs no list. The experiment may be a module of your own,
such as `my_paper`.

With `"best_of": "lr"` and a key `search`, of the same form as `axes`, the runs
of `search` are done first. Of the runs of `axes`, those at the rate follow that
is best on validation. Each combination of the other axes that `search` varies,
`seed` apart, has its own best rate.

A paper's folder has the list of its grids: `grids` in `claims.toml`.
"""

import collections
import dataclasses
import functools
import itertools
import json
import math
import os
import tomllib
from typing import Annotated, Any

import msgspec

from tf_transfer import experiment as experiment_lib
from tf_transfer.config import command_line, settings as settings_lib
from tf_transfer.training import records
from tf_transfer.utils import files
from tf_transfer.utils.errors import UserError
from tf_transfer.utils.formatting import cut, quote_command
from tf_transfer.utils.json_files import hash_json, Record

MOST_RUNS = 100_000  # of a grid that is expanded without --yes
LONGEST_NAME, SHORT_NAME = 200, 40  # bytes, and letters of a longer one
Axes = Record | list[Record]


class Content(msgspec.Struct, forbid_unknown_fields=True):
    """The keys of a grid file; the module's docstring explains them."""

    experiment: str
    flagfile: str = ""
    flags: Record = {}
    axes: Axes = []
    search: Axes = []
    best_of: str = ""
    folder: Annotated[str, msgspec.Meta(pattern=r"^\w*$")] = ""


@dataclasses.dataclass(frozen=True)
class Planned:
    """A run of a grid.

    Attributes:
        experiment: the experiment, with this run's settings.
        words: the flags of the run's command.
        axes: dict from each axis to this run's value, as text.
        path: of the grid file.
        folder: below the sweep's `--out`, in which its directory is.
        searched: the axis whose best value the search of `group` decides;
            empty for a run that waits for no search.
        group: the runs that a search compares, and those that wait for it.
    """

    experiment: experiment_lib.Experiment
    words: tuple[str, ...]
    axes: dict[str, str]
    path: str = ""
    folder: str = ""
    searched: str = ""
    group: tuple[str, ...] = ()

    @functools.cached_property
    def directory(self) -> records.RunDirectory:
        """The run's directory, which may not exist yet.

        Raises:
            UserError: its model or data is not there.
        """
        return self.experiment.find_run(_count_replicas(self.settings))

    @property
    def settings(self) -> settings_lib.Settings:
        """The resolved settings."""
        return self.experiment.settings

    @functools.cached_property
    def name(self) -> str:
        """The run's path below the sweep's `--out`, as a single word."""
        path = os.path.relpath(self.directory.path, self.settings.out)
        name = os.path.join(self.folder, path).replace(os.sep, "~")
        if len(name.encode()) > LONGEST_NAME:  # no file can have it
            name = f"{name[:SHORT_NAME]}-{hash_json(name)[:10]}"
        return name

    @functools.cached_property
    def identity(self) -> str:
        """Its settings as text: it needs neither the model nor the data."""
        settings: Any = self.settings
        values = settings_lib.Settings.hashed(settings)  # of no table's content
        task = getattr(settings, "task", "")
        sources = settings.out, settings.model, settings.data, task
        return f"{self.experiment.name} {sources} {values}"

    @property
    def label(self) -> str:
        """Its axes as text: they distinguish it from the other runs."""
        return " ".join(f"{name}={value}" for name, value in self.axes.items())

    @property
    def command(self) -> list[str]:
        """The command that does this run alone."""
        return ["python", "-m", self.experiment.command_module, *self.words]


# === Reading ===


def read_grid(path: str) -> Record:
    """Returns the checked content of a grid file.

    Raises:
        UserError: the message names the file, and the line or the entry.
    """
    try:
        grid = json.loads(files.read_bytes(path))
    except json.JSONDecodeError as error:
        raise UserError(
            f"{path}, line {error.lineno}: is not JSON: {error.msg}."
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or f"is not JSON ({error})"
        raise UserError(
            f"{path}: {reason}. Give a grid such as "
            "experiments/glue/embedded.json."
        ) from None
    _check(path, grid)
    return grid


def _check(path: str, grid: Any) -> None:
    """Raises `UserError` for a file that is no grid."""

    def check(is_right: bool, key: str, reason: str) -> None:
        if not is_right:
            raise UserError(f"{path}: {key}: {reason}")

    try:
        msgspec.convert(grid, Content)
    except msgspec.ValidationError as error:
        keys = ", ".join(Content.__struct_fields__)
        raise UserError(
            f"{path}: {cut(str(error))}. A grid is a JSON object with {keys}; "
            "`experiment` must be there."
        ) from None
    flags = grid.get("flags", {})
    axes = [pair for _, block in _list_blocks(grid) for pair in block.items()]
    names = [name for name, _ in axes]
    words = "python", "-m", "tf_transfer.sweep", path, "--out=..."
    for name in ("out", "rerun"):
        check(
            name not in (*flags, *names),
            name,
            "belongs to the sweep, not to its grid: " + quote_command(*words),
        )
    if best_of := grid.get("best_of", ""):
        is_axis = all(best_of in block for _, block in _list_blocks(grid))
        check(is_axis, "best_of", "give the name of an axis of every object.")
    for key, values in (
        ("flagfile", [grid.get("flagfile", "")]),
        *((f"flags.{name}", [value]) for name, value in flags.items()),
        *((f"axes.{name}", values) for name, values in axes),
    ):
        is_list = isinstance(values, list) and bool(values)
        check(is_list, key, "give a list of the flag's values.")
        for value in values:
            check(
                isinstance(value, (str, int, float)),
                key,
                f"{cut(json.dumps(value))} is no flag's value. Give a text, a "
                "number, true or false.",
            )
            check("\0" not in str(value), key, "holds a NUL character.")


def _list_blocks(grid: Record) -> list[tuple[bool, Record]]:
    """The objects of axes; each with whether it is the search's."""
    blocks: list[tuple[bool, Record]] = []
    for key in ("search", "axes"):
        content = grid.get(key, [])
        for axes in content if isinstance(content, list) else [content]:
            blocks.append((key == "search", axes))
    return blocks or [(False, {})]


def list_files(path: str) -> list[str]:
    """The grid files of a path: the file itself, or those of a paper's folder.

    Raises:
        UserError: the folder has no list of its grids.
    """
    if not os.path.isdir(path):
        return [path]
    claims = os.path.join(path, "claims.toml")
    try:
        content = tomllib.loads(files.read_bytes(claims).decode())
        return [os.path.join(path, name) for name in content["grids"]]
    except (OSError, ValueError, KeyError, TypeError):
        raise UserError(
            f"{path}: is a folder without a claims.toml that lists its "
            '`grids`. Give a grid file, such as "experiments/glue/grid.json".'
        ) from None


# === The runs ===


def expand_all(
    path: str,
    out: str,
    cache_dir: str = "",
    most_runs: float = MOST_RUNS,
) -> list[Planned]:
    """Returns the runs of a grid file or of a paper's folder, each once.

    Args:
        path: of the file or the folder.
        out, cache_dir, most_runs: see `expand`.

    Raises:
        UserError: see `read_grid`, `list_files` and `expand`.
    """
    runs: dict[str, Planned] = {}
    for name in list_files(path):
        grid = read_grid(name)
        expand(name, grid, out, cache_dir, most_runs, runs)
    return list(runs.values())


def expand(
    path: str,
    grid: Record,
    out: str,
    cache_dir: str = "",
    most_runs: float = MOST_RUNS,
    runs: dict[str, Planned] | None = None,
) -> list[Planned]:
    """Returns the runs of a grid, each once; those of its search come first.

    Neither models nor data need to be there.

    Args:
        path: of the grid file, for messages.
        grid: its content, as `read_grid` returns it.
        out: root of the run directories.
        cache_dir: folder of the feature cache; empty for the runs' default.
        most_runs: a larger grid is refused before it is expanded.
        runs: those of other grids; gets those of this one.

    Raises:
        UserError: too many runs, an experiment, flag or value that does not
            exist, settings that exclude each other.
    """
    try:
        experiment_class = experiment_lib.load(grid["experiment"])
    except UserError as error:
        raise UserError(f"{path}: experiment: {error}") from None
    blocks = _list_blocks(grid)
    count = sum(math.prod(map(len, axes.values())) for _, axes in blocks)
    if count > most_runs:
        raise UserError(
            f"{path}: has {count:,} combinations of its axes. Give --yes if "
            "you want all of them."
        )
    folder = grid.get("folder", "")
    fixed = {"out": out, **grid.get("flags", {})}
    if folder:
        fixed["out"] = os.path.join(out, folder)
    if cache_dir:
        fixed["cache_dir"] = cache_dir
    if grid.get("flagfile"):
        fixed = {"flagfile": grid["flagfile"], **fixed}
    points = [
        (is_search, dict(zip(axes, values)))
        for is_search, axes in blocks
        for values in itertools.product(*axes.values())
    ]
    best_of = grid.get("best_of", "")
    # Each combination of what a search varies has its own best value.
    varied = collections.defaultdict(set)
    for is_search, point in points:
        for name, value in point.items():
            if is_search and name not in (best_of, "seed"):
                varied[name].add(value)
    runs = {} if runs is None else runs
    for is_search, point in points:
        flags = {n: show_value(v) for n, v in {**fixed, **point}.items()}
        words = [f"--{name}={value}" for name, value in flags.items()]
        try:
            experiment = experiment_class(
                command_line.parse(experiment_class.Settings, words)
            )
        except UserError as error:
            raise UserError(f"{path}: {error}") from None
        group = [flags.get(n, "") for n in varied if len(varied[n]) > 1]
        run = Planned(
            experiment,
            tuple(words),
            {name: flags[name] for name in point},
            path,
            folder,
            "" if is_search else best_of,
            (path, *group),
        )
        _check_equal(path, runs.setdefault(run.identity, run), run)
    groups = {run.group for run in runs.values() if not run.searched}
    for run in runs.values():
        if run.group not in groups:
            raise UserError(f"{path}: search: has no runs for {run.label}.")
    return list(runs.values())


def _check_equal(path: str, run: Planned, other: Planned) -> None:
    """Raises `UserError` where two points are one run, but not as long.

    A flag that is not part of a run's name cannot be an axis. That is
    --max_epochs under a constant rate, where more epochs extend a run.
    """
    epochs, others = run.settings.max_epochs, other.settings.max_epochs
    if epochs != others:
        raise UserError(
            f"{path}: max_epochs: {epochs} and {others} are the same run, as "
            "this flag is not part of its name. Give it one value, or give "
            "the longer runs a grid with a `folder` of their own."
        )


def show_value(value: Any) -> str:
    """The value of a flag, as a command has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _count_replicas(settings: settings_lib.Settings) -> int:
    is_alone = settings.strategy in ("default", "one_device")
    if is_alone or not settings.trains:
        return 1
    from tf_transfer.training import strategy  # imports TensorFlow

    return strategy.count_replicas(settings.strategy, settings.cpu_devices)
