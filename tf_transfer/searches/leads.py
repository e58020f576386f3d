"""The expected leads of approaches over the best baseline.

The lead of an approach on a task is modelled as

    lead = usual lead + t + a + v,    observed lead = lead + noise,

with normal t, a, v of mean 0: t is shared by all candidates of a task, a by an
approach and its variants, and v belongs to one candidate. The noise is that of
the held-out texts, which candidates share. The expected leads are the joint
posterior means of all candidates,

    m + C (C + N)^-1 (observed - m),

with the usual leads m, and the covariances C of the leads and N of the noise.
So a lucky fold counts little against the mean of five, and an approach with few
folds is likely to lead where others do, unless it lost to them on these folds.
`benchmarks.usual_leads` measures these leads.
"""

import math
from collections.abc import Sequence

import numpy as np

# Standard deviations of t, a and v, in points.
TASK, APPROACH, VARIANT = 4.0, 2.0, 1.0


def expect_leads(
    observed: Sequence[float],
    noise: np.ndarray,
    usual: Sequence[float],
    approaches: Sequence[str],
) -> list[float]:
    """The expected lead of each candidate, in points.

    Args:
        observed: The leads on held-out texts, in points; nan where none is
            known.
        noise: float [candidates, candidates], the covariance of their errors.
        usual: The usual leads, in points.
        approaches: Names; variants of an approach have the same.

    Returns:
        The leads, in the same order; minus infinity where none is known.
    """
    leads, means = np.array(observed), np.array(usual)
    known = np.flatnonzero(~np.isnan(leads))
    names = np.array(approaches)
    is_same = names[:, None] == names
    covariance = TASK**2 + np.where(is_same, APPROACH**2, 0.0)
    covariance += VARIANT**2 * np.eye(len(names))
    pairs = np.ix_(known, known)
    surprise = np.linalg.solve(
        (covariance + noise)[pairs], (leads - means)[known]
    )
    expected = np.full(len(leads), -math.inf)
    expected[known] = means[known] + covariance[pairs] @ surprise
    return expected.tolist()
