"""The settings of a run: one dataclass, from which the flags are made.

A field is a flag; `fields.setting` holds all there is to know of it: default,
help text and its group, bounds, which runs read it, and whether it is part of a
run's key. `recipe` has the fields on data, optimizer and stopping. A paper
subclasses `Settings`, gives a dictionary of its own defaults, and declares only
the fields that are its own. Nothing below the commands reads absl flags:
everything takes plain arguments or the small dataclass that it needs.
"""

import dataclasses
import functools
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from tf_transfer.config.fields import (
    baseline_setting,
    Group,
    Reader,
    running_setting,
    Setting,
    setting,
)
from tf_transfer.config.recipe import Recipe
from tf_transfer.utils import machine
from tf_transfer.utils.errors import UserError
from tf_transfer.utils.json_files import Record

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    Value = Setting | tuple[int, ...] | DataclassInstance  # of a dataclass

# A part of a path: no separators, nothing invisible, not `..`.
NAME = r"(?!\.{1,2}$)[^/\\\x00-\x1f\x7f]{1,100}"

# Values with which runs of older versions may have been trained.
RETIRED_VALUES = {
    "method": ("adapter", "ia3"),
    "freeze_schedule": ("autofreeze", "gradual"),
    "strategy": ("multi_worker",),
    "precision": ("mixed_float16",),
}


def find_retired(settings: Mapping[str, Setting]) -> str:
    """A setting of a recorded run that no longer exists, as a flag; or ""."""
    for name, values in RETIRED_VALUES.items():
        if settings.get(name) in values:
            return f"--{name}={settings[name]}"
    return ""


T = TypeVar("T", bound="DataclassInstance")

# `setting` for the flags of the feature cache.
cache_setting = functools.partial(
    setting,
    group=Group.FROZEN,
    read_by=Reader.ENCODER,
    needs={"runs_cached": True},
)


