"""A learning curve: the scores of runs on more and more training texts."""

from collections.abc import Mapping

from tf_transfer.reports.predictions import Scored


def describe(runs: Mapping[int, Scored]) -> str:
    """The scores, and how much the last texts added.

    Args:
        runs: By number of training texts, rising, two at least. Each has the
            texts of those before it, and all are scored on the same texts.
    """
    *_, fewer, size = runs
    run = runs[size]
    scores = ", ".join(
        f"{one.score:.1f} with {count:,}" for count, one in runs.items()
    )
    texts = "sentences" if run.is_tagged else "texts"
    line = (
        f"Learning curve, {run.metric} on {len(run.ids):,} {run.kind} {texts}: "
        f"{scores} training {texts}."
    )
    gain = run.minus(runs[fewer])
    if not gain.has_interval:
        return f"{line} The last {size - fewer:,} changed no score."
    verdict = "More labelled texts are likely to help."
    if gain.high < 0:
        verdict = "More labelled texts of this kind are unlikely to help."
    elif gain.low <= 0:
        verdict = (
            f"This may be chance: {len(run.ids):,} {run.kind} {texts} do not "
            "show whether more labelled texts would help."
        )
    points = gain.show(1, unit=" points")
    return f"{line} The last {size - fewer:,} added {points}. {verdict}"
