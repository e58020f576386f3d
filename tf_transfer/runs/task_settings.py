"""Settings of experiments that learn one task, built in or your own."""

import dataclasses
import os
import re
from collections.abc import Mapping
from typing import ClassVar, NamedTuple, TypeVar, Unpack

from tf_transfer.config import fields, settings as settings_lib
from tf_transfer.config.fields import (
    baseline_setting,
    Reader,
    Setting,
    setting,
    texts_setting,
    training_setting,
)
from tf_transfer.config.recipe import GRADIENT_HEAD
from tf_transfer.data import registry
from tf_transfer.data.task import KINDS
from tf_transfer.models import loading, methods
from tf_transfer.own import task_file
from tf_transfer.utils import screen
from tf_transfer.utils.errors import UserError
from tf_transfer.utils.formatting import cut
from tf_transfer.utils.json_files import Record

# Of the flags that describe a table; the identity of the data covers them.
TABLE: Record = {
    "hashed": False,
    "read_by": Reader.BASELINE,
    "needs": {"own_data": "table"},
}


class Rates(NamedTuple):
    """Learning rates for every weight, the last blocks, the head alone."""

    everything: float
    blocks: float
    head: float

    def of(self, trainable_layers: str) -> float:
        """The rate where `--trainable_layers` trains every weight of it."""
        named = {"all": self.everything, "0": self.head, "head": self.head}
        return named.get(trainable_layers, self.blocks)

    @property
    def help(self) -> str:
        """The help text of `--lr`."""
        return (
            f"Learning rate. Unset: {self.everything:g} for `all`, "
            f"{self.blocks:g} for the last blocks, {self.head:g} for the head "
            "alone, the method's own for others than `full`."
        )


@dataclasses.dataclass(frozen=True)
class RunSettings(settings_lib.Settings):
    """The shared settings of runs whose rate depends on what trains.

    `--task` may be a task file of the user's own.
    """

    usual_rates: ClassVar[Rates | None] = None
    usual_length: ClassVar[int] = 128  # tokens of a text without --max_length

    def __init_subclass__(
        cls,
        rates: Rates | None = None,
        help: Mapping[str, str] = fields.EMPTY,
        **keywords: Unpack[fields.Keywords],
    ) -> None:
        """Further takes the learning rates without `--lr`."""
        if rates is not None:
            cls.usual_rates = rates
            help = {"lr": rates.help, **help}
        super().__init_subclass__(help=help, **keywords)

    # === What commands without the flag have in its place ===

    @property
    def task(self) -> str:
        """The name of the task, or its task file."""
        return ""

    @property
    def pooling(self) -> str:
        """The pooling that the head reads."""
        return "cls"

    @property
    def pairs(self) -> str:
        """How a pair is read."""
        return "cross"

    # === What follows from the settings ===

    @property
    def own_data(self) -> str:
        """The user's own texts: `task_file`, `table`, or "" for none."""
        return "task_file" if task_file.is_task_file(self.task) else ""

    @property
    def own_task(self) -> task_file.TaskFile:
        """The description of a task of the user's own."""
        return task_file.read_task_file(self.task)

    @property
    def task_name(self) -> str:
        """The task's name in folders and tables."""
        return self.own_task.name if self.own_data else self.task

    @property
    def task_names(self) -> list[str]:
        """The names of the tasks that train."""
        return [self.task_name]

    def defaults(self) -> dict[str, Setting]:
        """The learning rate, by what is trained; the length of texts."""
        values: dict[str, Setting] = {}
        if self.max_length is None:
            values["max_length"] = self._find_length()
        if self.lr is None and self.usual_rates is not None:
            usual = self.usual_rates.of(self.blocks or self.phases[-1])
            values["lr"] = methods.load(self.method).lr or usual
        return values

    def _find_length(self) -> int:
        """The usual length, or that of the encoder if it is shorter."""
        length = self.usual_length
        if self.reads("max_length"):
            most = loading.find_positions(self.model)
            if most is not None and most < length:
                screen.notify_once(
                    f"--max_length: {most} tokens, not the usual {length}, "
                    f"since {self.model} has no more positions."
                )
                return most
        return length

    def hashed(self) -> dict[str, Setting]:
        """The settings that can change a number, by name."""
        values = super().hashed()
        if "task" in values:
            values["task"] = self.task_name
        return values


# The settings of an experiment: those of a paper or of `train`.
SettingsT = TypeVar("SettingsT", bound=RunSettings, covariant=True)


