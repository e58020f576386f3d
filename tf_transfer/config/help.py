"""What `--help` says: the flags by purpose, the ones to know first."""

import textwrap
from collections.abc import Iterable
from collections.abc import Sequence
from typing import Any

from absl import flags

FIRST = "The ones to know"
OWN = "Of this command"
# Flags by purpose. What is in none of these is the command's own, and comes
# second.
GROUPS: dict[str, tuple[str, ...]] = {
    FIRST: (
        "task",
        "tasks",
        "budget",
        "data",
        "text_column",
        "label_column",
        "model",
        "features",
        "trainable_layers",
        "lr",
        "max_epochs",
        "batch_size",
        "seed",
        "out",
        "describe",
        "run",
        "text",
        "input",
        "output",
    ),
    OWN: (),
    "A table of your own, and the texts": (
        "kind",
        "metric",
        "test_fraction",
        "encoding",
        "max_length",
        "long_texts",
        "duplicates",
        "max_train_examples",
        "validation_fraction",
        "split_seed",
    ),
    "What is trained": (
        "blocks",
        "method",
        "lora_rank",
        "lora_alpha",
        "lora_targets",
        "adapter_width",
        "adapter_kind",
        "freeze_schedule",
        "freeze_percentile",
        "keep_blocks",
        "head",
        "pooling",
        "pairs",
        "dropout",
        "head_dropout",
        "loss_head",
        "class_weights",
        "layer_decay",
    ),
    "The optimizer": (
        "schedule",
        "warmup_fraction",
        "weight_decay",
        "bias_correction",
        "clip_norm",
        "batching",
        "adam_beta1",
        "adam_beta2",
        "adam_epsilon",
    ),
    "Stopping and selection": (
        "select",
        "patience",
        "min_delta",
        "max_seconds",
    ),
    "The frozen blocks": ("frozen_prefix", "cache_dtype", "cache_limit_gb"),
    "How it runs": (
        "precision",
        "strategy",
        "cpu_devices",
        "jit_compile",
        "deterministic",
        "cache_dir",
        "checkpoint_minutes",
        "rerun",
    ),
}
WIDTH = 79
INDENT = " " * 6


def is_asked(words: Iterable[str]) -> bool:
    """Whether a command's words ask for help."""
    names = ("help", "h", "helpshort", "helpfull")
    return any(word.lstrip("-") in names for word in words if word[:1] == "-")


def describe(document: str, known: Sequence[flags.Flag]) -> str:
    """The text of `--help`.

    Args:
        document: the module's docstring; its indented lines are examples.
        known: the command's flags.
    """
    title, _, rest = document.strip().partition("\n\n")
    examples = [line for line in rest.splitlines() if line.startswith("    ")]
    prose = "\n".join(
        line for line in rest.splitlines() if not line.startswith("    ")
    )
    parts = [title, ""]
    by_name = {flag.name: flag for flag in known}
    grouped = {name for names in GROUPS.values() for name in names}
    own = [flag.name for flag in known if flag.name not in grouped]
    for group, names in GROUPS.items():
        members = own if group == OWN else [n for n in names if n in by_name]
        if members:
            parts.append(f"{group}:")
            parts += [_describe_flag(by_name[name]) for name in members]
            parts.append("")
    parts += ["--flagfile=FILE reads flags from a file, one a line.", ""]
    parts += [
        paragraph for paragraph in prose.strip().split("\n\n") if paragraph
    ]
    return "\n".join(
        [*parts, "", "Examples:", *examples] if examples else parts
    )


def _describe_flag(flag: flags.Flag) -> str:
    name = f"[no]{flag.name}" if flag.boolean else flag.name
    values: Any = getattr(flag.parser, "enum_values", None)
    said = flag.help or ""
    if values:
        said = f"<{'|'.join(values)}> {said}"
    if flag.default not in (None, "", []):
        said = f"{said} (default: {_as_text(flag.default)})"
    return f"  --{name}:\n" + textwrap.fill(
        said, WIDTH, initial_indent=INDENT, subsequent_indent=INDENT
    )


def _as_text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return str(value).lower() if isinstance(value, bool) else str(value)
