"""All scenarios, by name. None needs TensorFlow."""

from tests.faults import (
    cache_scenarios,
    output_scenarios,
    run_scenarios,
    study_scenarios,
)

SCENARIOS = {
    **run_scenarios.SCENARIOS,
    **cache_scenarios.SCENARIOS,
    **study_scenarios.SCENARIOS,
    **output_scenarios.SCENARIOS,
}
