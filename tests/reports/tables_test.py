"""Tables: how their cells are written."""

from tf_transfer.reports import tables
from tf_transfer.reports.estimates import Ranged


def test_a_value_is_written_in_one_way():
    assert tables.spread([80.0, None, 82.0]) == "81.00 ± 1.41"
    assert tables.spread([80.0], 1, "+") == "+80.0"
    assert tables.spread([]) == Ranged().show() == ""
    assert Ranged(-0.001, -1, 1).show(1, "+") == "+0.0 (-1.0 to +1.0)"
