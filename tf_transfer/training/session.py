"""A run from its name to its result: found, continued, extended or begun."""

import os
import sys

from tf_transfer.models import freezing
from tf_transfer.training import records
from tf_transfer.utils import machine


def execute(settings, directory, devices, facts, prepare, details=None):
    """A run from its name to its result.

    Args:
        settings: `settings.Settings`, resolved.
        directory: `records.RunDirectory`, as `records.locate` gives it.
        devices: `strategy.Devices`.
        facts: what `result.json` says of the task.
        prepare: function that gives network, phases and split sizes; called
            only where there is something left to do.
        details: what else `config.json` says.

    Returns:
        What `result.json` says.
    """
    result = finished(settings, directory, devices.is_chief)
    if result is not None:
        return result
    from tf_transfer.training.run import Run

    result = directory.result()
    network, phases, sizes = prepare()
    devices.agree(0)  # all workers have looked before the chief writes
    try:
        if devices.is_chief:
            parts = freezing.parts(network)
            if result is not None:
                print(
                    f"Extending a finished run to {settings.max_epochs} epochs."
                )
            open_directory(
                directory,
                settings,
                devices,
                {part.name: part.parameters for part in parts},
                sizes,
                details,
            )
        run = Run(settings, directory, devices, network, phases)
        facts = {
            **facts,
            "approach": settings.approach,
            "trainable_layers": phases[-1].trainable_layers,
            "lr": settings.lr,
            "batch_size": settings.batch_size,
            "seed": settings.seed,
            **run.train(),
        }
        if devices.is_chief:
            write(directory, facts, run.progress.total_steps)
    finally:
        directory.close()
    return facts


def finished(settings, directory, tells=True):
    """The result of a run that has nothing left to do, or None.

    Args:
        tells: whether to say so.
    """
    result = directory.result()
    directory.check_key()
    if result is None or records.extends(settings, result):
        return None
    if tells:
        more = ""
        run = result["phases"][-1]["epochs"] if result["phases"] else 0
        if run > settings.max_epochs:
            more = (
                f"It has run {run} epochs, more than "
                f"--max_epochs={settings.max_epochs}. "
            )
        print(
            f"Already done: {directory.path}\n{_summary(result)}\n{more}"
            "Use --rerun to run it anew beside it."
        )
    return result


def write(directory, result, step):
    """Writes the result of a run, last of all, and tells of it."""
    directory.log_result(result, step)
    directory.write_result(result)
    print(f"{_summary(result)}\nWritten to {directory.path}")


def open_directory(directory, settings, devices, parts, sizes, details=None):
    """Takes a run directory and writes down what runs in it, and where.

    Args:
        devices: has `names`, `replicas` and `workers`.
        parts: dict from the model's parts to their parameters.
        sizes: dict from split to examples.
        details: what else `config.json` says.
    """
    directory.lock()
    if directory.result() is not None:
        directory.reopen()
    print(f"Run directory: {directory.path}", flush=True)
    details = {
        **(details or {}),
        "parts": parts,
        "split_sizes": sizes,
        "devices": devices.names,
        "replicas": devices.replicas,
        "workers": devices.workers,
        "threads": len(os.sched_getaffinity(0)),
        "processor": machine.processor(),
        "concurrent_runs": machine.concurrent_runs(),
    }
    changed = directory.what_changed(details)
    if changed:
        print(
            f"Warning: this run was begun with another {', '.join(changed)}; "
            "its numbers may differ from an undisturbed run's.",
            file=sys.stderr,
        )
    directory.write_config(settings, details)


def _summary(result):
    kinds = [
        f"{kind} {result['metric']} {result[kind][result['metric']]:.4f}"
        for kind in ("validation", "test")
        if result[kind]
    ]
    if result["best_epoch"] is None:
        when = f"({result['stop_reason']})"
    else:
        when = (
            f"at epoch {result['best_epoch']} of {result['epochs_run']} "
            f"({result['stop_reason']})"
        )
    seconds = result["seconds_per_epoch"]
    return (
        f"{result['task']} {result['approach']}: {', '.join(kinds)} {when}; "
        f"{result['train_seconds']:.1f} s of training"
        + (f", {seconds:.1f} s an epoch" if seconds else "")
        + f"; {result['trainable_parameters']:,} of "
        f"{result['total_parameters']:,} parameters trained"
    )
