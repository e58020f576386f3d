"""A grid file and the runs it stands for. Needs no TensorFlow.

    {"experiment": "glue",
     "flagfile": "flags/glue/wang.flags",
     "flags": {"batch_size": 16},
     "axes": {"task": ["rte", "mrpc"], "trainable_layers": ["all", 4],
              "lr": [2e-5, 1e-3], "seed": [0, 1]},
     "exclude": [{"trainable_layers": "all", "lr": 1e-3}]}

stands for every combination of the axes' values, except those that an entry of
`exclude` describes; a list in such an entry means any of its values. The
experiment may be a module of your own, such as `my_paper`.
"""

import dataclasses
import functools
import itertools
import json
import math
import os
from collections.abc import Iterator
from typing import Annotated, Any

from msgspec import Meta

from tf_transfer import experiment as experiment_lib
from tf_transfer.config import command_line, settings as settings_lib
from tf_transfer.training import records
from tf_transfer.utils import files, json_files
from tf_transfer.utils.errors import UserError
from tf_transfer.utils.formatting import cut

MOST_RUNS = 100_000  # of a grid that is expanded without --yes
Rule = Annotated[dict[str, Any], Meta(min_length=1)]
# Every key of a grid: the type of its value, and what it stands for.
KEYS: dict[str, tuple[Any, str]] = {
    "experiment": (str, "the name of an experiment, such as glue"),
    "flagfile": (str, "the name of one flag file"),
    "flags": (dict[str, Any], "an object of flags"),
    "axes": (dict[str, Any], "an object of flags, each with a list of values"),
    "exclude": (list[Rule], "a list of objects of flags"),
}


@dataclasses.dataclass(frozen=True)
class Planned:
    """A run of a grid.

    Attributes:
        experiment: the experiment, with this run's settings.
        words: the flags of the run's command.
        axes: dict from each axis to this run's value, as text.
    """

    experiment: experiment_lib.Experiment
    words: tuple[str, ...]
    axes: dict[str, str]

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
        """The run's path below `--out`, as a single word."""
        path = os.path.relpath(self.directory.path, self.settings.out)
        return path.replace(os.sep, "~")

    @property
    def label(self) -> str:
        """Its axes as text: they distinguish it from the other runs."""
        return " ".join(f"{name}={value}" for name, value in self.axes.items())

    @property
    def command(self) -> list[str]:
        """The command that does this run alone."""
        return ["python", "-m", self.experiment.command_module, *self.words]


# === Reading ===


def read(path: str) -> dict[str, Any]:
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

    known = ", ".join(KEYS)
    if not isinstance(grid, dict):
        raise UserError(f"{path}: is not a JSON object with {known}.")
    for key, value in {"experiment": None, **grid}.items():
        check(
            key in KEYS,
            cut(key),
            f"is not a key of a grid. These are: {known}.",
        )
        declared, meaning = KEYS[key]
        check(json_files.is_valid(value, declared), key, f"give {meaning}.")
    flags, axes = grid.get("flags", {}), grid.get("axes", {})
    for name in (*flags, *axes):
        check(name != "rerun", name, "a sweep skips finished runs.")
        check(
            name != "out",
            name,
            "belongs to the sweep, not to its grid: "
            f"python -m tf_transfer.sweep {path} --out=...",
        )
        check(
            not (name in flags and name in axes),
            name,
            "is in flags and in axes.",
        )
    for key, values in {
        "flagfile": [grid.get("flagfile", "")],
        **{f"flags.{name}": [value] for name, value in flags.items()},
        **{f"axes.{name}": values for name, values in axes.items()},
    }.items():
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
        is_unique = len(set(map(str, values))) == len(values)
        check(is_unique, key, "has a value twice.")
    for name, value in [
        rule for rules in grid.get("exclude", []) for rule in rules.items()
    ]:
        check(
            name in axes,
            "exclude",
            f"{cut(name)!r} is no axis. The axes are: {', '.join(axes)}.",
        )
        on_axis = [str(value) for value in axes[name]]
        for excluded in _texts(value):
            check(
                excluded in on_axis,
                "exclude",
                f"{name}={cut(excluded)} is not on the axis "
                f"({cut(', '.join(on_axis))}).",
            )


