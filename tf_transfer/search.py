"""The best training for your texts, within the time you have.

    python -m tf_transfer.search --task=mine.toml --model=minilm --budget=30m
    python -m tf_transfer.search --task=mine.toml --model=minilm --budget=1h \\
        --max_loss=1

It reports what to train and at what rate, the loss compared with training
everything, and whether the encoder beats the TF-IDF baseline: ten lines on the
screen, and OUT/search.html. The trained model is there.

Every run is a run of `tf_transfer.train`, at a constant rate for 1, 2, 4, ...
epochs, so that it can be continued. The next run is the one with the highest
expected gain per second (tf_transfer/searches/planner.py). Its seconds are its
operations, feature caches included, at the speed of the last run.
In the end the best run is trained again with a rate that falls to zero, and the
best of the first three approaches with other seeds. Decisions use validation
scores alone: the test is scored once, at the end, for the answer.

--budget is the time from the command's start to its answer. Ctrl-C gives the
answer so far; the same command with a larger budget continues.
"""

import dataclasses
import os
import re
from typing import Any

import tf_transfer
from tf_transfer import train
from tf_transfer.config import command_line
from tf_transfer.config.fields import LARGEST_INT, Reader, setting
from tf_transfer.data import table_source
from tf_transfer.searches.space import DECIDED, split_values, VARIED
from tf_transfer.utils import formatting
from tf_transfer.utils.errors import UserError

OBJECTIVES = ("score", "seconds_at_prediction", "parameters")
LAYERS = "(?:all|head|0|[1-9][0-9]{0,3})"


@dataclasses.dataclass(frozen=True)
class Settings(
    train.Settings,
    defaults={"max_epochs": 16, "refit": True, "out": ""},
    help={
        "max_epochs": "Largest number of epochs of a run.",
        "refit": "In the end, where the time allows, train the answer once "
        "more on training and validation texts together, for as many updates.",
        "out": "Root of the run directories. Unset: searches/TASK.",
    },
):
    """The settings of `tf_transfer.train`, and those of the search itself."""

    budget: str = setting(
        "",
        "Time from the start to the answer, such as 90s, 30m, 2h or 1h30m.",
        read_by=Reader.STUDY,
    )
    approaches: str = setting(
        "",
        "Values of a run's --trainable_layers to try, such as 0,1,2,all. "
        "Unset: 0, 1, 2, 4, ... and all.",
        pattern=f"|{LAYERS}(?:,{LAYERS})*",
        advice="give numbers of last blocks, `all` and `head`, such as "
        "0,1,2,all.",
        read_by=Reader.STUDY,
    )
    methods: str = setting(
        "",
        "Also vary --method, such as full,lora.",
        read_by=Reader.STUDY,
    )
    poolings: str = setting(
        "",
        "Also vary --pooling, such as cls,mean.",
        read_by=Reader.STUDY,
    )
    lengths: str = setting(
        "",
        "Also vary --max_length, such as 64,128.",
        read_by=Reader.STUDY,
    )
    batch_sizes: str = setting(
        "",
        "Also vary --batch_size, such as 16,32.",
        read_by=Reader.STUDY,
    )
    depths: str = setting(
        "",
        "Also vary --keep_blocks, such as 0,3. Unset: all blocks, and with "
        "--objective=seconds_at_prediction half of them as well.",
        read_by=Reader.STUDY,
    )
    objective: str = setting(
        "score",
        "The goal, among approaches within --max_loss of the best: `score`, "
        "the highest score, or with --max_loss the cheapest to train; "
        "`seconds_at_prediction`, the fastest to predict; `parameters`, the "
        "fewest trained parameters.",
        choices=OBJECTIVES,
        read_by=Reader.STUDY,
    )
    max_loss: float = setting(
        None,
        "Points of validation that the answer may lose against the best. "
        "Unset: none for `score`, 1 for the others.",
        at_least=0,
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

    def unread(self) -> list[str]:
        """The options of methods that no run has; what a search decides."""
        unread = set(super().unread())
        for method in split_values("methods", self.methods):
            run = dataclasses.replace(self, method=method, methods="")
            unread &= set(run.unread())
        return [*unread, *DECIDED]

    def defaults(self) -> dict[str, Any]:
        """The defaults of a run and of a search; the root of its runs."""
        values = super().defaults()
        if self.max_loss is None:
            values["max_loss"] = 0.0 if self.objective == "score" else 1.0
        if not self.out:
            values["out"] = os.path.join("searches", self.task_name)
        return values

    def check(self) -> None:
        """Raises `UserError`, naming the flag, for an invalid value."""
        super().check()
        parse_budget(self.budget)
        for flag in (*VARIED, "approaches"):
            split_values(flag, getattr(self, flag))

    @property
    def seconds(self) -> float:
        """Seconds of the budget."""
        return parse_budget(self.budget)


def parse_budget(text: str) -> float:
    """Seconds of a budget such as `90s`, `30m`, `2h` or `1h30m`.

    Raises:
        UserError: it is no such time, or has no unit.
    """
    short = formatting.cut(text)
    number = r"(\d+(?:\.\d+)?)"
    match = re.fullmatch(f"(?:{number}h)?(?:{number}m)?(?:{number}s)?", text)
    counts = match.groups(default="0") if match else ()
    seconds = sum(float(n) * unit for n, unit in zip(counts, (3600, 60, 1)))
    if not seconds:
        raise UserError(
            f"--budget={short}: give the time that you have in seconds, "
            "minutes or hours, such as 90s, 30m, 2h or 1h30m."
        )
    if seconds > LARGEST_INT:
        raise UserError(f"--budget={short}: is more than a lifetime.")
    return seconds


def main() -> None:
    """Reads the flags; searches, and prints the answer."""
    settings = command_line.from_flags(Settings).resolve()
    if settings.own_data:
        # Reports what is wrong with the table before all else.
        _ = table_source.TableSource(
            settings.own_task, settings.split_seed, settings.out
        ).task
    from tf_transfer.searches.search import Search  # loads pandas and scipy

    Search(settings, tf_transfer.IMPORT_TIME).run()


if __name__ == "__main__":
    command_line.start(main, Settings)
