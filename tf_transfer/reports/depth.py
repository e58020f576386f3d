"""The depth profile: what the probe scores above each block."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from tf_transfer.reports import plots
from tf_transfer.reports.overview import Ranged
from tf_transfer.reports.study import Figure

Profiles = Mapping[str, Mapping[str, Any]]  # by task; `depth_profile.json`


def profiles_of(runs: pd.DataFrame) -> Profiles:
    """The profiles of a study's probes, the first of each task.

    Args:
        runs: see `frames.runs_frame`.
    """
    profiles = runs.set_index("task").record.str.get("profile").dropna()
    return profiles.groupby(level=0).first().to_dict()


def draw(profiles: Profiles) -> Figure:
    """Score against block, a line for each task.

    Args:
        profiles: see `profiles_of`; one at least.
    """
    curves = {}
    for number, (task, profile) in enumerate(sorted(profiles.items())):
        colour = plots.PALETTE[(number + 2) % len(plots.PALETTE)]
        curves[f"{task}, {profile['metric']}"] = plots.Curve(
            [*map(_make_point, profile["blocks"])], {"color": colour}
        )
    return plots.draw_panels(
        "depth_profile",
        "What the probe scores on the states above each block (0: the "
        "embeddings), by cross-validation inside the training texts, with a "
        "standard error.",
        [plots.Panel("", curves, "score of the probe, points")],
        "block",
        height=3.0,
        dress=plots.use_whole_numbers,
        width=5.4,
    )


def _make_point(line: Mapping[str, float]) -> plots.Point:
    score, error = 100 * line["score"], 100 * line["standard_error"]
    return (
        Ranged(line["block"]),
        Ranged(score, score - error, score + error),
    )
