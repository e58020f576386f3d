"""Regret: the score that an answer lacks of the best of a full grid."""

import statistics
from collections.abc import Iterable, Sequence

from benchmarks.search_world import Event, Record


def best_of(
    record: Record, pairs: Iterable[tuple[float, float]]
) -> tuple[float, float]:
    """Validation and test of the answer: the best on validation.

    The TF-IDF baseline and the probe are known from the start, so they are the
    answer where nothing is better. Of several, the first: the test does not
    choose.
    """
    words = (record["floor"], record["test_floor"])
    probe = (record["probe"]["validation"], record["probe"]["test"])
    return max([words, probe, *pairs], key=on_validation)


def on_validation(pair: tuple[float, float]) -> float:
    """Sort key: the first score of a pair."""
    return pair[0]


def list_epochs(run: Record) -> list[tuple[float, float]]:
    """Validation and test of each epoch of a run."""
    return list(zip(run["validation"], run["test"]))


def grid_best(record: Record) -> tuple[float, float]:
    """Validation and test of the best answer that a whole grid gives.

    Settings that ran with the most seeds are compared by their means over
    seeds, of each seed's best epoch on validation. The highest of single scores
    would be mostly luck.
    """
    settings: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for run in record["runs"]:
        best = max(list_epochs(run), key=on_validation)
        settings.setdefault((run["approach"], run["rate"]), []).append(best)
    most = max(map(len, settings.values()))
    return best_of(
        record,
        (
            (statistics.fmean(v), statistics.fmean(t))
            for v, t in (
                zip(*pairs) for pairs in settings.values() if len(pairs) == most
            )
        ),
    )


def regret_at(
    events: Sequence[Event],
    seconds: float,
    record: Record,
    answers: Sequence[Event] = (),
) -> tuple[float, float]:
    """What is missing at some time, on validation and on test, in points.

    Args:
        events: what was known when.
        seconds: at which time.
        record: of the task.
        answers: what was answered when, if not the best on validation.
    """
    best = grid_best(record)
    if answers:
        given = [a[1:] for a in answers if a[0] <= seconds]
        chosen = given[-1] if given else best_of(record, [])
    else:
        known = (event[1:] for event in events if event[0] <= seconds)
        chosen = best_of(record, known)
    return best[0] - chosen[0], best[1] - chosen[1]
