"""The space of a search: approaches, each with its rates."""

import dataclasses
import itertools
import math
from collections.abc import Callable, Mapping, Sequence

from tf_transfer.utils import formatting
from tf_transfer.utils.errors import UserError

VARIED = {  # from a flag with several values to the setting of a run
    "poolings": "pooling",
    "lengths": "max_length",
    "batch_sizes": "batch_size",
    "methods": "method",
    "depths": "keep_blocks",
}
# Settings of a run that a search decides itself, or has no use for.
DECIDED = (
    *("trainable_layers", "blocks", "lr", "schedule", "warmup_fraction"),
    *("select", "patience", "min_delta", "seed", "rerun", "describe"),
    *("features", "baseline", "max_seconds", "also_cache", "score_test"),
    "learning_curve",
)
# Rates are 1, 2 and 5 times a power of ten: this many below and above the usual
# rate of an approach.
STEPS = (1.0, 2.0, 5.0)
RATES_AROUND = 2


@dataclasses.dataclass(frozen=True)
class Approach:
    """The trained blocks, and every other setting of a search but the rate.

    Attributes:
        name: in answers, such as `last_2`.
        flags: of its runs, such as `(("trainable_layers", "2"),)`.
        depth: how much trains, on the scale of the expected gain: doubling the
            trained blocks is one step.
        rates: rising; the usual one is in the middle.
        variant: number of the combination of all other flags.
    """

    name: str
    flags: tuple[tuple[str, str], ...]
    depth: float
    rates: tuple[float, ...]
    variant: int = 0

    @property
    def usual(self) -> int:
        """Index of the usual rate."""
        return len(self.rates) // 2

    @property
    def choices(self) -> list["Choice"]:
        """Its runs with the first seed and a constant rate."""
        return [Choice(self.name, rate) for rate in range(len(self.rates))]


@dataclasses.dataclass(frozen=True, order=True)
class Choice:
    """A run of a search, apart from its number of epochs.

    Attributes:
        approach: its name.
        rate: index of its rate.
        seed: of the run.
        linear_epochs: the epochs of a run whose rate falls to zero; 0 where
            the rate is constant, so that the run can be continued.
    """

    approach: str
    rate: int
    seed: int = 0
    linear_epochs: int = 0

    @property
    def setting(self) -> "Choice":
        """The same of the first seed: what runs of several seeds share."""
        return dataclasses.replace(self, seed=0)


def rates_around(usual: float) -> tuple[float, ...]:
    """Rates 1, 2 and 5 times a power of ten around the usual one."""
    ladder = [
        float(f"{step:g}e{exponent}")
        for exponent in range(-9, 2)
        for step in STEPS
    ]
    middle = min(
        range(len(ladder)), key=lambda i: abs(math.log(ladder[i] / usual))
    )
    return tuple(ladder[middle - RATES_AROUND : middle + RATES_AROUND + 1])


def numbers_of_blocks(blocks: int) -> list[str]:
    """0, 1, 2, 4, ... below an encoder's blocks, and `all`."""
    powers = range((blocks - 1).bit_length())
    return ["0", *(str(2**power) for power in powers), "all"]


EVERYTHING = "fine_tuning"
NAMES = {"all": EVERYTHING, "head": "head"}  # others are last_k
# On the scale of trained blocks: an output layer alone, and the embeddings in
# addition to all blocks.
DEPTH_OF_HEAD, DEPTH_OF_EMBEDDINGS = -0.5, 0.5


def depth_of(trainable_layers: str, blocks: int) -> float:
    """How much trains; see `Approach.depth`."""
    if trainable_layers == "head":
        return DEPTH_OF_HEAD
    if trainable_layers == "all":
        return math.log2(1 + blocks) + DEPTH_OF_EMBEDDINGS
    return math.log2(1 + int(trainable_layers))


def make_space(
    layers: Sequence[str],
    blocks: int,
    usual_rate: Callable[[str, Mapping[str, str]], float | None],
    varied: Mapping[str, Sequence[str]],
    defaults: Mapping[str, str] | None = None,
) -> list[Approach]:
    """The approaches of a search, those that train least first.

    Args:
        layers: what `--trainable_layers` may be.
        blocks: of the encoder.
        usual_rate: function from one of `layers` and values of the further
            flags to their usual rate; None for a combination that is invalid.
        varied: values of further flags, by name.
        defaults: of these flags: approaches do not name them.
    """
    approaches = []
    for variant, values in enumerate(itertools.product(*varied.values())):
        others = dict(zip(varied, values))
        named = [
            f"{name}={value}"
            for name, value in others.items()
            if value != (defaults or {}).get(name)
        ]
        for number in layers:
            rate = usual_rate(number, others)
            if rate is None:
                continue
            base = NAMES.get(number, f"last_{number}")
            approaches.append(
                Approach(
                    ", ".join([base, *named]),
                    (("trainable_layers", number), *others.items()),
                    depth_of(number, blocks),
                    rates_around(rate),
                    variant,
                )
            )
    return sorted(approaches, key=lambda approach: approach.depth)


def split_values(flag: str, text: str) -> list[str]:
    """The values of a flag that takes several.

    Raises:
        UserError: a value is empty, or is given twice.
    """
    values = text.split(",") if text else []
    if len(set(values)) < len(values) or "" in values:
        raise UserError(
            f"--{flag}={formatting.cut(text)}: give values with commas "
            "between, each once."
        )
    return values
