"""The best training for your texts, within the time you have.

    python -m tf_transfer.search --task=mine.toml --model=minilm --budget=30m
    python -m tf_transfer.search --task=mine.toml --model=minilm --budget=1h \\
        --max_loss=1
    python -m tf_transfer.search --task=mine.toml --models=minilm,FOLDER \\
        --budget=1h
    python -m tf_transfer.search --task=mine.toml --model=minilm --dry_run

It reports what to train and at what rate, what that gains over the probe and
the TF-IDF baseline, and what it costs: a sentence and a table on the screen,
and OUT/search.html. The trained model is there.

A search is a ladder of grids (docs/search.md): the TF-IDF baseline and the
probe; the cheapest approach and the largest that fit, at their usual rates;
every approach for half of the epochs; the other rates of the best one; the best
settings with other seeds; and the answer once more on all labelled texts. Every
run is a run of `tf_transfer.train`. Decisions use validation scores alone: the
test is scored once, at the end, for the answer.

--budget is the time from the command's start to its answer. Ctrl-C gives the
answer so far; the same command with a larger budget continues.
"""

import dataclasses
import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import tf_transfer
from tf_transfer import train
from tf_transfer.config import command_line
from tf_transfer.config.fields import Reader, Setting, setting
from tf_transfer.own import table_source
from tf_transfer.runs import disk
from tf_transfer.utils import formatting, screen
from tf_transfer.utils.errors import UserError

if TYPE_CHECKING:
    from tf_transfer.searches.controller import Search

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
    *("precision", "strategy", "jit_compile", "deterministic", "out"),
)


@dataclasses.dataclass(frozen=True)
class Settings(
    train.Settings,
    defaults={"refit": True, "out": ""},
    help={
        "models": "Encoders with commas between, each as --model has it (in "
        "quotes if its name has a comma): rank them by their probes first, and "
        "search with the best.",
        "max_epochs": "Epochs of a run at a constant rate. Unset: as many as "
        "tf_transfer.train takes.",
        "method": "What trains inside of the blocks: `full`, every weight; "
        "`lora`, `bias`, `norm` or `contrastive` (docs/methods.md).",
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
        return {**super().defaults(), "out": out}

    def check(self) -> None:
        """Raises `UserError`, naming the flag, for an invalid value."""
        super().check()
        parse_budget(self.budget)
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
    def seconds(self) -> float:
        """Seconds of the budget."""
        return parse_budget(self.budget)


def parse_budget(text: str) -> float:
    """Seconds of a budget such as `90s`, `30m`, `2h` or `1h30m`.

    Raises:
        UserError: it is no such time, or has no unit.
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


def open_search(settings: Settings, began: float) -> "Search":
    """A search, with the best of several encoders, which are ranked first.

    Args:
        settings: any.
        began: see `Search`.

    Raises:
        UserError: see `Search`.
    """
    settings = settings.resolve()
    if settings.own_data:
        # Reports what is wrong with the table before all else.
        _ = table_source.TableSource(
            settings.own_task, settings.split_seed, settings.out
        ).task
    if settings.models:
        ranking = train.rank(settings, train.split_names(settings.models))
        screen.say(ranking.text)
        settings = dataclasses.replace(
            settings, model=ranking.model, models=""
        ).resolve()
    from tf_transfer.searches.controller import Search  # loads pandas and scipy

    return Search(settings, began)


def main(argv: Sequence[str] = ()) -> None:
    """Reads the flags; searches, and prints the answer."""
    command_line.refuse_words(argv)
    settings = command_line.from_flags(Settings)
    search = open_search(settings, tf_transfer.IMPORT_TIME)
    if settings.dry_run:
        print(search.describe_rungs())
    else:
        search.run()
        disk.print_used(settings.resolve().out, settings.cache_dir)


if __name__ == "__main__":
    command_line.command(main, Settings)
