"""All scenarios, by name. None needs TensorFlow."""

from tests.faults import (
    cache_scenarios,
    output_scenarios,
    run_scenarios,
    study_scenarios,
)
from tf_transfer.baselines import usual
from tf_transfer.sweeps import work
from tf_transfer.utils import machine


def make_equal(patch):
    """From now on no scenario depends on the machine, or waits."""
    patch.setattr(machine, "concurrent_runs", lambda: 1)
    patch.setattr(machine, "start_of_machine", lambda: "machine")
    patch.setattr(machine, "processor", lambda: "processor")
    patch.setattr(work, "POLL_SECONDS", 0)
    # The TF-IDF baseline is fitted once, not for each of a grid of settings.
    patch.setattr(usual, "STRENGTHS", (10.0,))
    patch.setattr(usual, "NGRAMS", usual.NGRAMS[:1])


SCENARIOS = {
    **run_scenarios.SCENARIOS,
    **cache_scenarios.SCENARIOS,
    **study_scenarios.SCENARIOS,
    **output_scenarios.SCENARIOS,
}