def _texts(value: Any) -> list[str]:
    """The values of a rule, one or a list, as texts."""
    values = value if isinstance(value, list) else [value]
    return [str(value) for value in values]


# === The runs ===


def expand(
    path: str,
    grid: dict[str, Any],
    out: str,
    cache_dir: str = "",
    most_runs: float = MOST_RUNS,
    is_located: bool = True,
) -> list[Planned]:
    """Returns the runs of a grid, each once.

    Args:
        path: of the grid file, for messages.
        grid: its content, as `read` returns it.
        out: root of the run directories.
        cache_dir: folder of the feature cache; empty for the runs' default.
        most_runs: a larger grid is refused before it is expanded.
        is_located: whether models and data must be there. Without, runs are
            distinguished by their flags alone.

    Raises:
        UserError: too many runs, an experiment, flag or value that does not
            exist, settings that exclude each other, a model or data that is
            not there.
    """
    try:
        experiment_class = experiment_lib.load(grid["experiment"])
    except UserError as error:
        raise UserError(f"{path}: experiment: {error}") from None
    count = math.prod(map(len, grid.get("axes", {}).values()))
    if count > most_runs:
        raise UserError(
            f"{path}: has {count:,} combinations of its axes. Give --yes if "
            "you want all of them."
        )
    fixed = {"out": out, **grid.get("flags", {})}
    if cache_dir:
        fixed["cache_dir"] = cache_dir
    if grid.get("flagfile"):
        fixed = {"flagfile": grid["flagfile"], **fixed}
    runs: dict[str, Planned] = {}
    for point in _combinations(grid):
        flags = {n: show_value(v) for n, v in {**fixed, **point}.items()}
        words = [f"--{name}={value}" for name, value in flags.items()]
        try:
            experiment = experiment_class(
                command_line.parse(experiment_class.Settings, words)
            )
            axes = {name: flags[name] for name in point}
            run = Planned(experiment, tuple(words), axes)
            name = run.directory.path if is_located else run.label
        except UserError as error:
            raise UserError(f"{path}: {error}") from None
        _check_equal(path, runs.setdefault(name, run), run)
    if not runs:
        raise UserError(f"{path}: has no runs left: `exclude` excludes all.")
    return list(runs.values())


def _combinations(grid: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields the axes' values of each run that is not excluded."""
    axes = grid.get("axes", {})
    for values in itertools.product(*axes.values()):
        point = dict(zip(axes, values))
        if not any(
            all(str(point[name]) in _texts(rule[name]) for name in rule)
            for rule in grid.get("exclude", [])
        ):
            yield point


def _check_equal(path: str, run: Planned, other: Planned) -> None:
    """Raises `UserError` where two points are one run without a reason.

    `cached` with nothing frozen is the live run. A flag that is not part of a
    run's name, such as --max_epochs under a constant rate, cannot be an axis.
    """
    for name, value in run.axes.items():
        is_reason = name in ("frozen_prefix", "cache_dtype")
        if value != other.axes[name] and not is_reason:
            raise UserError(
                f"{path}: axes.{name}: {value} and {other.axes[name]} are the "
                "same run, since this flag is not part of a run's name. Give "
                "it one value, in `flags`."
            )


def show_value(value: Any) -> str:
    """The value of a flag, as a command has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _count_replicas(settings: settings_lib.Settings) -> int:
    if settings.strategy in ("default", "one_device"):
        return 1
    from tf_transfer.training import strategy  # imports TensorFlow

    return strategy.count_replicas(settings.strategy, settings.cpu_devices)
