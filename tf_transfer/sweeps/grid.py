"""A grid file, and the runs that it stands for. Needs no TensorFlow.

    {"module": "glue",
     "flagfile": "flags/glue/wang.flags",
     "flags": {"batch_size": 16},
     "axes": {"task": ["rte", "mrpc"], "trainable_layers": ["all", 4],
              "lr": [2e-5, 1e-3], "seed": [0, 1]},
     "exclude": [{"trainable_layers": "all", "lr": 1e-3}]}

stands for every combination of the axes' values, but for those that an
`exclude` describes; a list there means any of its values.
"""

import dataclasses
import importlib
import itertools
import json
import re

from tf_transfer.config import command_line
from tf_transfer.utils.errors import UserError

MODULES = (
    "glue",
    "freezing",
    "multitask",
    "stacking",
    "tweets",
)  # each has SETTINGS, locate() and build()
KEYS = ("module", "flagfile", "flags", "axes", "exclude")
NOT_IN_A_GRID = ("out", "rerun")  # what a sweep itself says


@dataclasses.dataclass(frozen=True)
class Planned:
    """A run of a grid.

    Attributes:
        words: the flags of its command.
        axes: dict from each axis to this run's value, as text.
        settings: its `settings.Settings`, resolved.
        directory: its `records.RunDirectory`.
    """

    module: str
    words: tuple
    axes: dict
    settings: object
    directory: object

    @property
    def name(self):
        """Where it is below `--out`, as one word."""
        folders = self.directory.path.split("/")
        return "~".join(folders[-4:])


