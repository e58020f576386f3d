"""The settings of a search."""

import dataclasses
import os
import re

from tf_transfer import train
from tf_transfer.config.fields import Reader, Setting, setting
from tf_transfer.utils import formatting, machine
from tf_transfer.utils.errors import UserError

LAYERS = "(?:all|head|0|[1-9][0-9]{0,3})"
# The settings of a run that a search has flags for. It decides the others
# itself, or leaves them at their defaults.
FLAGS = (
    *("task", "data", "text_column", "label_column", "group_column", "kind"),
    *("metric", "test_fraction", "encoding", "skip_bad_rows"),
    *("ignore_labels", "label_separator", "duplicates"),
    *("max_train_examples", "validation_fraction", "split_seed"),
    *("model", "models", "keep_blocks", "max_length", "long_texts"),
    *("method", "lora_rank", "class_weights", "pooling", "pairs"),
    *("batch_size", "batching", "max_epochs", "refit"),
    *("prefix_engine", "prefix_precision", "cache_limit_gb", "cache_dir"),
    *("precision", "strategy", "jit_compile", "deterministic", "out", "json"),
)


@dataclasses.dataclass(frozen=True)
class Settings(
    train.Settings,
    defaults={
        "refit": True,
        "out": "",
        "validation_fraction": 0.2,
        "precision": "auto",
    },
    changes={
        "precision": {"choices": ("auto", "float32", "tf32", "mixed_bfloat16")}
    },
    help={
        "models": "Encoders with commas between, each as --model has it (in "
        "quotes if its name has a comma): rank them by their probes first, and "
        "search with the best.",
        "validation_fraction": "Share of the labelled texts that each fold "
        "holds out.",
        "precision": "See tf_transfer.train; `auto`: bfloat16 if "
        "the processor has it, else float32.",
        "max_epochs": "Epochs of every run. Unset: as many as "
        "tf_transfer.train takes, and twice as many for the best.",
        "method": "What trains inside of the blocks: `full`, every weight; "
        "`lora`, `bias`, `norm` or `contrastive` (docs/guides/methods.md).",
        "refit": "In the end, where the time allows, train the answer once "
        "more on training and validation texts together, for as many updates.",
        "out": "Root of the run directories. Unset: searches/TASK.",
    },
    flags=FLAGS,
):
    """The settings of `tf_transfer.train`, and those of the search itself."""

    budget: str = setting(
        "",
        "Time from the start to the answer, such as 90s, 30m, 2h or 1h30m.",
        read_by=Reader.STUDY,
    )
    approaches: str = setting(
        "",
        "Values of a run's --trainable_layers to try, such as 1,2,all. "
        "Unset: 1, 2, 4, ... and all.",
        pattern=f"|{LAYERS}(?:,{LAYERS})*",
        advice="give numbers of last blocks, `all` and `head`, such as "
        "1,2,all.",
        read_by=Reader.STUDY,
    )
    max_loss: float = setting(
        0.0,
        "Points of validation that the answer may lose against the best, if "
        "it is cheaper to train.",
        at_least=0,
        read_by=Reader.STUDY,
    )
    dry_run: bool = setting(
        False,
        "Print the runs of each rung and their estimated time, and stop.",
        read_by=Reader.STUDY,
    )
    jobs: int = setting(
        None,
        "Number of runs at the same time. Unset: one, or one on each GPU.",
        at_least=1,
        read_by=Reader.STUDY,
    )
    engine: str = setting(
        "local",
        "Workers run on this machine (`local`), or on the nodes of a Ray "
        "cluster (`ray`), which all see --out.",
        choices=("local", "ray"),
        read_by=Reader.STUDY,
    )
    ray_address: str = setting(
        "",
        "Address of the Ray cluster of --engine=ray, HOST:PORT. Unset, or "
        "`auto`: the cluster of this machine.",
        read_by=Reader.STUDY,
        needs={"engine": "ray"},
    )

    @property
    def reader(self) -> Reader:
        """A search reads the settings of a run and its own."""
        return Reader.STUDY

    def defaults(self) -> dict[str, Setting]:
        """The root of the runs; their other defaults are their own."""
        out = self.out or os.path.join("searches", self.task_name)
        values = {**super().defaults(), "out": out}
        values.pop("batch_size", None)  # each run has its own
        return values

    def check_settings(self) -> None:
        """Raises `UserError`, naming the flag, for an invalid value."""
        super().check_settings()
        parse_budget(self.budget)
        if self.json and self.dry_run:
            raise UserError(
                "--json: is the answer of a search, and --dry_run has none. "
                "Leave one of them out."
            )
        layers = self.layers
        if len({*layers}) < len(layers):
            raise UserError(
                f"--approaches={formatting.cut(self.approaches)}: give each "
                "value once."
            )

    @property
    def layers(self) -> list[str]:
        """The values of --approaches; none if it is unset."""
        return self.approaches.split(",") if self.approaches else []

    @property
    def usual_precision(self) -> str:
        """The precision of all runs."""
        if self.precision != "auto":
            return self.precision
        return "mixed_bfloat16" if machine.has_bfloat16() else "float32"

    @property
    def seconds(self) -> float:
        """Seconds of the budget."""
        return parse_budget(self.budget)


def parse_budget(text: str) -> float:
    """Seconds of a budget such as `90s`, `30m`, `2h` or `1h30m`.

    Raises:
        UserError: It is no such time, or has no unit.
    """
    number = r"(\d{1,9}(?:\.\d+)?)"
    match = re.fullmatch(f"(?:{number}h)?(?:{number}m)?(?:{number}s)?", text)
    counts = match.groups(default="0") if match else ()
    seconds = sum(float(n) * unit for n, unit in zip(counts, (3600, 60, 1)))
    if not seconds:
        raise UserError(
            f"--budget{'=' if text else ''}{formatting.cut(text)}: give the "
            "time that you have, such as 90s, 30m, 2h or 1h30m."
        )
    return seconds
