"""Texts and parameters for estimators that are fitted in a second."""

from tests.support import own_data

COLUMNS = own_data.news(36)
TEXTS, TEAMS = COLUMNS["title"], COLUMNS["team"]


def make_options(folder):
    """Parameters of a fit that takes a second; its runs lie in a folder."""
    return {
        "model": "tiny",
        "trainable_layers": "head",
        "max_epochs": 1,
        "max_length": 16,
        "lr": 1e-2,
        "out": str(folder),
        "settings": {"cache_dir": str(folder / "cache")},
    }