def read(path):
    """The checked content of a grid file.

    Raises:
        UserError: naming the file, and the line or the entry.
    """
    try:
        with open(path, encoding="utf-8") as file:
            grid = json.load(file)
    except json.JSONDecodeError as error:
        raise UserError(
            f"{path}:{error.lineno}: is not JSON: {error.msg}."
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "is not text"
        raise UserError(
            f"{path}: {reason}. Give a grid such as "
            "experiments/glue/embedded.json."
        ) from None
    _check_form(path, grid)
    return grid


def _check_form(path, grid):
    if not isinstance(grid, dict):
        raise UserError(f"{path}: is not a JSON object with {', '.join(KEYS)}.")
    unknown = [key for key in grid if key not in KEYS]
    if unknown:
        raise UserError(
            f"{path}: has no use for {unknown[0]!r}. A grid has "
            f"{', '.join(KEYS)}."
        )
    module = grid.get("module")
    if module not in MODULES:
        raise UserError(
            f"{path}: module: {module!r} cannot be swept. There are: "
            f"{', '.join(MODULES)}."
        )
    if not isinstance(grid.get("flagfile", ""), str):
        raise UserError(f"{path}: flagfile: give the name of one flag file.")
    for key in ("flags", "axes"):
        if not isinstance(grid.get(key, {}), dict):
            raise UserError(f"{path}: {key}: give an object of flags.")
    axes = grid.get("axes", {})
    for name, values in axes.items():
        if not isinstance(values, list) or not values:
            raise UserError(
                f"{path}: axes.{name}: give a list of the flag's values."
            )
        if len({str(value) for value in values}) < len(values):
            raise UserError(f"{path}: axes.{name}: has a value twice.")
        if name in grid.get("flags", {}):
            raise UserError(f"{path}: {name}: is in flags and in axes.")
    for name in (*grid.get("flags", {}), *axes):
        if name in NOT_IN_A_GRID:
            raise UserError(
                f"{path}: {name}: belongs to the sweep, not to its grid: "
                f"python -m tf_transfer.sweep {path} --{name}=..."
                if name == "out"
                else f"{path}: {name}: a sweep skips what is done."
            )
    exclude = grid.get("exclude", [])
    if not isinstance(exclude, list) or not all(
        isinstance(rule, dict) and rule for rule in exclude
    ):
        raise UserError(f"{path}: exclude: give a list of objects of flags.")
    for rule in exclude:
        for name, wanted in rule.items():
            if name not in axes:
                raise UserError(
                    f"{path}: exclude: {name!r} is no axis. The axes are: "
                    f"{', '.join(axes)}."
                )
            known = [str(value) for value in axes[name]]
            for value in wanted if isinstance(wanted, list) else [wanted]:
                if str(value) not in known:
                    raise UserError(
                        f"{path}: exclude: {name}={value} is not on the axis "
                        f"({', '.join(known)})."
                    )


def combinations(grid):
    """Yields each run's axes as a dict, what is excluded left out."""
    axes = grid.get("axes", {})
    for values in itertools.product(*axes.values()):
        point = dict(zip(axes, values))
        if not any(_matches(rule, point) for rule in grid.get("exclude", [])):
            yield point


def _matches(rule, point):
    return all(
        str(point[name])
        in [str(v) for v in (wanted if isinstance(wanted, list) else [wanted])]
        for name, wanted in rule.items()
    )


def expand(path, grid, out, cache_dir=""):
    """The runs of a grid, each once, in the order that uses caches warm.

    Raises:
        UserError: a flag or value that does not exist, settings that exclude
            each other, a model or data that is not there.
    """
    module = importlib.import_module(f"tf_transfer.{grid['module']}")
    fixed = {"out": out, **grid.get("flags", {})}
    if cache_dir:
        fixed["cache_dir"] = cache_dir
    found = {}
    for point in combinations(grid):
        words = [
            f"--{name}={_text(value)}"
            for name, value in {**fixed, **point}.items()
        ]
        if grid.get("flagfile"):
            words.insert(0, f"--flagfile={grid['flagfile']}")
        try:
            settings = command_line.parse(module.SETTINGS, words).resolve()
            directory = module.locate(settings, _replicas(settings))
        except UserError as error:
            raise UserError(f"{path}: {error}") from None
        planned = Planned(
            grid["module"],
            tuple(words),
            {name: _text(value) for name, value in point.items()},
            settings,
            directory,
        )
        other = found.setdefault(planned.directory.path, planned)
        _check_same(path, other, planned)
    if not found:
        raise UserError(f"{path}: stands for no run: `exclude` leaves none.")
    return warm_order(found.values())


def _check_same(path, one, other):
    """Two points may be one run only where nothing that differs matters.

    `cached` with nothing frozen is the live run. But a flag that is not in a
    run's name, as --max_epochs under a constant rate, is no axis.
    """
    for name in one.axes:
        if name in ("frozen_prefix", "cache_dtype"):
            continue
        if one.axes[name] != other.axes[name]:
            raise UserError(
                f"{path}: axes.{name}: {one.axes[name]} and {other.axes[name]} "
                "are one and the same run, since this flag is not part of a "
                "run's name. Give it one value, in `flags`."
            )


def _text(value):
    return str(value).lower() if isinstance(value, bool) else str(value)


def _replicas(settings):
    if settings.strategy in ("default", "one_device"):
        return 1
    from tf_transfer.training import strategy

    return strategy.count_replicas(settings)


def only(path, runs, conditions):
    """The runs that fulfil conditions such as `task=rte`.

    Raises:
        UserError: no such flag, or no such run.
    """
    for condition in conditions:
        name, is_there, wanted = condition.partition("=")
        if not is_there or not hasattr(runs[0].settings, name):
            raise UserError(
                f"--only={condition}: give a flag of the runs and its value, "
                "such as task=rte."
            )
        known = {_value(run, name) for run in runs}
        runs = [run for run in runs if _is(_value(run, name), wanted)]
        if not runs:
            raise UserError(
                f"--only={condition}: no run of {path} has that. There are: "
                f"{', '.join(sorted(known))}."
            )
    return runs


def _is(known, wanted):
    try:
        return float(known) == float(wanted)  # 2e-5 and 2e-05
    except ValueError:
        return known == wanted


def _value(run, name):
    return run.axes.get(name, _text(getattr(run.settings, name)))


def warm_order(runs):
    """Runs on one frozen prefix side by side, the shallowest cut first.

    A deeper cut goes on from a shallower one's cache, and an entry is used
    before the next ones push it out. Otherwise the grid's order stays.
    """
    firsts = {}
    keyed = []
    for position, run in enumerate(runs):
        settings = run.settings
        shared = (position,)
        depth = 0
        if settings.runs_cached:
            shared = (
                settings.model,
                settings.data,
                getattr(settings, "task", ""),
                settings.max_length,
                settings.precision,
                settings.cache_dtype,
            )
            depth = _depth(settings)
        first = firsts.setdefault(shared, position)
        keyed.append((first, depth, position, run))
    return [run for *_, run in sorted(keyed, key=lambda item: item[:3])]


def _depth(settings):
    """Rises with the cut below what trains."""
    if settings.blocks:
        return int(re.match(r"\d+", settings.blocks)[0])
    if settings.trainable_layers == "all":  # a phase freezes every block
        return 0
    return -int(settings.trainable_layers)