@dataclasses.dataclass(frozen=True)
class TaskSettings(RunSettings):
    """The shared settings, the task, and the choices of a single one."""

    task: str = baseline_setting(
        "rte",
        f"The task: {', '.join(registry.DATA_SETS)}; or a task file of your "
        "own, such as mine.toml.",
    )
    features: str = baseline_setting(
        "bert",
        "`bert`, an encoder that trains, with a head; `frozen`, the probe: a "
        "regression on states of the frozen encoder (docs/guides/probe.md).",
        choices=("bert", "frozen"),
        unnamed="bert",
    )
    keep_blocks: int = training_setting(
        0,
        "Number of the encoder's first blocks to keep; the others are dropped "
        "for good, in training, prediction and exports. 0 keeps all.",
        at_least=0,
        unnamed=0,
        read_by=Reader.ENCODER,
    )
    head: str = training_setting(
        "linear",
        "The head on the pooled vector: `linear`, one dense layer; `mlp`, a "
        "dense GELU layer of the encoder's width below that.",
        choices=("linear", "mlp"),
        unnamed="linear",
        needs=GRADIENT_HEAD,
    )
    pooling: str = training_setting(
        "cls",
        "What the head reads: `cls`, [CLS] through the pooler; `cls_state`, "
        "[CLS] as the last block leaves it; `mean`, the mean of all tokens; "
        "`last4`, [CLS] above each of the last four blocks, concatenated.",
        choices=("cls", "cls_state", "mean", "last4"),
        needs=GRADIENT_HEAD,
    )
    pairs: str = training_setting(
        "cross",
        "How a pair is read: `cross`, both texts in one row; or `sbert`, each "
        "by itself, u and v, and the head reads (u, v, |u - v|).",
        choices=("cross", "sbert"),
        needs=GRADIENT_HEAD,
    )
    loss_head: str = training_setting(
        "sigmoid",
        "The output for two classes: the sigmoid of one unit, or the softmax "
        "of two.",
        choices=("sigmoid", "softmax"),
        unnamed="sigmoid",
        needs=GRADIENT_HEAD,
    )

    # === A table of your own, without a task file ===
    text_column: str = setting(
        "",
        "The column of the texts in --data=FILE (CSV, TSV, JSON lines, "
        "Parquet, Excel); two with a comma between are a pair.",
        **TABLE,
    )
    label_column: str = setting(
        "",
        "The column of the labels in --data=FILE.",
        **TABLE,
    )
    group_column: str = texts_setting(
        "",
        "The column of a text's author, patient or document in --data=FILE. "
        "The rows of each stay in one split and fold, and intervals resample "
        "whole groups.",
        **TABLE,
    )
    kind: str = texts_setting(
        "classes",
        "The kind of the labels in --data=FILE; `labels` are several per text.",
        choices=KINDS,
        **TABLE,
    )
    metric: str = texts_setting(
        "",
        "The metric that selects, stops and ranks, for --data=FILE. Unset: "
        "accuracy, f1_micro for several labels, spearman for a score, f1 for "
        "entities. `f1`, `precision` and `recall` of two classes are of the "
        "label that is last when sorted.",
        **TABLE,
    )
    test_fraction: float = texts_setting(
        0.1,
        "Fraction of --data=FILE that is tested, stratified, drawn by "
        "--split_seed.",
        above=0,
        below=1,
        **TABLE,
    )
    encoding: str = texts_setting(
        "",
        "Encoding of --data=FILE, a CSV or TSV. Unset: detected.",
        **TABLE,
    )
    skip_bad_rows: bool = texts_setting(
        False,
        "Leave out rows of --data=FILE that cannot be used, and write them "
        "to a file in --out.",
        **TABLE,
    )
    ignore_labels: str = texts_setting(
        "",
        "Labels of --data=FILE, with commas between, that stand for none, "
        "such as -1,unknown. Their rows are left out.",
        **TABLE,
    )
    label_separator: str = texts_setting(
        "",
        "The text between the labels of a cell, with --data=FILE and "
        "--kind=labels. Unset: found in the cells; lists need none.",
        **{**TABLE, "needs": {"own_data": "table", "kind": "labels"}},
    )
    duplicates: str = texts_setting(
        "keep",
        "`group` keeps texts of --data=FILE that are the same, apart from "
        "case and space, in one split.",
        choices=("keep", "group"),
        **TABLE,
    )

    def check_settings(self) -> None:
        """Raises `UserError`, naming the flag, for an invalid value."""
        super().check_settings()
        is_name = not self.task or re.fullmatch(settings_lib.NAME, self.task)
        if self.own_data != "task_file" and not is_name:
            raise UserError(
                f"--task={cut(self.task)}: becomes a folder's name: give 1 to "
                "100 characters without / and \\ and line breaks, not `..`."
            )
        if not self.own_data:
            registry.check(self.task)

    @property
    def own_data(self) -> str:
        """The user's own texts: `task_file`, `table`, or "" for none."""
        if super().own_data:
            return "task_file"
        return "table" if task_file.is_table(self.data) else ""

    @property
    def own_task(self) -> task_file.TaskFile:
        """The description of a task of the user's own."""
        if self.own_data == "task_file":
            return super().own_task
        default = self.__dataclass_fields__["task"].default
        if self.task in registry.DATA_SETS and self.task != default:
            raise UserError(
                f"--task={self.task}: has data of its own, and --data="
                f"{self.data} is a table of yours. Give the task another name."
            )
        return task_file.from_flags(
            self.data,
            "" if self.task == default else self.task,
            self.text_column,
            self.label_column,
            self.kind,
            self.metric,
            self.test_fraction,
            self.group_column,
            self.duplicates,
            self.encoding,
            self.skip_bad_rows,
            self.label_separator,
            self.ignore_labels,
        )

    def unread(self) -> list[str]:
        """Names of the flags that a run with these settings does not read.

        The key names the fraction of the validation set even if it is unused.
        """
        names = super().unread()
        if (
            self.own_data == "task_file"
            and os.path.isfile(self.task)
            and self.own_task.validation
        ):
            names.append("validation_fraction")
        return names
