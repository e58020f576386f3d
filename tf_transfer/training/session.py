"""A run from its name to its result: found, continued, extended or begun."""

import os
import sys

from tf_transfer.models import split
from tf_transfer.training import records
from tf_transfer.training.run import Run


def execute(settings, directory, devices, facts, prepare):
    """A run from its name to its result.

    Args:
        settings: `settings.Settings`, resolved.
        directory: `records.RunDirectory`, as `records.locate` gives it.
        devices: `strategy.Devices`.
        facts: what `result.json` says of the task.
        prepare: function that gives network, phases and split sizes; called
            only where there is something left to do.

    Returns:
        What `result.json` says.
    """
    result = directory.result()
    directory.check_key()
    if result is not None and not records.extends(settings, result):
        if devices.is_chief:
            print(
                f"Already done: {directory.path}\n{_summary(result)}\n"
                + (
                    f"It has run {result['epochs_run']} epochs, more than "
                    f"--max_epochs={settings.max_epochs}. "
                    if result["epochs_run"] > settings.max_epochs
                    else ""
                )
                + "Use --rerun to run it anew beside it."
            )
        return result
    network, phases, sizes = prepare()
    devices.agree(0)  # all workers have looked before the chief writes
    try:
        if devices.is_chief:
            _open(directory, settings, devices, network, sizes, result)
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
            directory.log_result(facts, run.progress.total_steps)
            directory.write_result(facts)
            print(f"{_summary(facts)}\nWritten to {directory.path}")
    finally:
        directory.close()
    return facts


def _open(directory, settings, devices, network, sizes, result):
    directory.lock()
    if result is not None:
        print(f"Extending a finished run to {settings.max_epochs} epochs.")
        directory.reopen()
    print(f"Run directory: {directory.path}", flush=True)
    parts = split.parts(network)
    details = {
        "parts": {part.name: part.parameters for part in parts},
        "split_sizes": sizes,
        "devices": devices.names,
        "replicas": devices.replicas,
        "workers": devices.workers,
        "threads": len(os.sched_getaffinity(0)),
        "processor": records.processor(),
        "concurrent_runs": records.concurrent_runs(),
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
    seconds = result["seconds_per_epoch"]
    return (
        f"{result['task']} {result['approach']}: {', '.join(kinds)} at epoch "
        f"{result['best_epoch']} of {result['epochs_run']} "
        f"({result['stop_reason']}); {result['train_seconds']:.1f} s of "
        "training"
        + (f", {seconds:.1f} s an epoch" if seconds else "")
        + f"; {result['trainable_parameters']:,} of "
        f"{result['total_parameters']:,} parameters trained"
    )
