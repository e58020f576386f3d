"""Ranks encoders by their probes: the same texts, in the same folds.

Each encoder has a run of the probe (`probe_run`). Its score is the mean over
the folds of the cross-validation inside the training texts. The folds depend on
labels and seed alone, so a difference of two encoders is paired over them; its
error is Nadeau and Bengio's (`probe.standard_error`). The encoders within one
such error of the best stay, and the fastest of these is the answer.
"""

import dataclasses
from collections.abc import Callable, Iterable

import numpy as np
import pandas as pd

from tf_transfer.baselines import probe
from tf_transfer.comparison.estimates import Estimate
from tf_transfer.training.records import RunDirectory
from tf_transfer.utils import formatting
from tf_transfer.utils.errors import FullDiskError, UserError
from tf_transfer.utils.json_files import Record

# Ratio of seconds up to which the higher score decides (ours).
SAME_SPEED = 1.25


@dataclasses.dataclass(frozen=True)
class Ranking:
    """Encoders, compared by their probes.

    Attributes:
        runs: A row per encoder, named as `--model` has it: the chosen encoder,
            then the others by falling score. The columns are the fields of
            `result.json` and `depth_profile.json`, `directory`, `score` in
            points, and `difference`, the `Estimate` of it minus the best.
        text: The choice, a table in this order, why encoders are not in it,
            and the warnings of the runs.
    """

    runs: pd.DataFrame
    text: str

    @property
    def model(self) -> str:
        """The chosen encoder, as `--model` has it."""
        return str(self.runs.index[0])


def rank_encoders(models: Iterable[str], fit: Callable[[str], str]) -> Ranking:
    """Fits the probe of every encoder, and compares them.

    Args:
        models: As `--model` has them; one that is named twice counts once.
        fit: Function from a model to the run directory of its probe. All
            probes have the same training texts and `--split_seed`.

    Raises:
        UserError: No encoder has a probe; the message has each reason. Or the
            disk is full.
        Interrupted: Finished probes are kept; another call continues.
    """
    records: dict[str, Record] = {}
    left_out = []
    for model in dict.fromkeys(models):
        try:
            directory = RunDirectory(fit(model), None)
        except FullDiskError:  # no encoder is to blame
            raise
        except UserError as error:
            reason = " ".join(str(error).split())
            left_out.append(f"Left out: {model} ({reason})")
            continue
        records[model] = {
            **(directory.result() or {}),
            **(directory.profile() or {}),
            "directory": directory.path,
        }
    if not records:
        lines = ["--models: no encoder can be used.", *left_out]
        raise UserError("\n".join(lines))
    runs = pd.DataFrame([*records.values()], index=[*records])
    runs["score"] = 100 * runs.fold_scores.map(np.mean)
    runs = runs.sort_values("score", ascending=False, kind="stable")
    folds = 100 * np.stack(runs.fold_scores)
    runs["difference"] = [
        Estimate(values.mean(), probe.standard_error(values), len(values) - 1)
        for values in folds - folds[0]
    ]
    near = runs[[gap.value + gap.error >= 0 for gap in runs.difference]]
    limit = SAME_SPEED * near.seconds_per_text.min()
    best = near.index[near.seconds_per_text <= limit][0]
    runs = runs.loc[[best, *runs.index.drop(best)]]
    first = runs.iloc[0]
    lines = [
        f"Use {best}, the fastest within a standard error of the best. "
        f"{first.metric} of the probe in points, by the same "
        f"{len(first.fold_scores)} folds of {first.texts:,} training texts:",
        _make_table(runs),
        *left_out,
    ]
    warnings = runs.warnings.explode().dropna()
    for warning, named in warnings.groupby(warnings).groups.items():
        lines.append(
            f"{formatting.join_words([*dict.fromkeys(named)])}: {warning}"
        )
    return Ranking(runs, "\n".join(lines))


def _make_table(runs: pd.DataFrame) -> str:
    """The encoders, aligned; see `Ranking.runs`."""
    rows = [["encoder", runs.metric.iloc[0], "minus the best", "ms per text"]]
    rows[0] += ["parameters", "on disk", "blocks needed"]
    for run in runs.itertuples():
        parameters = run.total_parameters - run.trainable_parameters
        rows.append(
            [
                run.Index,
                f"{run.score:.1f}",
                run.difference.ranged().show(1, "+"),
                f"{1000 * run.seconds_per_text:.3g}",
                f"{parameters / 1e6:.3g} M",
                formatting.size(run.size_on_disk),
                f"{run.blocks_needed} of {len(run.blocks) - 1}",
            ]
        )
    return formatting.aligned(rows)
