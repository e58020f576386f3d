"""Settings, device and clock of the benchmarks of epochs."""

import dataclasses
import re
import time
from collections.abc import Callable
from typing import Self

from tf_transfer.config.fields import setting
from tf_transfer.data import glue as glue_data
from tf_transfer.glue import experiment as glue
from tf_transfer.utils import machine
from tf_transfer.utils.errors import UserError


@dataclasses.dataclass(frozen=True)
class BenchmarkSettings(
    glue.Settings,
    defaults={"batching": "grouped", "frozen_prefix": "cached"},
    help={"batching": "As in training; Hugging Face always groups by length."},
):
    """GLUE's settings, and what is measured."""

    examples: int = setting(
        256, "Training examples of an epoch, of all lengths in proportion."
    )
    rounds: int = setting(3, "Epochs of each contestant that are counted.")
    shape: str = setting(
        "",
        "Blocks and width, such as 12x768 for BERT-base: random weights of "
        "that shape in place of the model's.",
    )

    def resolve(self) -> Self:
        """Returns settings with every default filled in, all checked.

        Raises:
            UserError: A value that cannot be measured.
        """
        settings = super().resolve()
        if self.examples < self.batch_size or self.rounds < 1:
            raise UserError(
                "--examples must fill a batch, and --rounds be 1 or more."
            )
        if self.shape:
            parse_shape(self.shape)
        if glue_data.TASKS[self.task].labels is None:
            raise UserError(f"--task={self.task}: give a task with classes.")
        return settings


def parse_shape(shape: str) -> tuple[int, int]:
    """Blocks and width of `--shape`.

    Raises:
        UserError: It has another form.
    """
    match = re.fullmatch(r"([1-9]\d*)x([1-9]\d*)", shape)
    if not match or int(match[2]) % 64:
        raise UserError(
            f"--shape={shape}: give blocks x width, the width a multiple of "
            "64, such as 12x768."
        )
    return int(match[1]), int(match[2])


def name_device() -> str:
    """The GPU that TensorFlow computes on, or the processor."""
    from tf_transfer.training import strategy

    gpu = machine.has_gpu() and strategy.single_device().names[0]
    return gpu or machine.processor() or "a CPU"


def time_epochs(
    epochs: dict[str, Callable[[], object]], rounds: int
) -> dict[str, list[float]]:
    """Seconds of each contestant's epochs, a warm-up epoch left out."""
    seconds: dict[str, list[float]] = {name: [] for name in epochs}
    for number in range(rounds + 1):
        for name, train in epochs.items():
            start = time.perf_counter()
            train()
            elapsed = time.perf_counter() - start
            if number:
                seconds[name].append(elapsed)
            print(
                f"{f'round {number}' if number else 'warm-up'}: "
                f"{name} {elapsed:.2f} s",
                flush=True,
            )
    return seconds