@dataclasses.dataclass(frozen=True)
class Settings(Recipe):
    """The settings that all training modules share; see `fields.Fields`."""

    # === The frozen blocks ===
    frozen_prefix: str = setting(
        "live",
        "`live` runs the frozen blocks below what trains at every step, with "
        "dropout. `cached` runs them once, without dropout, "
        "and stores their output for this run and every later one: many times "
        "faster, and its scores may differ a little.",
        group=Group.FROZEN,
        choices=("live", "cached"),
        hashed=False,  # its effect is: see `runs_cached`
    )
    prefix_engine: str = cache_setting(
        "auto",
        "Library that runs the frozen blocks once. `auto` is OpenVINO on a CPU "
        "where it is installed (the extra `fast`), and TensorFlow elsewhere. "
        "OpenVINO's states of 16 texts are compared with TensorFlow's first.",
        choices=("auto", "tensorflow", "openvino"),
    )
    prefix_precision: str = cache_setting(
        "auto",
        "dtype of the arithmetic of --prefix_engine. `auto` is that of "
        "--precision for TensorFlow; for OpenVINO it is bfloat16 on a "
        "processor that computes with it, and else float32.",
        choices=("auto", "float32", "bfloat16"),
    )
    cache_dtype: str = cache_setting(
        "float16",
        "dtype of the stored states.",
        choices=("float16", "bfloat16", "float32"),
    )
    cache_limit_gb: float = cache_setting(
        None,
        "Maximum size of the feature cache in GB. The least recently used "
        "entries are deleted first; the frozen blocks run at every step for "
        "texts that do not fit. Unset: half of the free disk, 50 at most.",
        hashed=False,
        at_least=0,
    )
    also_cache: str = cache_setting(
        "",
        "Numbers of last blocks, such as 1,2,4, for which the output of the "
        "frozen blocks below is also stored, for other runs. The same pass "
        "computes it, so it costs disk space and little time.",
        pattern="([0-9]{1,3}(,[0-9]{1,3})*)?",
        advice="give numbers of last blocks, such as 1,2,4.",
        hashed=False,
    )

    # === How it runs ===
    precision: str = running_setting(
        "float32",
        "dtype of the arithmetic; the weights themselves stay float32. `tf32` "
        "is float32, but a GPU rounds the factors of its products to 10 bits.",
        choices=("float32", "tf32", "mixed_bfloat16"),
        read_by=Reader.ENCODER,
    )
    strategy: str = running_setting(
        "default",
        "tf.distribute strategy: `mirrored` uses all GPUs (or --cpu_devices).",
        choices=("default", "one_device", "mirrored"),
        read_by=Reader.ENCODER,
    )
    cpu_devices: int = running_setting(
        1,
        "Number of logical devices to split the CPU into, to try a strategy.",
        at_least=1,
        at_most=1024,
        read_by=Reader.ENCODER,
    )
    jit_compile: str = running_setting(
        "auto",
        "Whether XLA compiles the step: once for each padded length, which "
        "takes seconds. `auto`: on a GPU, if not --deterministic.",
        choices=("auto", "true", "false"),
    )
    deterministic: bool = running_setting(
        False,
        "Same numbers from the same command, bit for bit; slower.",
        read_by=Reader.ENCODER,
    )

    # === Where it goes ===
    cache_dir: str = running_setting(
        "",
        "Folder for stored states and for downloads by pip. Unset: "
        "tf_transfer in the user's cache folder.",
        hashed=False,
        read_by=Reader.BASELINE,
    )
    checkpoint_minutes: float = running_setting(
        10.0,
        "Minutes between checkpoints inside an epoch.",
        hashed=False,
        above=0,
    )
    checkpoint_epochs: bool = running_setting(
        True,
        "Whether each epoch ends with a checkpoint. `false`: the last one "
        "alone, and those of --checkpoint_minutes; a search does so.",
        hashed=False,
    )
    rerun: bool = running_setting(
        False,
        "Run a finished run again, in a directory next to the old one.",
        hashed=False,
        read_by=Reader.BASELINE,
    )
    out: str = baseline_setting(
        "runs",
        "Root of the run directories.",
        hashed=False,
    )
    describe: bool = baseline_setting(
        False,
        "Print the table of components, parameters and what trains, and stop.",
        hashed=False,
    )

    # === Values of commands without the flag ===

    @property
    def score_test(self) -> bool:
        """Whether the test is scored after every epoch."""
        return True

    @property
    def max_seconds(self) -> float:
        """Seconds after which a run stops; 0 for no limit."""
        return 0.0

    # === Values derived from the settings ===

    @property
    def dtype_policy(self) -> str:
        """Keras' name of `precision`."""
        return "float32" if self.precision == "tf32" else self.precision

    @property
    def cache_folder(self) -> str:
        """The folder of stored states and downloads: the user's, if unset."""
        root = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser(
            "~/.cache"
        )
        return self.cache_dir or os.path.join(root, "tf_transfer")

    @property
    def runs_cached(self) -> bool:
        """Whether there is a frozen prefix, and it is run once."""
        return self.is_probe or (
            self.frozen_prefix == "cached" and self.freezes
        )

    @property
    def arithmetic(self) -> str:
        """The encoder's arithmetic: `float32`, `tf32` or `bfloat16`."""
        is_mixed = self.precision == "mixed_bfloat16"
        return "bfloat16" if is_mixed else self.precision

    @property
    def pass_engine(self) -> str:
        """The value of `--prefix_engine`; `auto` is resolved."""
        if self.prefix_engine != "auto":
            return self.prefix_engine
        is_faster = machine.versions()["openvino"] and not machine.has_gpu()
        return "openvino" if is_faster else "tensorflow"

    @property
    def pass_precision(self) -> str:
        """`float32`, `tf32` or `bfloat16`: the arithmetic of `pass_engine`."""
        if self.prefix_precision != "auto":
            return self.prefix_precision
        if self.pass_engine == "tensorflow":
            return self.arithmetic
        return "bfloat16" if machine.has_bfloat16() else "float32"

    @property
    def uses_xla(self) -> bool:
        """Whether XLA compiles the step, as `--jit_compile` has it here."""
        if self.jit_compile == "auto":
            return not self.deterministic and machine.has_gpu()
        return self.jit_compile == "true"

    def hashed(self) -> dict[str, Setting]:
        """The settings that can change a number, by name."""
        values = super().hashed()
        if not self.names_epochs:
            values.pop("max_epochs", None)
        if self.reads("frozen_prefix"):
            values["frozen_prefix"] = "cached" if self.runs_cached else "live"
        if "jit_compile" in values:
            values["jit_compile"] = self.uses_xla
        if self.reads("prefix_engine"):
            values["prefix_engine"] = self.pass_engine
            values["prefix_precision"] = self.pass_precision
        return values

    def check_settings(self) -> None:
        """Checks settings that exclude each other; each is valid by itself.

        Raises:
            UserError: Two do not go together; the message names the flag.
        """
        self.refuse_empty("out")
        if self.blocks and self.trainable_layers != "all":
            raise UserError(
                "--blocks and --trainable_layers both say what trains: give "
                "one."
            )
        if self.deterministic and self.jit_compile == "true":
            raise UserError(
                "--deterministic and --jit_compile=true exclude each other: "
                "TensorFlow turns XLA off where it must be deterministic. "
                "Give one."
            )
        if self.is_contrastive and not self.has_contrastive:
            raise UserError(
                "--method=contrastive: is for runs of tf_transfer.train. Give "
                "another method."
            )
        selects = self.reads("select") and self.select == "best"
        if selects and self.validation_fraction == 0:
            raise UserError(
                "--validation_fraction=0 leaves no texts to select the best "
                "epoch on: add --select=last."
            )
        has_openvino = machine.versions()["openvino"]
        if self.prefix_engine == "openvino" and not has_openvino:
            raise UserError(
                "--prefix_engine=openvino: OpenVINO is not installed. "
                "Install it: pip install 'tf_transfer[fast]'."
            )
        if self.cpu_devices > 1 and self.strategy != "mirrored":
            raise UserError(
                f"--cpu_devices={self.cpu_devices} needs --strategy=mirrored: "
                f"{self.strategy} uses one device of a process."
            )


