"""Experiments: one paper each, or a user's own.

An experiment has settings, data (`run_data`), a network with its heads
and phases (`run_model`), and a runner, which trains it (`runners`). Naming a
run without loading it, `--describe`, sweeping, predicting and exporting use an
experiment, and nothing else of a paper.

`Experiment` itself trains a head for each task, in one phase. A paper overrides
the methods that differ. See docs/guides/python.md for one of your own.
"""

import contextlib
import dataclasses
import importlib
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Generic, TYPE_CHECKING, TypeVar

from tf_transfer.config import command_line, settings as settings_lib
from tf_transfer.config.experiments import EXPERIMENTS, FOLDERS
from tf_transfer.config.fields import Setting
from tf_transfer.data.task import Source, Task
from tf_transfer.models import freezing, loading, methods
from tf_transfer.runs.probe_run import ProbeRunner
from tf_transfer.runs.run_data import RunData
from tf_transfer.runs.run_model import RunModel
from tf_transfer.runs.runners import NetworkRunner, Runner
from tf_transfer.runs.task_settings import (
    RunSettings,
    TaskSettings as TaskSettings,
)
from tf_transfer.runs.trained import Result
from tf_transfer.runs.warm import WarmState
from tf_transfer.training import record_types, records, results, run_paths
from tf_transfer.utils import screen
from tf_transfer.utils.errors import UserError
from tf_transfer.utils.formatting import cut
from tf_transfer.utils.json_files import Record

if TYPE_CHECKING:
    from keras.layers import Layer

    from tf_transfer.models.encoder import Encoder
    from tf_transfer.training.callbacks import Callback


S = TypeVar("S", bound=RunSettings)


