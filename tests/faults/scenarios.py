"""All scenarios, by name. `whole_scenarios` alone need TensorFlow."""

from tests.faults import (
    cache_scenarios,
    output_scenarios,
    run_scenarios,
    search_scenarios,
    study_scenarios,
    whole_scenarios,
)
from tf_transfer.baselines import usual
from tf_transfer.models import tiny
from tf_transfer.sweeps import work, worker
from tf_transfer.utils import machine


def make_equal(patch):
    """From now on no scenario depends on the machine, or waits."""
    patch.setitem(machine.versions(), "openvino", None)
    patch.setattr(machine, "concurrent_runs", lambda: 1)
    patch.setattr(machine, "start_of_machine", lambda: "machine")
    patch.setattr(machine, "processor", lambda: "processor")
    patch.setattr(work, "POLL_SECONDS", 0)
    # The TF-IDF baseline is fitted once, not for each of a grid of settings.
    patch.setattr(usual, "STRENGTHS", (10.0,))
    patch.setattr(usual, "NGRAMS", usual.NGRAMS[:1])
    # Whole runs share their traced programs, also with those of a worker.
    patch.setattr(tiny, "BLOCKS", 1)
    patch.setattr(worker, "WarmState", lambda: whole_scenarios.WARM)


SCENARIOS = {
    **whole_scenarios.SCENARIOS,
    **run_scenarios.SCENARIOS,
    **cache_scenarios.SCENARIOS,
    **study_scenarios.SCENARIOS,
    **search_scenarios.SCENARIOS,
    **output_scenarios.SCENARIOS,
}
# They train or fit at each point, so the fast tests leave them to the others.
SLOW = {
    *whole_scenarios.SCENARIOS,
    *search_scenarios.SCENARIOS,
    *("baseline", "baseline, groups"),
}
