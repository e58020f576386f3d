"""The expected leads of approaches over the best baseline.

The lead of an approach on a task is modelled as

    lead = usual lead + t + a + v,    observed lead = lead + noise,

with normal t, a, v of mean 0: t is shared by all candidates of a task, a by an
approach and its variants, and v belongs to one candidate. The expected leads
are the joint posterior means of all candidates,

    m + C (C + diag(error^2))^-1 (observed - m),

with the usual leads m and the covariance C. So a lucky fold counts little
against the mean of five, and an approach with few folds is likely to lead where
others do. `benchmarks.usual_leads` measures these leads.
"""

import math
from collections.abc import Sequence

import numpy as np

from tf_transfer.comparison.estimates import Ranged

# Standard deviations of t, a and v, in points.
TASK, APPROACH, VARIANT = 4.0, 2.0, 1.0


def expect_leads(
    observed: Sequence[Ranged],
    usual: Sequence[float],
    approaches: Sequence[str],
) -> list[float]:
    """The expected lead of each candidate, in points.

    Args:
        observed: The leads on held-out texts, in points.
        usual: The usual leads, in points.
        approaches: Names; variants of an approach have the same.

    Returns:
        The leads, in the same order; minus infinity where none is known.
    """
    known = [n for n, lead in enumerate(observed) if lead.is_known]
    names = np.array([approaches[n] for n in known])
    means = np.array([usual[n] for n in known])
    leads = np.array([observed[n].value for n in known])
    errors = np.array([_error(observed[n]) for n in known])
    is_same = names[:, None] == names
    covariance = TASK**2 + np.where(is_same, APPROACH**2, 0.0)
    covariance += VARIANT**2 * np.eye(len(known))
    noisy = covariance + np.diag(errors**2)
    posterior = means + covariance @ np.linalg.solve(noisy, leads - means)
    expected = [-math.inf] * len(observed)
    for n, lead in zip(known, posterior.tolist()):
        expected[n] = lead
    return expected


def _error(lead: Ranged) -> float:
    """The standard error of a lead; 0 where none is known."""
    return lead.estimate.error if lead.estimate else 0.0