class Experiment(RunModel[S], Generic[S]):
    """One run of an experiment: its name, model, phases and training.

    Args:
        settings: Of the class `Settings`; they are resolved here.
        source: The source of the task's texts, in place of the one that the
            settings name.
        head: Function (task, encoder) to a Keras layer with the interface of
            `models.heads.pooled.PooledHead`, in place of the experiment's own.
        warm: State that the runs of this process share: the next run reuses
            this run's network.
        recorded: The content of a finished run's `config.json`, to predict.

    Attributes:
        settings: Resolved.
        data: The texts, their splits and encoding.

    Raises:
        UserError: The settings are invalid; the message names the flag.
    """

    Settings: type[S]  # each experiment has its own
    Data: type[RunData[S]] = RunData
    # What does a run, by its `--features`.
    runners: ClassVar[Mapping[str, type[Runner[RunSettings]]]] = {
        "bert": NetworkRunner,
        "frozen": ProbeRunner,
    }

    def __init__(
        self,
        settings: S,
        source: Source | None = None,
        head: Callable[[Task, "Encoder"], "Layer"] | None = None,
        warm: WarmState | None = None,
        recorded: Record | None = None,
    ) -> None:
        self.settings = settings.resolve()
        methods.from_settings(self.settings)  # its options are checked at once
        self.head = head
        self.shares_state = warm is not None
        self.warm = warm or WarmState()
        self.data = self.Data(self.settings, self.warm, source, recorded)

    # === Its name: nothing is loaded ===

    @property
    def identities(self) -> dict[str, str]:
        """The identities of model, data and head, for the key of a run."""
        settings = self.settings
        # The data first: a wrong column is reported before pip fetches a model.
        identities = {"data_identity": self.data.identity}
        if not settings.is_sparse:
            identities["model_identity"] = loading.identify(
                settings.model, settings.cache_folder
            )
        if self.head_identity is not None:
            identities["head_identity"] = self.head_identity
        return identities

    @property
    def head_identity(self) -> str | None:
        """The name of the function that builds a head of the user's own."""
        if self.head is None:
            return None
        name = getattr(self.head, "__qualname__", type(self.head))
        return f"{self.head.__module__}.{name}"

    def command(self, **changes: Setting) -> list[str]:
        """The command of this run, or of one like it, to be offered.

        Args:
            changes: Settings in place of this run's; see `offered_flags`.
        """
        flags = settings_lib.offered_flags(self.settings, changes)
        return ["python", "-m", self.command_module, *flags]

    def find_run(self, replicas: int = 1) -> records.RunDirectory:
        """The directory of the run, known before anything is loaded.

        Args:
            replicas: Number of replicas that share a batch.
        """
        return run_paths.locate(
            self.run_settings,
            self.name,
            [self.data.name, self.settings.approach],
            self.identities,
            replicas,
        )

    # === A run ===

    @classmethod
    def run(
        cls,
        settings: S,
        callbacks: Sequence["Callback"] = (),
        source: Source | None = None,
        head: 'Callable[[Task, "Encoder"], "Layer"] | None' = None,
    ) -> Result:
        """Trains and evaluates, or finds the finished run.

        Args:
            settings: Of the class `Settings`.
            callbacks: See `training.callbacks.Callback`.
            source: See `Experiment`.
            head: See `Experiment`.

        Raises:
            UserError: Settings or data are invalid.
            Interrupted: SIGTERM or Ctrl-C; the same call resumes the run.
        """
        return cls(settings, source, head).train(callbacks)

    def train(
        self, callbacks: Sequence["Callback"] = (), prints_answer: bool = True
    ) -> Result:
        """Trains the run, or resumes it; fits a baseline. See `run`.

        Args:
            callbacks: See `training.callbacks.Callback`.
            prints_answer: Whether `print_answer` is called.
        """
        began, settings = time.monotonic(), self.run_settings
        replicas = 1
        if settings.trains and settings.strategy == "mirrored":
            replicas = self.set_up_devices().replicas  # a key names them
        directory = self.find_run(replicas)
        result = self.find_finished(directory)
        if result is None:
            result = self._do_run(directory, callbacks, began)
        if prints_answer:
            self.print_answer(result)
        return result

    def find_finished(self, directory: records.RunDirectory) -> Result | None:
        """The finished run, which is printed; None if steps are left."""
        settings, record = self.run_settings, directory.result()
        directory.check_key()
        if record is None or results.describe_extension(settings, record):
            return None
        more, phases = "", record["phases"]
        if phases and phases[-1]["epochs"] > settings.max_epochs:
            more = (
                f"It has run {phases[-1]['epochs']} epochs, more than "
                f"--max_epochs={settings.max_epochs}. "
            )
        screen.say(
            f"Already done: {directory.path}\n"
            f"{results.summarize(record)}\n{more}"
            "Use --rerun to run it again, in a directory next to it."
        )
        return Result(self, directory.path, record)

    def _do_run(
        self,
        directory: records.RunDirectory,
        callbacks: Sequence["Callback"],
        began: float,
    ) -> Result:
        """Does what is left of the run, and writes `result.json`, last of all.

        Args:
            directory: Of the run.
            callbacks: See `training.callbacks.Callback`.
            began: When the run began, a time of `time.monotonic`.
        """
        WarmState.runs += 1
        make_runner = self.runners[self.settings.features]
        runner = make_runner(self, callbacks, began)
        with contextlib.closing(directory):
            record = runner.run(directory)
            for warning in record["warnings"]:
                print(f"Warning: {warning}", file=sys.stderr)
            directory.write_result(record)
        screen.say(f"{results.summarize(record)}\nWritten to {directory.path}")
        return Result(self, directory.path, record, runner.network)

    def print_answer(self, result: Result) -> None:
        """Prints further lines on a finished run: here none."""

    def describe(self) -> str:
        """The table of `--describe`: components, and whether they train.

        The report card of each task's data comes first.
        """
        data, settings = self.data, self.settings
        if not settings.trains:
            lines = [data.describe_data(task) for task in data.tasks.values()]
            return "\n".join(lines)
        devices, lines = self.set_up_devices(), []
        network = self.build_network(devices)
        if data.reads_without_tensorflow:
            for task in data.tasks.values():
                lines.append(data.describe_data(task, network.encoder))
        blocks = len(network.encoder.blocks)
        lines.append(
            freezing.describe_parameters(network, self.trainable(blocks))
        )
        compiler = ", compiled by XLA" if settings.uses_xla else ""
        lines.append(f"Runs on {', '.join(devices.names)}{compiler}.")
        return "\n".join(lines)

    @classmethod
    def main(cls, argv: Sequence[str]) -> None:
        """Does what the flags of a command ask for; see `command`."""
        command_line.refuse_words(argv)
        cls(command_line.from_flags(cls.Settings)).execute()

    def execute(self) -> None:
        """Does what the command asks for: trains, or describes."""
        if self.settings.describe:
            screen.say(self.describe())
        else:
            self.train()

    # === Predicting ===

    @classmethod
    def restore_settings(cls, config: Record) -> Record:
        """The settings of a finished run, to predict with on this machine.

        Args:
            config: The content of its `config.json`.
        """
        names = {field.name for field in dataclasses.fields(cls.Settings)}
        names -= {"strategy", "cpu_devices", "cache_dir", "prefix_engine"}
        recorded = config["settings"].items()
        return {name: value for name, value in recorded if name in names}


