"""How long a run took, from its start to its result."""

import datetime
import os

from tf_transfer.sweeps.grid import Planned


def read_seconds(run: Planned) -> float | None:
    """Seconds of a finished run from its start to its result.

    None for a run that was interrupted: how long it paused is not known.
    """
    starts = (run.directory.config() or {}).get("starts", [])
    end = os.stat(run.directory.file("result.json")).st_mtime
    try:
        [began] = [start.get("started", "") for start in starts]
        start = datetime.datetime.fromisoformat(began).timestamp()
    except (ValueError, OverflowError):  # interrupted, or a damaged time
        return None
    return max(end - start, 0.0)
