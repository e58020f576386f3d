"""The depth profile: what the probe scores above each block."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from tf_transfer.reports import plots
from tf_transfer.reports.study import Figure
from tf_transfer.reports.study import Table

Profiles = Mapping[str, Mapping[str, Any]]  # by task; `depth_profile.json`


def profiles_of(runs: pd.DataFrame) -> Profiles:
    """The profiles of a study's probes, the first of each task.

    Args:
        runs: see `frames.runs_frame`.
    """
    profiles: dict[str, Any] = {}
    for task, record in zip(runs.task, runs.record):
        if record.get("profile"):
            profiles.setdefault(task, record["profile"])
    return profiles


def draw(profiles: Profiles) -> Figure | None:
    """Score against block, a line for each task; None without a profile."""
    if not profiles:
        return None
    figure, [axis] = plots.make_panels(1)
    figure.set_size_inches(5.4, 3.6)
    handles: plots.Handles = {}
    for number, (task, profile) in enumerate(sorted(profiles.items())):
        lines = profile["blocks"]
        handles[f"{task}, {profile['metric']}"] = axis.errorbar(
            [line["block"] for line in lines],
            [100 * line["score"] for line in lines],
            yerr=[100 * line["standard_error"] for line in lines],
            color=plots.PALETTE[(number + 2) % len(plots.PALETTE)],
            marker="o",
            markersize=4,
            capsize=2,
            elinewidth=1,
        )
    plots.use_whole_numbers(axis)
    plots.add_frame(axis, "score of the probe, points", "block")
    return plots.finish(
        figure,
        handles,
        "depth_profile",
        "What the probe scores on the states above each block (0: the "
        "embeddings), by cross-validation inside the training texts, with a "
        "standard error.",
    )


def tabulate(profiles: Profiles) -> Table:
    """The same as a table."""
    return Table(
        "depth_profile",
        "Depth profile: the probe by block, in points, by cross-validation "
        "inside the training texts",
        pd.DataFrame(
            [
                {
                    "task": task,
                    "metric": profile["metric"],
                    "states": profile["states"],
                    "block": line["block"],
                    "score": round(100 * line["score"], 2),
                    "standard error": round(100 * line["standard_error"], 2),
                }
                for task, profile in sorted(profiles.items())
                for line in profile["blocks"]
            ]
        ),
    )