# === The registry, and finished runs ===


def load(name: str) -> type[Experiment[RunSettings]]:
    """The experiment of a name or module.

    Args:
        name: One of `EXPERIMENTS`, its command, or a module that can be
            imported and has an `EXPERIMENT`.

    Raises:
        UserError: There is no such experiment.
    """
    module = EXPERIMENTS.get(name, name)
    if module.removeprefix("tf_transfer.") in FOLDERS:
        module += ".experiment"
    try:
        experiment: type[Experiment[RunSettings]]
        experiment = importlib.import_module(module).EXPERIMENT
        return experiment
    except (ImportError, AttributeError, ValueError) as error:
        if name in EXPERIMENTS:
            raise
        raise UserError(
            f"{cut(name)!r} is no experiment ({error}). Give one of "
            f"{', '.join(EXPERIMENTS)}, or a module of your own that has an "
            "EXPERIMENT."
        ) from None


def open_run(
    path: str,
    cache_dir: str = "",
    experiment_name: str = "",
    head: "Callable[[Task, Encoder], Layer] | None" = None,
) -> Result:
    """A finished run, ready to predict.

    Args:
        path: Path of its directory, or of the folder of a search, for the run
            that is its answer.
        cache_dir: Folder for downloads by pip.
        experiment_name: Module of a user's own experiment; no file decides
            which code is loaded.
        head: The function that `run` was given as `head`, if any.

    Raises:
        UserError: The run is unfinished, damaged or without a model, or its
            encoder or head is another one than now, or a setting is retired.
    """
    path = run_paths.find_answer(path)
    config, record = _read_finished(path)
    experiment = _open_recorded(path, config, cache_dir, experiment_name, head)
    settings, key = experiment.settings, config["key"]
    wanted = key.get("head_identity")
    if experiment.head_identity != wanted:
        trained_head = f"the head {wanted}" if wanted else "no head of your own"
        raise _refusal(
            path,
            f"was trained with {trained_head}. In Python, "
            "experiment.open_run takes it as `head`.",
        )
    if not settings.is_sparse:
        identity = loading.identify(settings.model, settings.cache_folder)
        if identity != key.get("model_identity"):
            raise _refusal(
                path,
                f"was trained on another {settings.model} "
                f"({key.get('model_identity')}) than there is now "
                f"({identity}). Bring the old one back.",
            )
    return Result(experiment, path, record)


def _refusal(path: str, problem: str) -> UserError:
    return UserError(f"--run={path}: {problem}")


def _read_finished(path: str) -> tuple[Record, Record]:
    """The contents of a finished run's `config.json` and `result.json`.

    Raises:
        UserError: The run is unfinished, damaged, without a model or retired.
    """
    directory = records.RunDirectory(path, None)
    record = directory.result()
    if record is not None and not record["best_epoch"]:
        raise _refusal(
            path,
            "is a baseline of tf_transfer.tweets, which keeps no model. "
            "tf_transfer.train --features=tfidf does.",
        )
    config = directory.config(record_types.Trained)
    if config is None or record is None:
        missing = "config.json" if config is None else "result.json"
        raise _refusal(
            path,
            f"has no {missing}. Give the folder of a finished run, or of a "
            "search that has answered.",
        )
    if retired := settings_lib.find_retired(config["settings"]):
        raise _refusal(
            path,
            f"was trained with {retired}, which is retired. Predict with the "
            "version of tf_transfer that trained it.",
        )
    directory.check_file("config.json", record)
    return config, record


def _open_recorded(
    path: str,
    config: Record,
    cache_dir: str,
    experiment_name: str,
    head: "Callable[[Task, Encoder], Layer] | None",
) -> Experiment[RunSettings]:
    """The experiment of a finished run; see `open_run`."""
    name, cls = config["key"]["module"], None
    if experiment_name or name in EXPERIMENTS:
        cls = load(experiment_name or name)
    if cls is None or cls.name != name:
        raise _refusal(
            path,
            f"is a run of the experiment {cut(name)!r}. Give its module as "
            "--experiment.",
        )
    settings = cls.Settings(**cls.restore_settings(config), cache_dir=cache_dir)
    return cls(settings, head=head, recorded=config)
