"""An ensemble of finished runs, from their stored predictions."""

from collections.abc import Sequence

import numpy as np

from tf_transfer.data import ensembles, metrics
from tf_transfer.reports import reading, stacking_ensembles
from tf_transfer.reports.predictions import Arrays, Predictions
from tf_transfer.utils.errors import UserError


def combine(runs: Sequence[str]) -> tuple[dict[str, dict[str, float]], Arrays]:
    """Combines finished runs into one model.

    Args:
        runs: their directories, two or more.

    Returns:
        The metrics on the test set of each run and of both ensembles, by name;
        and the content of the ensemble's predictions.npz: `test_ids` and
        `test_labels` int64 [examples]; `mean` and `vote` float64
        [examples, classes], see `ensembles`.

    Raises:
        UserError: one cannot be in an ensemble, or they do not belong
            together.
    """
    members, names = zip(*map(_read_member, runs))
    joined = ensembles.join(members)
    labels = members[0].labels
    titles = stacking_ensembles.METHODS
    both = {method: getattr(ensembles, method)(joined) for method in titles}
    outputs = {
        **{member.name: member.logits for member in members},
        **{titles[method]: array for method, array in both.items()},
    }
    scores = {
        name: metrics.measure(names[0], labels, logits)
        for name, logits in outputs.items()
    }
    return scores, {"test_ids": members[0].ids, "test_labels": labels, **both}


def _read_member(path: str) -> tuple[ensembles.Member, list[str]]:
    """The member that a run is, and the names of its metrics.

    Raises:
        UserError: there is no finished run, its predictions are damaged, or it
            does not choose a class for each example of a test set.
    """
    try:
        record = reading.read_run(path, path)
    except reading.LeftOut as reason:
        raise UserError(
            f"--run={path}: {reason}. Give the folder of a finished run."
        ) from None
    predictions = Predictions("")
    arrays = predictions.read(record, "test")
    if predictions.damaged or record["folds"]:
        problem = "has no intact predictions of one test set"
    elif "ids" not in arrays:
        problem = "was not tested: it has one set for validation and test"
    elif np.issubdtype(arrays["labels"].dtype, np.floating):
        problem = "gives scores, not classes"
    elif arrays["labels"].ndim == 2:
        problem = "gives several labels at once, not one class"
    elif len(arrays["ids"]) != len(arrays["labels"]):
        problem = "labels words, and sentences have several"
    elif not np.isfinite(arrays["logits"]).all():
        problem = "holds test_logits that are not finite"
    else:
        return stacking_ensembles.make_member(record, arrays), [
            name for name in record["metrics"] if name in metrics.METRICS
        ]
    raise UserError(f"--run={path}: {problem}. It cannot be in an ensemble.")
