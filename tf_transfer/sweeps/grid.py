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

import dataclasses
import functools
import itertools
import json
import math
import os
import tomllib
from collections.abc import Iterable, Iterator
from typing import Annotated

import msgspec

from tf_transfer import experiment as experiment_lib
from tf_transfer.config import command_line, settings as settings_lib
from tf_transfer.runs.task_settings import RunSettings
from tf_transfer.training import records
from tf_transfer.utils import files
from tf_transfer.utils.errors import UserError
from tf_transfer.utils.formatting import cut, quote_command
from tf_transfer.utils.json_files import hash_json, Record

MOST_RUNS = 100_000  # of a grid that is expanded without --yes
LONGEST_NAME, SHORT_NAME = 200, 40  # bytes, and letters of a longer one
# Settings that no key of a run has: it has the content of what they name.
SOURCES = (
    *("out", "model", "data", "task", "tasks"),
    *("text_column", "label_column", "id_column", "encoding"),
    *("test_ids", "row_order"),
)
Value = str | bool | int | float  # of a flag
Values = Annotated[list[Value], msgspec.Meta(min_length=1)]
Axes = dict[str, Values]


class Grid(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of a grid file; the module's docstring explains its keys."""

    experiment: str
    flagfile: str = ""
    flags: dict[str, Value] = {}
    axes: Axes | list[Axes] = {}
    search: Axes | list[Axes] = []
    best_of: str = ""
    folder: Annotated[str, msgspec.Meta(pattern=r"^\w*$")] = ""


@dataclasses.dataclass(frozen=True)
class Planned:
    """A run of a grid.

    Attributes:
        experiment: The experiment, with this run's settings.
        words: The flags of the run's command.
        axes: Dict from each axis to this run's value, as text.
        path: Of the grid file.
        folder: Below the sweep's `--out`, in which its directory is.
        searched: The axis whose best value the search of `group` decides;
            empty for a run that waits for no search.
        group: The runs that a search compares, and those that wait for it.
    """

    experiment: experiment_lib.Experiment[RunSettings]
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
            UserError: Its model or data is not there.
        """
        return self.experiment.find_run(_count_replicas(self.settings))

    @property
    def settings(self) -> RunSettings:
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
        settings = self.settings
        values = settings_lib.Settings.hashed(settings)  # of no table's content
        sources = [getattr(settings, name, "") for name in SOURCES]
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


def read_grid(path: str) -> Grid:
    """Reads and checks a grid file.

    Raises:
        UserError: The message names the file, and the line or the entry.
    """
    try:
        content = json.loads(files.read_bytes(path))
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
    return parse_grid(content, path)


def parse_grid(content: Record, path: str) -> Grid:
    """Checks the content of a grid file.

    Args:
        content: See the module's docstring.
        path: Of the file, for messages.

    Raises:
        UserError: The message names the file and the entry.
    """
    try:
        grid = msgspec.convert(content, Grid)
    except msgspec.ValidationError as error:
        keys = ", ".join(Grid.__struct_fields__)
        raise UserError(
            f"{path}: {cut(str(error))}. A grid is a JSON object with {keys}; "
            "`experiment` must be there. `axes` and `search` have a list of "
            "values for each flag."
        ) from None
    objects = _list_objects(grid.search) + _list_objects(grid.axes)
    names = {*grid.flags, *(name for axes in objects for name in axes)}
    for name in ("out", "rerun"):
        if name in names:
            words = "python", "-m", "tf_transfer.sweep", path, "--out=..."
            raise UserError(
                f"{path}: {name}: belongs to the sweep, not to its grid: "
                + quote_command(*words)
            )
    if grid.best_of and any(grid.best_of not in axes for axes in objects):
        raise UserError(
            f"{path}: best_of: give the name of an axis of every object."
        )
    return grid


def _list_objects(axes: Axes | list[Axes]) -> list[Axes]:
    """The objects of `axes` or `search`; one needs no list."""
    return axes if isinstance(axes, list) else [axes]


def list_files(path: str) -> list[str]:
    """The grid files of a path: the file itself, or those of a paper's folder.

    Raises:
        UserError: The folder has no list of its grids.
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
        path: Of the file or the folder.
        out: See `expand`.
        cache_dir: See `expand`.
        most_runs: See `expand`.

    Raises:
        UserError: See `read_grid`, `list_files` and `expand`.
    """
    return _merge(
        run
        for name in list_files(path)
        for run in expand(name, read_grid(name), out, cache_dir, most_runs)
    )


def expand(
    path: str,
    grid: Grid,
    out: str,
    cache_dir: str = "",
    most_runs: float = MOST_RUNS,
) -> list[Planned]:
    """Returns the runs of a grid, each once; those of its search come first.

    Neither models nor data need to be there.

    Args:
        path: Of the grid file, for messages.
        grid: See `read_grid` and `parse_grid`.
        out: Root of the run directories.
        cache_dir: Folder of the feature cache; empty for the runs' default.
        most_runs: A larger grid is refused before it is expanded.

    Raises:
        UserError: Too many runs, an experiment, flag or value that does not
            exist, settings that exclude each other.
    """
    search, axes = _list_objects(grid.search), _list_objects(grid.axes)
    count = sum(math.prod(map(len, one.values())) for one in search + axes)
    if count > most_runs:
        raise UserError(
            f"{path}: has {count:,} combinations of its axes. Give --yes if "
            "you want all of them."
        )
    fixed: dict[str, Value] = {}
    if grid.flagfile:
        fixed["flagfile"] = grid.flagfile
    fixed["out"] = os.path.join(out, grid.folder) if grid.folder else out
    fixed |= grid.flags
    if cache_dir:
        fixed["cache_dir"] = cache_dir
    searched = [*_list_points(search)]
    # Each combination of what a search varies has its own best value.
    varied: dict[str, set[Value]] = {}
    for point in searched:
        for name, value in point.items():
            varied.setdefault(name, set()).add(value)
    group_by = [
        name
        for name, values in varied.items()
        if len(values) > 1 and name not in (grid.best_of, "seed")
    ]

    def plan_run(point: dict[str, Value], waits_for: str) -> Planned:
        flags = {n: show_value(v) for n, v in {**fixed, **point}.items()}
        words = tuple(f"--{name}={value}" for name, value in flags.items())
        group = [flags.get(name, "") for name in group_by]
        return Planned(
            cls(command_line.parse(cls.Settings, words)),
            words,
            {name: flags[name] for name in point},
            path,
            grid.folder,
            waits_for,
            (path, *group),
        )

    try:
        cls = experiment_lib.load(grid.experiment)
        runs = [plan_run(point, "") for point in searched]
        for point in _list_points(axes):
            runs.append(plan_run(point, grid.best_of))
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    return _merge(runs)


def _list_points(objects: Iterable[Axes]) -> Iterator[dict[str, Value]]:
    """Yields the combinations of the axes' values, for each of the objects."""
    for axes in objects:
        for values in itertools.product(*axes.values()):
            yield dict(zip(axes, values))


def _merge(runs: Iterable[Planned]) -> list[Planned]:
    """Returns each run once, as it is first.

    Raises:
        UserError: Two are one run, but not as long, or a run waits for a
            search without runs.
    """
    merged: dict[str, Planned] = {}
    for run in runs:
        _check_equal(merged.setdefault(run.identity, run), run)
    groups = {run.group for run in merged.values() if not run.searched}
    for run in merged.values():
        if run.group not in groups:
            raise UserError(f"{run.path}: search: has no runs for {run.label}.")
    return [*merged.values()]


def _check_equal(run: Planned, other: Planned) -> None:
    """Raises `UserError` where two points are one run, but not as long.

    A flag that is not part of a run's name cannot be an axis. That is
    --max_epochs under a constant rate, where more epochs extend a run.
    """
    epochs, others = run.settings.max_epochs, other.settings.max_epochs
    if epochs != others:
        raise UserError(
            f"{other.path}: max_epochs: {epochs} and {others} are the same "
            "run, as this flag is not part of its name. Give it one value, or "
            "give the longer runs a grid with a `folder` of their own."
        )


def show_value(value: Value) -> str:
    """The value of a flag, as a command has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _count_replicas(settings: settings_lib.Settings) -> int:
    is_alone = settings.strategy in ("default", "one_device")
    if is_alone or not settings.trains:
        return 1
    from tf_transfer.training import strategy  # imports TensorFlow

    return strategy.count_replicas(settings.strategy, settings.cpu_devices)
