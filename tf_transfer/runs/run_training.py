"""Training a run of an experiment: from its directory to its result.

An `Experiment` says what trains on what; `train` finds the run if it is
finished, else trains it, or resumes it, and writes its record.
"""

import time
from collections.abc import Sequence
from typing import Any, TYPE_CHECKING

from tf_transfer.config import command_line, settings as settings_lib
from tf_transfer.data import splits
from tf_transfer.data.task import Task
from tf_transfer.models import freezing
from tf_transfer.runs.trained import Result
from tf_transfer.runs.warm import WarmState
from tf_transfer.training import records, results
from tf_transfer.utils import screen

if TYPE_CHECKING:
    from tf_transfer.models.network import Network
    from tf_transfer.training.callbacks import Callback
    from tf_transfer.training.objectives import Phase
    from tf_transfer.training.strategy import Devices
    from tf_transfer.training.trainer import Trainer


def train(experiment: Any, callbacks: Sequence["Callback"]) -> Result:
    """Trains a run, or resumes it; fits a baseline. See `Experiment.run`.

    Args:
        experiment: the `Experiment`.
        callbacks: see `training.callbacks.Callback`.
    """
    began, data = time.monotonic(), experiment.data
    settings, devices = experiment.run_settings, None
    if settings.trains and settings.strategy == "mirrored":
        devices = experiment.set_up_devices()  # a key names the replicas
    directory = experiment.find_run(devices.replicas if devices else 1)
    finished = find_finished(experiment, directory)
    if finished is not None:
        return finished
    runs_before = WarmState.runs
    WarmState.runs += 1
    if settings.is_sparse:
        record = experiment.fit_sparse(directory)
        return Result(experiment, directory.path, record)
    if data.reads_without_tensorflow:
        _ = data.examples  # an invalid row is reported at once
    command_line.import_tensorflow()
    from tf_transfer.data import error_analysis  # scikit-learn takes seconds

    if settings.is_probe:
        from tf_transfer.baselines import probe_run

        record = probe_run.fit(experiment, directory)
        return Result(experiment, directory.path, record)
    devices = devices or experiment.set_up_devices()
    network, phases, sizes = experiment.build(devices)
    warnings = [
        warning
        for name, texts in data.examples.items()
        for warning in splits.find_warnings(data.tasks[name], texts)
    ] + data.warnings
    leaves_test = not settings.score_test and any(
        texts["test"] for texts in data.examples.values()
    )
    scored = _list_scored_texts(experiment, phases[-1])
    data.forget()
    extended = directory.result()
    if extended is not None:
        screen.say(results.describe_extension(settings, extended))
    try:
        directory.begin(
            settings,
            devices,
            {c.name: c.parameters for c in freezing.components(network)},
            sizes,
            {
                "tasks": {n: t.record for n, t in data.tasks.items()},
                "runs_before": runs_before,
            },
        )
        every = _list_callbacks(experiment, directory, runs_before == 0, began)
        trainer = _make_trainer(
            experiment,
            network,
            phases,
            devices,
            directory,
            [*every, *callbacks],
        )
        record = {
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
        directory.end(record)
    finally:
        directory.close()
    return Result(experiment, directory.path, record, network)


def find_finished(
    experiment: Any, directory: records.RunDirectory
) -> Result | None:
    """The finished run, which is printed; None if steps are left."""
    settings, record = experiment.run_settings, directory.result()
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
    return Result(experiment, directory.path, record)


def _list_scored_texts(
    experiment: Any, phase: "Phase"
) -> dict[str, tuple[Task, Any]]:
    """The task and the texts of each split that a phase scores, by name."""
    scored = {}
    for one in phase.objectives:
        task, texts = experiment.data.tasks[one.name], experiment.data.examples
        for kind, named in one.evaluation.items():
            for split in named:
                prefix = one.metric_prefix.rstrip("_")
                name = splits.join_names(kind, prefix, split)
                scored[name] = task, texts[one.name][kind][split]
    return scored


def _list_callbacks(
    experiment: Any,
    directory: records.RunDirectory,
    is_first: bool,
    began: float,
) -> "list[Callback]":
    """The callbacks of every run.

    Args:
        experiment: what is run.
        directory: its directory.
        is_first: whether no run of this process came before.
        began: when the run began, a time of `time.monotonic`.
    """
    from tf_transfer.training import callbacks as callbacks_lib

    settings = experiment.run_settings
    listed: list[Callback] = [
        callbacks_lib.PeakMemory(is_first),
        callbacks_lib.ProgressBar(),
        callbacks_lib.TensorBoard(
            directory, settings, experiment.data.name, experiment.metric
        ),
    ]
    if settings.max_seconds:
        limit = began + settings.max_seconds
        listed.append(callbacks_lib.TimeLimit(limit))
    return listed


def _make_trainer(
    experiment: Any,
    network: "Network",
    phases: "list[Phase]",
    devices: "Devices",
    directory: records.RunDirectory,
    callbacks: Sequence["Callback"],
) -> "Trainer":
    from tf_transfer.training.objectives import TrainingOptions
    from tf_transfer.training.optimizer import AdamOptions
    from tf_transfer.training.trainer import Trainer

    settings = experiment.run_settings
    adam = settings_lib.pick(AdamOptions, settings)
    trainer = Trainer(
        network,
        phases,
        devices,
        directory,
        settings_lib.pick(TrainingOptions, settings, adam=adam),
        experiment.cache_options(),
        callbacks,
    )
    if experiment.shares_state:
        experiment.warm.remember(trainer.weights_that_train.values())
    return trainer
