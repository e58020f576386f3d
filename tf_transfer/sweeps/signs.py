"""Signs of life that a worker sends while it does a run."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from tf_transfer.training.callbacks import Callback
from tf_transfer.utils import machine
from tf_transfer.utils.json_files import Record

SECONDS_BETWEEN = 1.0


class SignsOfLife(Callback):
    """Reports that steps are trained, or texts go through the frozen blocks.

    Args:
        report: called with a dict: `event` is `alive`, `has_trained` whether a
            step is done, `memory` the process's own in bytes.
    """

    def __init__(self, report: Callable[[Record], None]) -> None:
        self._report = report
        self._has_trained = False
        self._last = 0.0

    def on_build(self, trainer: Any) -> None:
        self._send()

    def on_steps_end(
        self, trainer: Any, losses: np.ndarray, counts: np.ndarray
    ) -> None:
        if not self._has_trained:  # other runs wait for its feature cache
            self._has_trained, self._last = True, 0.0
        self._send()

    def on_record(self, trainer: Any, line: Record) -> None:
        self._send()

    def _send(self) -> None:
        now = time.monotonic()
        if now - self._last >= SECONDS_BETWEEN:
            self._report(
                {
                    "event": "alive",
                    "has_trained": self._has_trained,
                    "memory": machine.own_memory(),
                }
            )
            self._last = now
