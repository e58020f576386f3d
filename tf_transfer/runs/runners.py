"""The work of a run in its directory: training a network, fitting a probe.

`Experiment.runners` chooses by `--features`. A runner begins the directory,
fills it and returns the record; `Experiment.train` writes that as
`result.json`, last of all.
"""

from collections.abc import Sequence
from typing import Generic, TYPE_CHECKING

from tf_transfer.config import command_line, settings as settings_lib
from tf_transfer.data import splits
from tf_transfer.data.task import Examples, Sentences, Task
from tf_transfer.models import freezing
from tf_transfer.runs.run_model import RunModel
from tf_transfer.runs.task_settings import RunSettings, SettingsT
from tf_transfer.runs.warm import WarmState
from tf_transfer.training.records import RunDirectory
from tf_transfer.utils.json_files import Record

if TYPE_CHECKING:
    from tf_transfer.models.network import Network
    from tf_transfer.training.callbacks import Callback
    from tf_transfer.training.objectives import Phase
    from tf_transfer.training.strategy import Devices
    from tf_transfer.training.trainer import Trainer


class Runner(Generic[SettingsT]):
    """Does a run; the base class.

    Args:
        experiment: What runs on what.
        callbacks: See `training.callbacks.Callback`.
        began: When the run began, a time of `time.monotonic`.

    Attributes:
        network: The trained network, once there is one.
    """

    network: "Network | None" = None

    def __init__(
        self,
        experiment: RunModel[SettingsT],
        callbacks: Sequence["Callback"],
        began: float,
    ) -> None:
        self.experiment = experiment
        self._callbacks = callbacks
        self._began = began

    def run(self, directory: RunDirectory) -> Record:
        """Does the run, or resumes it.

        Args:
            directory: Of the run; it is locked, and stays open.

        Returns:
            The content of `result.json`.
        """
        raise NotImplementedError


class NetworkRunner(Runner[RunSettings]):
    """Trains a network."""

    def run(self, directory: RunDirectory) -> Record:
        """Trains what is left of the phases, and scores the selected epoch."""
        experiment, data = self.experiment, self.experiment.data
        settings = experiment.run_settings
        if data.reads_without_tensorflow:
            _ = data.examples  # an invalid row is reported at once
        command_line.import_tensorflow()
        from tf_transfer.data import error_analysis  # scikit-learn: seconds

        devices = experiment.set_up_devices()
        network, phases, sizes = experiment.build(devices)
        warnings = [
            warning
            for name, texts in data.examples.items()
            for warning in splits.find_warnings(data.tasks[name], texts)
        ] + data.warnings
        leaves_test = not settings.score_test and any(
            texts["test"] for texts in data.examples.values()
        )
        scored = self._list_scored_texts(phases[-1])
        data.drop_texts()
        directory.begin(
            settings,
            devices,
            {c.name: c.parameters for c in freezing.components(network)},
            sizes,
            {
                "tasks": {n: t.record for n, t in data.tasks.items()},
                "runs_before": WarmState.runs - 1,
            },
        )
        trainer = self._make_trainer(network, phases, devices, directory)
        record: Record = {
            "task": data.name,
            "metric": experiment.metric,
            "approach": settings.approach,
            "trainable_layers": phases[-1].trainable_layers,
            "lr": settings.lr,
            "batch_size": settings.batch_size,
            "seed": settings.seed,
            **trainer.train(),
            "warnings": warnings,
            "cut_texts": data.cut_texts,
        }
        if leaves_test:
            record["scores_test"] = False
        directory.write_errors(
            error_analysis.describe_splits(scored, trainer.best_logits)
        )
        self.network = network
        return record

    def _list_scored_texts(
        self, phase: "Phase"
    ) -> dict[str, tuple[Task, Examples | Sentences]]:
        """The task and the texts of each split that a phase scores, by name."""
        data, scored = self.experiment.data, {}
        for objective in phase.objectives:
            task, texts = data.tasks[objective.name], data.examples
            for kind, named in objective.evaluation.items():
                for split in named:
                    prefix = objective.metric_prefix.rstrip("_")
                    name = splits.join_names(kind, prefix, split)
                    scored[name] = task, texts[objective.name][kind][split]
        return scored

    def _make_trainer(
        self,
        network: "Network",
        phases: "list[Phase]",
        devices: "Devices",
        directory: RunDirectory,
    ) -> "Trainer":
        from tf_transfer.training.objectives import TrainingOptions
        from tf_transfer.training.optimizer import AdamOptions
        from tf_transfer.training.trainer import Trainer

        experiment = self.experiment
        settings = experiment.run_settings
        adam = settings_lib.pick(AdamOptions, settings)
        trainer = Trainer(
            network,
            phases,
            devices,
            directory,
            settings_lib.pick(TrainingOptions, settings, adam=adam),
            experiment.cache_options(),
            [*self._list_own_callbacks(directory), *self._callbacks],
        )
        if experiment.shares_state:
            experiment.warm.remember(
                network.encoder, trainer.weights_that_train.values()
            )
        return trainer

    def _list_own_callbacks(self, directory: RunDirectory) -> "list[Callback]":
        """The callbacks of every run."""
        from tf_transfer.training import callbacks as callbacks_lib

        experiment = self.experiment
        settings = experiment.run_settings
        is_first = WarmState.runs == 1  # of this process
        listed: list[Callback] = [
            callbacks_lib.PeakMemory(is_first),
            callbacks_lib.ProgressBar(),
            callbacks_lib.TensorBoard(
                directory, settings, experiment.data.name, experiment.metric
            ),
        ]
        if settings.max_seconds:
            limit = self._began + settings.max_seconds
            listed.append(callbacks_lib.TimeLimit(limit))
        return listed
