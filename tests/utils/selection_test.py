"""The choice of a setting by its scores on validation."""

import math

from tf_transfer.utils import selection

best = selection.best_on_validation


def test_a_setting_with_one_seed_changes_nothing_between_the_others():
    """On seed 0 alone the worse one of two rates is ahead."""
    two = {
        1e-4: [(0, 80.0), (1, 88.0), (2, 87.0)],
        2e-4: [(0, 81.0), (1, 72.0), (2, 71.0)],
    }
    assert best(two) == 1e-4
    assert best({1e-2: [(0, 50.0)], **two}) == 1e-4


def test_a_seed_that_failed_elsewhere_lifts_no_setting():
    scored = {
        1e-4: [(0, 80.0), (1, 80.0), (2, 80.0)],
        1e-3: [(0, 30.0), (1, 78.0), (2, 78.0)],
        2e-4: [(0, 79.0)],
    }
    assert best(scored) == 1e-4


def test_more_seeds_of_one_setting_do_not_change_the_choice():
    """Seed 1 is an easy one, which setting b alone has run."""
    assert best({"b": [(0, 79.0), (1, 95.0)], "a": [(0, 80.0)]}) == "a"
    assert best({"b": [(0, 81.0), (1, 60.0)], "a": [(0, 80.0)]}) == "b"


def test_settings_without_a_common_seed_have_their_own_means():
    assert best({"a": [(0, 80.0)], "b": [(1, 81.0)]}) == "b"


def test_of_equal_settings_the_first_is_chosen():
    assert best({"a": [(0, 80.0)], "b": [(0, 80.0)]}) == "a"


def test_a_failed_run_is_below_everything():
    scored = {"a": [(0, -math.inf), (1, 90.0)], "b": [(0, 50.0), (1, 60.0)]}
    assert best(scored) == "b"
