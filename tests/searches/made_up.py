"""A made-up task of a search: what its runs score and take, no training."""

import math
import random

RATES = (1e-5, 2e-5, 5e-5, 1e-4, 2e-4)
# Seconds of an epoch and of the feature cache, points.
APPROACHES = {
    "last_0": (0.1, 20.0, 60.0),
    "last_1": (2.0, 18.0, 72.0),
    "last_2": (10.0, 14.0, 78.0),
    "last_4": (30.0, 8.0, 81.0),
    "fine_tuning": (60.0, 0.0, 80.5),
}
EPOCHS = 8
BEST_RATE = 2


def make_record(seed=0):
    """What `benchmarks.search_records` keeps of a task; the best is last_4."""
    draw = random.Random(seed)
    approaches, runs = [], []
    for name, (seconds, build, top) in APPROACHES.items():
        is_all = name == "fine_tuning"
        approaches.append(
            {
                "name": name,
                "rates": list(RATES),
                "build_seconds": build,
                "work": {  # an operation takes about a second
                    "epochs": [seconds * draw.uniform(0.5, 2.0)],
                    "build": build * draw.uniform(0.5, 2.0),
                    "family": "" if is_all else "all",
                },
            }
        )
        for rate in range(len(RATES)):
            loss = 1.5 * abs(rate - BEST_RATE) ** 1.5
            scores = [
                top - loss - 10 * math.exp(-epoch / 1.5) + draw.gauss(0, 0.3)
                for epoch in range(1, EPOCHS + 1)
            ]
            runs.append(
                {
                    "approach": name,
                    "rate": rate,
                    "seed": 0,
                    "validation": scores,
                    "test": [score - 1 for score in scores],
                    "epoch_seconds": [seconds] * EPOCHS,
                    "beside_seconds": 2.0,
                }
            )
    return {
        "metric": "accuracy",
        "approaches": approaches,
        "runs": runs,
        "start_seconds": 3.0,
        "probe": {
            "validation": 0.0,
            "test": 0.0,
            "seconds": 0.0,
            "pass_seconds": 1.0,
            "operations": 1.0,
        },
        "floor": 55.0,
        "test_floor": 54.0,
        "validation_examples": 500,
    }