# Settings that a search, a sweep or a user adds to a run, and that change none
# of its numbers: commands that are offered leave them out.
ADDED_FLAGS = (
    *("baseline", "max_seconds", "also_cache", "score_test"),
    "checkpoint_epochs",
    *("learning_curve", "rerun", "describe", "json"),
)
# Settings that select the weights to train; the usual learning rate depends on
# them.
WEIGHT_SETTINGS = {"trainable_layers", "blocks", "method", "features", "head"}
# Names of the options that a method alone reads.
METHOD_OPTIONS = tuple(
    field.name
    for field in dataclasses.fields(Settings)
    if "method" in field.metadata["needs"]
)


def pick(cls: type[T], settings: Settings, **values: "Value") -> T:
    """An instance of a small dataclass, its fields taken from settings.

    Args:
        cls: A dataclass whose fields are named as the settings are.
        settings: `Settings`.
        values: Fields that are given here instead.
    """
    names = {field.name for field in dataclasses.fields(cls)} - set(values)
    return cls(**{name: getattr(settings, name) for name in names}, **values)


def given_flags(settings: Settings, leave_out: Sequence[str]) -> Record:
    """The flags of a single run that differ from their defaults, by name.

    Args:
        settings: Of a run, or of a study.
        leave_out: Further names to leave out.
    """
    return {
        field.name: getattr(settings, field.name)
        for field in dataclasses.fields(settings)
        if field.metadata["is_flag"]
        and field.metadata["read_by"] < Reader.STUDY
        and field.name not in leave_out
        and getattr(settings, field.name) != field.default
    }


def offered_flags(
    settings: Settings, changes: Mapping[str, Setting]
) -> list[str]:
    """The flags of a run with some changes, for a command that is printed.

    It leaves out flags that a search or a sweep added (`ADDED_FLAGS`), flags
    without an effect, and defaults. The learning rate stays if the same weights
    train; else it is their usual one.

    Args:
        settings: Of the run.
        changes: Settings in place of the run's.
    """
    cls = type(settings)
    # A default that depends on the trained weights is that after the changes.
    values = _drop_usual(cls, given_flags(settings, ADDED_FLAGS))
    if WEIGHT_SETTINGS & changes.keys():
        values.pop("lr", None)
    values |= changes
    for name in cls(**values).unread():
        values.pop(name, None)
    values = _drop_usual(cls, values)
    return [f"--{name}={value}" for name, value in values.items()]


def _drop_usual(cls: type[Settings], values: Record) -> Record:
    """Drops flags whose value is the default that the others imply."""
    for name, value in [*values.items()]:
        others = {n: v for n, v in values.items() if n != name}
        try:
            usual = getattr(cls(**others).resolve(), name)
        except UserError:  # the run needs this flag
            continue
        if usual == value:
            values = others
    return values
