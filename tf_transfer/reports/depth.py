"""The depth profile: what the probe scores above each block."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from tf_transfer.reports import figures
from tf_transfer.reports.estimates import Ranged
from tf_transfer.reports.figures import Figure

Profiles = Mapping[str, Mapping[str, Any]]  # by task; `depth_profile.json`


def profiles_of(runs: pd.DataFrame) -> Profiles:
    """The profiles of a study's probes, the first of each task.

    Args:
        runs: see `runs.runs_frame`.
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
        colour = figures.PALETTE[(number + 2) % len(figures.PALETTE)]
        curves[f"{task}, {profile['metric']}"] = figures.Curve(
            [*map(_make_point, profile["blocks"])], {"color": colour}
        )
    return figures.draw_panels(
        "depth_profile",
        "What the probe scores on the states above each block (0: the "
        "embeddings), by cross-validation inside the training texts, with a "
        "standard error.",
        [figures.Panel("", curves, "score of the probe, points")],
        "block",
        height=3.0,
        dress=figures.use_whole_numbers,
        width=5.4,
    )


def _make_point(line: Mapping[str, float]) -> figures.Point:
    score, error = 100 * line["score"], 100 * line["standard_error"]
    return (
        Ranged(line["block"]),
        Ranged(score, score - error, score + error),
    )


def describe_profile(profile: Mapping[str, Any]) -> str:
    """The depth profile in a line.

    Args:
        profile: what `depth_profile.json` says.
    """
    scores = " ".join(
        f"{100 * line['score']:.1f}" for line in profile["blocks"]
    )
    needed, last = profile["blocks_needed"], profile["blocks"][-1]["block"]
    if 0 < needed < last:
        scores += (
            f"; {needed} of {last} blocks are within a standard error of the "
            f"best: --keep_blocks={needed}"
        )
    return (
        f"Depth profile, {profile['metric']} of the probe below block 1 and "
        f"above each block: {scores}."
    )
