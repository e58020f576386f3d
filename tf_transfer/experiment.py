"""Experiments: one paper each, or a user's own.

An experiment has settings, data (`run_data`), a network with its heads
(`run_model`), and phases. Training (`run_training`), `--describe`, naming a run
without loading it, sweeping, predicting and exporting ask it alone.

`Experiment` itself trains a head for each task, in one phase. A paper overrides
the methods that differ. See docs/python.md for one of your own.
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TYPE_CHECKING

import numpy as np

from tf_transfer.config import command_line, settings as settings_lib
from tf_transfer.config.experiments import EXPERIMENTS, load
from tf_transfer.data import splits
from tf_transfer.data.encoded_split import EncodedSplit
from tf_transfer.data.task import Source, Task
from tf_transfer.models import freezing, loading, methods
from tf_transfer.runs import run_training
from tf_transfer.runs.run_data import RunData, Splits
from tf_transfer.runs.run_model import RunModel
from tf_transfer.runs.task_settings import TaskSettings
from tf_transfer.runs.trained import Result
from tf_transfer.runs.warm import WarmState
from tf_transfer.training import record_types, records, run_paths
from tf_transfer.utils import screen
from tf_transfer.utils.errors import UserError
from tf_transfer.utils.formatting import cut

if TYPE_CHECKING:
    from keras.layers import Layer

    from tf_transfer.models.encoder import Encoder
    from tf_transfer.models.network import Network
    from tf_transfer.training.callbacks import Callback
    from tf_transfer.training.objectives import Objective, Phase
    from tf_transfer.training.strategy import Devices

BALANCED = ("classes", "labels")  # kinds that --class_weights applies to


class Experiment(RunModel):
    """One run of an experiment: its name, model, phases and training.

    Args:
        settings: of the class `Settings`; they are resolved here.
        source: the source of the task's texts, in place of the one that the
            settings name.
        head: function (task, encoder) to a Keras layer with the interface of
            `models.heads.pooled.PooledHead`, in place of the experiment's own.
        warm: state that the runs of this process share: the next run reuses
            this run's network.
        recorded: the content of a finished run's `config.json`, to predict.

    Attributes:
        name: the folder of its runs below `--out`, and its name in grids.
        settings: resolved.
        data: the texts, their splits and encoding.
        shares_state: whether `warm` is of other runs, too.

    Raises:
        UserError: the settings are invalid; the message names the flag.
    """

    name: ClassVar[str]
    Settings: ClassVar[type] = TaskSettings
    Data: ClassVar[type[RunData]] = RunData

    def __init__(
        self,
        settings: Any,
        source: Source | None = None,
        head: Callable[[Task, "Encoder"], "Layer"] | None = None,
        warm: WarmState | None = None,
        recorded: dict[str, Any] | None = None,
    ) -> None:
        self.settings = settings.resolve()
        methods.from_settings(self.settings)  # its options are checked at once
        self.head = head
        self.shares_state = warm is not None
        self.warm = warm or WarmState()
        self.data = self.Data(self.settings, self.warm, source, recorded)

    # === Its name: nothing is loaded ===

    @property
    def run_settings(self) -> Any:
        """The settings with those that depend on the texts, as recorded."""
        return self.settings

    @property
    def metric(self) -> str:
        """The metric that selects, stops and ranks."""
        return self.data.task.metric

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

    @property
    def command_module(self) -> str:
        """The module in the command `python -m ...` of a run."""
        return EXPERIMENTS.get(self.name, type(self).__module__)

    def command(self, **changes: Any) -> list[str]:
        """The command of this run, or of one like it, to be offered.

        Args:
            changes: settings in place of this run's; see `offered_flags`.
        """
        flags = settings_lib.offered_flags(self.settings, changes)
        return ["python", "-m", self.command_module, *flags]

    def find_run(self, replicas: int = 1) -> records.RunDirectory:
        """The directory of the run, known before anything is loaded.

        Args:
            replicas: number of replicas that share a batch.
        """
        return run_paths.locate(
            self.run_settings,
            self.name,
            [self.data.name, self.settings.approach],
            self.identities,
            replicas,
        )

    # === Phases ===

    def make_objective(self, task: Task, encoded: Splits) -> "Objective":
        """The objective of a task, with the loss for its kind of labels.

        Args:
            task: the task, with the names of its head, labels and metrics.
            encoded: see `RunData.encode_splits`.

        Raises:
            UserError: no task has classes to balance.
        """
        from tf_transfer.data import metrics  # takes seconds to import
        from tf_transfer.training import objectives

        loss = objectives.loss_for(task.kind, task.units)
        if task.score_scale:
            loss = objectives.scaled_loss(loss, task.score_scale[1])
        kinds = {task.kind for task in self.data.tasks.values()}
        if self.settings.class_weights == "balanced":
            if kinds.isdisjoint(BALANCED):
                raise UserError(
                    f"--class_weights=balanced: task {task.name} has no "
                    "classes. Leave it out."
                )
            # Scores trained with classes have nothing to balance.
            if task.kind in BALANCED:
                loss = objectives.balanced_loss(
                    loss, encoded["train"][""].labels, len(task.labels or ())
                )

        def measure(
            split: EncodedSplit, logits: np.ndarray
        ) -> dict[str, float]:
            return metrics.measure_task(
                task, split.targets, logits, split.word_starts
            )

        fit_regression = None
        if self.settings.is_contrastive:
            if task.kind != "classes":
                raise UserError(
                    "--method=contrastive: compares texts by their classes, "
                    f"and task {task.name} has none. Leave it out."
                )
            from tf_transfer.baselines import linear

            is_balanced = self.settings.class_weights == "balanced"
            fit_regression = functools.partial(
                linear.fit_contrastive_head, task, is_balanced
            )
        return objectives.Objective(
            name=task.name,
            loss=loss,
            fit_regression=fit_regression,
            train=encoded["train"][""],
            evaluation={k: encoded[k] for k in ("validation", "test")},
            measure=measure,
        )

    def make_phases(
        self, objectives: "Sequence[Objective]", blocks: int
    ) -> "list[Phase]":
        """The phases of a run: here one.

        Args:
            objectives: of the tasks, in their order.
            blocks: number of the encoder's blocks.
        """
        from tf_transfer.training.objectives import Phase

        settings, metric = self.run_settings, self.metric
        validates = all(o.evaluation["validation"] for o in objectives)
        phase = Phase(
            trainable=self.trainable(blocks),
            trainable_layers=settings.blocks or settings.phases[-1],
            lr=settings.lr,
            max_epochs=settings.max_epochs,
            objectives=tuple(objectives),
            score=(lambda scores: scores[metric]) if validates else None,
            patience=settings.patience if validates else 0,
            min_delta=settings.min_delta,
            select=settings.select,
            layer_decay=settings.layer_decay,
        )
        return [phase]

    def build(
        self, devices: "Devices", encoder: "Encoder | None" = None
    ) -> tuple["Network", list["Phase"], dict[str, int]]:
        """Network, phases and split sizes of a run.

        Raises:
            UserError: no example is left to score.
        """
        data = self.data
        _ = data.examples  # an invalid row is reported before weights load
        network = self.build_network(devices, encoder)
        encoded = {
            name: data.encode_splits(task, network.encoder)
            for name, task in data.tasks.items()
        }
        objectives = [
            self.make_objective(task, encoded[name])
            for name, task in data.tasks.items()
        ]
        if not (
            data.may_score_nothing
            or any(objective.scored_splits for objective in objectives)
        ):
            raise UserError(splits.NOTHING_SCORED)
        phases = self.make_phases(objectives, len(network.encoder.blocks))
        sizes = {
            data.name_split(kind, name, split): len(some)
            for name, kinds in encoded.items()
            for kind, named in kinds.items()
            for split, some in named.items()
        }
        return network, phases, sizes

    # === A run ===

    @classmethod
    def run(
        cls,
        settings: Any,
        callbacks: Sequence["Callback"] = (),
        source: Source | None = None,
        head: Callable | None = None,
    ) -> Result:
        """Trains and evaluates, or finds the finished run.

        Args:
            settings: of the class `Settings`.
            callbacks: see `training.callbacks.Callback`.
            source, head: see `Experiment`.

        Raises:
            UserError: settings or data are invalid.
            Interrupted: SIGTERM or Ctrl-C; the same call resumes the run.
        """
        return cls(settings, source, head).train(callbacks)

    def train(self, callbacks: Sequence["Callback"] = ()) -> Result:
        """Trains the run, or resumes it; fits a baseline. See `run`.

        Args:
            callbacks: see `training.callbacks.Callback`.
        """
        return run_training.train(self, callbacks)

    def fit_sparse(self, directory: records.RunDirectory) -> dict[str, Any]:
        """Fits a baseline without an encoder, where `--features` has some.

        Returns:
            The content of `result.json`.
        """
        raise NotImplementedError

    def set_up_devices(self) -> "Devices":
        """The devices of the run; see `strategy.set_up`."""
        command_line.import_tensorflow()
        from tf_transfer.training import strategy

        settings = self.settings
        return strategy.set_up(
            settings.strategy,
            settings.batch_size if settings.trains else None,
            cpu_devices=settings.cpu_devices,
            precision=settings.precision,
            deterministic=settings.deterministic,
            seed=settings.seed,
            seeds_tensorflow=self.has_foreign_code,
        )

    def cache_options(self) -> Any:
        """The feature cache's options; None to run frozen blocks live.

        Raises:
            UserError: `--also_cache` names more blocks than there are.
        """
        from tf_transfer.feature_cache.feature_cache import CacheOptions

        settings, also = self.settings, []
        if not settings.runs_cached:
            return None
        if settings.also_cache:
            shape = loading.read_shape(settings.model, settings.keep_blocks)
            blocks = shape.blocks
            also = [blocks - int(n) for n in settings.also_cache.split(",")]
            if min(also) < 0:
                raise UserError(
                    f"--also_cache={settings.also_cache}: this encoder has "
                    f"{blocks} blocks."
                )
        return settings_lib.pick(
            CacheOptions,
            settings,
            folder=settings.cache_folder,
            precision=settings.arithmetic,
            engine=settings.pass_engine,
            engine_precision=settings.pass_precision,
            dtype=settings.cache_dtype,
            limit_gb=settings.cache_limit_gb,
            also=tuple(also),
        )

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

    def execute(self) -> None:
        """Does what the command asks for: trains, or describes."""
        if self.settings.describe:
            screen.say(self.describe())
        else:
            self.train()

    # === Predicting ===

    @classmethod
    def recall_settings(cls, config: dict[str, Any]) -> dict[str, Any]:
        """The settings of a finished run, to predict with on this machine.

        Args:
            config: the content of its `config.json`.
        """
        names = {field.name for field in dataclasses.fields(cls.Settings)}
        names -= {"strategy", "cpu_devices", "cache_dir", "prefix_engine"}
        recorded = config["settings"].items()
        return {name: value for name, value in recorded if name in names}


# === Finished runs ===


def open_run(
    path: str,
    cache_dir: str = "",
    experiment_name: str = "",
    head: "Callable[[Task, Encoder], Layer] | None" = None,
) -> Result:
    """A finished run, ready to predict.

    Args:
        path: path of its directory, or of the folder of a search, for the run
            that is its answer.
        cache_dir: folder for downloads by pip.
        experiment_name: module of a user's own experiment; no file decides
            which code is loaded.
        head: the function that `run` was given as `head`, if any.

    Raises:
        UserError: the run is unfinished, damaged or without a model, or its
            encoder or head is another one than now, or a setting is retired.
    """
    path = run_paths.find_answer(path)
    directory = records.RunDirectory(path, None)
    record = directory.result()
    if record is not None and not record["best_epoch"]:
        raise UserError(
            f"--run={path}: is a baseline of tf_transfer.tweets, which keeps "
            "no model. tf_transfer.train --features=tfidf does."
        )
    config = directory.config(record_types.Trained)
    if config is None or record is None:
        missing = "config.json" if config is None else "result.json"
        raise UserError(
            f"--run={path}: has no {missing}. Give the folder of a finished "
            "run, or of a search that has answered."
        )
    if retired := settings_lib.find_retired(config["settings"]):
        raise UserError(
            f"--run={path}: was trained with {retired}, which is retired. "
            "Predict with the version of tf_transfer that trained it."
        )
    directory.check_file("config.json", record)
    name = config["key"]["module"]
    cls = None
    if experiment_name or name in EXPERIMENTS:
        cls = load(experiment_name or name)
    if cls is None or cls.name != name:
        raise UserError(
            f"--run={path}: is a run of the experiment {cut(name)!r}. Give its "
            "module as --experiment."
        )
    settings = cls.Settings(**cls.recall_settings(config), cache_dir=cache_dir)
    experiment = cls(settings, head=head, recorded=config)
    wanted = config["key"].get("head_identity")
    if experiment.head_identity != wanted:
        trained_head = f"the head {wanted}" if wanted else "no head of your own"
        raise UserError(
            f"--run={path}: was trained with {trained_head}. In Python, "
            "experiment.open_run takes it as `head`."
        )
    if settings.is_sparse:
        return Result(experiment, path, record)
    identity = loading.identify(
        experiment.settings.model, experiment.settings.cache_folder
    )
    trained_on = config["key"].get("model_identity")
    if identity != trained_on:
        raise UserError(
            f"--run={path}: was trained on another "
            f"{experiment.settings.model} ({trained_on}) than there is now "
            f"({identity}). Bring the old one back."
        )
    return Result(experiment, path, record)


# === Commands ===


def start(cls: type[Experiment]) -> None:
    """Runs an experiment's module as a command."""

    def main() -> None:
        cls(command_line.from_flags(cls.Settings)).execute()

    command_line.start(main, cls.Settings)
