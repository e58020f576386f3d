"""Constants of the search, judged by tasks that did not choose them."""

import numpy as np
import pytest

from benchmarks import search_constants, search_replay
from tests.searches import made_up


def test_a_task_is_judged_with_what_the_others_choose():
    regrets = np.array([[0.0, 4.0, 5.0], [9.0, 1.0, 1.0], [3.0, 3.0, 3.0]])
    assert search_constants.leave_one_out(regrets, 2) == {
        "in use": 3.0,
        # The second pair is chosen for the first task, the first for others.
        "chosen on the other tasks": pytest.approx((9.0 + 4.0 + 5.0) / 3),
        "best": 3.0,
        "worst": pytest.approx(11 / 3),
    }


@pytest.mark.slow
def test_every_pair_of_constants_is_replayed():
    records = {f"task_{n}": made_up.make_record(n) for n in range(2)}
    for record in records.values():  # training is barely better
        record["floor"] = (
            max(max(r["validation"]) for r in record["runs"]) - 0.8
        )
        record["test_floor"] = record["floor"] - 5
    judged = search_constants.judge(records)
    assert list(judged) == list(search_replay.SHARES)
    for values in judged.values():
        assert values["best"] <= values["in use"] <= values["worst"]
    assert judged["1/4"]["best"] < judged["1/4"]["worst"]
