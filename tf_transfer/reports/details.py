"""What the papers' own tables are made from: labelled runs, fronts."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from tf_transfer.reports import overview


def label_runs(runs: pd.DataFrame) -> pd.DataFrame:
    """Runs with `text`, the name of their task, and `trains`, in words.

    What trains most comes first. Of runs that are not timed, times are nan.

    Args:
        runs: of a study, see `frames.runs_frame`.
    """
    runs = runs.copy()
    runs["text"] = overview.name_texts(runs)  # as the overview calls them
    runs["trains"] = [
        overview.name_approach(approach, cached)
        for approach, cached in zip(runs.approach, runs.cached)
    ]
    for _, alike in runs.groupby(["text", "trains"]):
        words = overview.tell_apart(
            [
                {n: s[n] for n in overview.NAMED if n in s}
                for s in alike.settings
            ]
        )
        runs.loc[alike.index, "trains"] += words
    runs.loc[~runs.timed, "seconds"] = np.nan
    return runs.sort_values(
        ["text", "cached", "trainable_parameters", "trains", "lr"],
        ascending=[True, True, False, True, True],
        kind="stable",
    )


def is_on_front(
    seconds: Sequence[float], scores: Sequence[float]
) -> list[bool]:
    """Whether no other point is as good in both, and better in one."""
    points = list(zip(seconds, scores))
    return [
        not any(
            s <= time and p >= score and (s, p) != (time, score)
            for s, p in points
        )
        for time, score in points
    ]


def drop_empty_columns(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame without the columns that say nothing."""
    says = frame.notna() & (frame != "")
    return frame.loc[:, says.any()]
