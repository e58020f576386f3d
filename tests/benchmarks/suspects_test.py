"""Labels are replaced as asked, and the table has precision beside chance."""

import numpy as np

from benchmarks import suspects


def test_a_share_of_the_labels_gets_another_class():
    labels = np.array(["a", "b", "c", "a"] * 50)
    replaced, is_replaced = suspects.replace_labels(labels, 0.1)
    assert is_replaced.sum() == 20
    np.testing.assert_array_equal(replaced != labels, is_replaced)
    assert {*replaced} <= {"a", "b", "c"}
    same, none = suspects.replace_labels(labels, 0.0)
    assert not none.any() and (same == labels).all()


def test_the_table_has_precision_and_chance():
    def count(top, found):
        return {"clear": found, "clear_replaced": top, "top_replaced": top}

    def measure(replaced, tops):
        counts = dict(zip(suspects.APPROACHES, (count(n, 70) for n in tops)))
        return {"texts": 200, "replaced": replaced, **counts}

    cases = {
        "0.05": measure(10, (4, 7)),
        "0.1": measure(20, (10, 15)),
    }
    measured = {"model": "minilm", "max_length": 9, "tasks": {"news": cases}}
    table = suspects.make_table(measured)
    assert "| news | 5 | 40 | 70 | 70 (7) | 10 | 50 | 75 | 70 (15) |" in table
    assert "| **mean** | 5 | 40 | 70 |  | 10 | 50 | 75 |  |" in table
