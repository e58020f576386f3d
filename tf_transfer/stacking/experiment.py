"""To tune or not to tune: a large head first, then everything.

Ran Wang, Haibo Su, Chunye Wang, Kailin Ji, Jupeng Ding, "To Tune or Not To
Tune? How About the Best of Both Worlds?" (arXiv 1907.05338). Training a large
head on the frozen encoder for a few epochs, not to its best, and then
everything at a small rate, is better than fine-tuning BERT with a small head.

    python -m tf_transfer.stacking --task=ner --head=bilstm
    python -m tf_transfer.stacking --task=ner --adaptation=finetune_only
    python -m tf_transfer.stacking --task=pairs --adaptation=stack_only

As in the paper: the first phase at 1e-3; dropout 0.1 on all layers; Kaiming
initialisation; BERT's Adam with weight decay; fine-tuning alone with two dense
layers. The paper's other settings are not in our copy. Ours: 2e-5 in the second
phase; five epochs in the first and three in the second, or of the head alone;
batch 32; decay 0.01; the cased encoder for entities; the last epoch of a phase
is its result. Sizes of heads: see `heads`.

When to leave the first phase, the paper leaves open ("only for a few epochs",
while accuracies "do not differ much"): after --phase_one_epochs, or, of those,
at the last whose accuracies on the training set and on validation differ by no
more than --phase_one_gap. Training accuracy is that of a fixed
sample as large as the validation set, without dropout; both are recorded.

For entities a loss is the mean over the words of a batch. Sentences longer than
--max_length are cut between words; every word is scored.
"""

import dataclasses
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tf_transfer import experiment
from tf_transfer.config.fields import (
    Changes,
    Setting,
    setting,
    texts_setting,
    training_setting,
)
from tf_transfer.data import conll, cs224n, glue, splits, yahoo
from tf_transfer.data.task import Source, Task, Texts
from tf_transfer.own import held_out, task_file
from tf_transfer.own.task_file import SplitOrigin
from tf_transfer.runs import run_data, task_settings
from tf_transfer.stacking import heads
from tf_transfer.utils.errors import UserError
from tf_transfer.utils.json_files import Record

if TYPE_CHECKING:
    from keras.layers import Layer

    from tf_transfer.models.encoder import Encoder
    from tf_transfer.training.objectives import Objective, Phase

# What trains in each phase, by `--adaptation`.
ADAPTATIONS = {
    "finetune_only": ("all",),
    "stack_only": ("head",),
    "stack_and_finetune": ("head", "all"),
    "joint": ("all",),
    "two_rates": ("all",),
}
BIG_HEADS = {"ner": "bilstm", "text": "densenet", "pairs": "sim_transformer"}
TEST_FRACTION = 0.1  # of a table's different texts
LR = 2e-5
GAP = 0.01  # of accuracies, at the end of the first phase
RECIPE: dict[str, Setting] = {
    "model": "",
    "max_epochs": 3,
    "batch_size": 32,
    "patience": 0,
    "min_delta": 0.0,
    "select": "last",
}
HELP = {
    "data": "ner: `tfds`, or a folder with eng.train, eng.testa, eng.testb. "
    "text: a folder with Yahoo's train.csv and test.csv, or a CSV or TSV. "
    "pairs: `tfds` (GLUE's QQP), a folder of the official GLUE files, or of "
    "the CS224N project's; `sample`; or, for an encoder that has seen Quora's "
    "pairs before, the folder MRPC of the former.",
    "model": "The encoder, as elsewhere. Unset: bert_base_en for ner, "
    "bert_base_en_uncased for the others.",
    "lr": f"Learning rate of training everything. Unset: {LR:g}; the method's "
    "own for others than `full`.",
    "max_epochs": "Epochs of training everything; with stack_only, of the "
    "head.",
    "select": "Which epoch of training everything is the result: the best on "
    "validation, or the last.",
}
# Further conditions for being read.
FOR_TEXTS: Changes = {"needs": {"head_kind": ("text", "pairs")}}
FOR_SELECTION: Changes = {"needs": {"selects_by_gap": False}}
CHANGES: dict[str, Changes] = {
    "long_texts": FOR_TEXTS,
    "class_weights": FOR_TEXTS,
    "select": FOR_SELECTION,
    "patience": FOR_SELECTION,
    "min_delta": FOR_SELECTION,
}
# The flags of the heads' sizes.
SIZES = {
    name: setting(
        size.default,
        f"{', '.join(size.heads)}: {size.help}",
        at_least=size.least,
        at_most=size.most,
        unnamed=size.unnamed,
        needs={"head_name": size.heads},
    )
    for name, size in heads.SIZES.items()
}


@dataclasses.dataclass(frozen=True)
class Settings(
    task_settings.RunSettings,
    defaults=RECIPE,
    help=HELP,
    changes=CHANGES,
    further=SIZES,
    rates=task_settings.Rates(LR, LR, LR),
):
    """The shared settings with the paper's defaults, and its choices."""

    task: str = setting(
        "ner",
        "`ner`, entities of CoNLL-2003; `text`, two classes of Yahoo Answers, "
        "or a table of your own; `pairs`, Quora's question pairs; or a task "
        "file of your own, such as mine.toml.",
    )
    classes: str = setting(
        yahoo.DEFAULT_CLASSES,
        "The two of Yahoo Answers' ten classes, by number or name.",
        needs={"task": "text"},
    )
    text_column: str = setting(
        "text",
        "The column of the texts in a table.",
        hashed=False,  # the identity of the table is
        needs={"own_data": "table"},
    )
    label_column: str = setting(
        "label",
        "The column of the labels in a table.",
        hashed=False,  # the identity of the table is
        needs={"own_data": "table"},
    )
    encoding: str = texts_setting(
        "",
        "Encoding of a table. Unset: detected.",
        hashed=False,
        needs={"own_data": "table"},
    )
    head: str = training_setting(
        "",
        " ".join(
            f"{kind}: {', '.join(heads.HEADS[kind])}." for kind in BIG_HEADS
        )
        + " Unset: dense for finetune_only, else "
        + ", ".join(BIG_HEADS.values())
        + ".",
    )
    pooling: str = training_setting(
        "cls",
        "What the dense head reads of a text: [CLS] through the pooler, or as "
        "the last block leaves it.",
        choices=("cls", "cls_state"),
        needs={"head_name": "dense", "head_kind": ("text", "pairs")},
    )
    pairs: str = training_setting(
        "cross",
        "How the dense head reads a pair: `cross`, both texts in one row; or "
        "`sbert`, each by itself, as for BiMPM and Sim-Transformer, u and v, "
        "and the head reads (u, v, |u - v|).",
        choices=("cross", "sbert"),
        needs={"head_name": "dense", "head_kind": "pairs"},
    )
    adaptation: str = setting(
        "stack_and_finetune",
        "`finetune_only`: everything, with the dense head. `stack_only`: the "
        "head on the frozen encoder. `stack_and_finetune`: the one, then "
        "everything. `joint`: everything from the first step, any head. "
        "`two_rates`: the same, with the head at --head_lr (ours, a control).",
        choices=tuple(ADAPTATIONS),
    )
    head_lr: float = setting(
        1e-3,
        "Learning rate of the first phase; with two_rates, of the head.",
        above=0,
        needs={"has_head_lr": True},
    )
    phase_one_epochs: int = setting(
        5,
        "Epochs of the first phase.",
        at_least=1,
        needs={"adaptation": "stack_and_finetune"},
    )
    phase_one_gap: float = setting(
        None,
        "The first phase ends with its last epoch whose accuracies on training "
        "and validation set differ by this much at most (below 0: with its "
        f"last). Unset: {GAP:g}; with stack_only, below 0.",
        needs={"freezes": True},
    )

    @property
    def approach(self) -> str:
        """The adaptation and the head."""
        return f"{self.adaptation}_{self.head}{self.method_label}"

    @property
    def phases(self) -> tuple[str, ...]:
        """The weights that train in each phase: `head` or `all`."""
        return ADAPTATIONS[self.adaptation]

    @property
    def phase_epochs(self) -> tuple[int, ...]:
        """The largest number of epochs of each of `phases`."""
        epochs = (self.phase_one_epochs, self.max_epochs)
        return epochs[-len(self.phases) :]

    @property
    def own_data(self) -> str:
        """The user's own texts: `task_file`, `table`, or "" for none."""
        if self.task == "text" and task_file.is_table(self.data):
            return "table"
        return super().own_data

    @property
    def own_task(self) -> task_file.TaskFile:
        """The description of a task of the user's own."""
        if self.own_data == "task_file":
            return super().own_task
        return held_out.HeldOutTable(
            self.data,
            self.task,
            (self.text_column,),
            (self.label_column,),
            SplitOrigin((self.data,)),
            test=SplitOrigin(fraction=TEST_FRACTION),
            encoding=self.encoding,
            skip_bad_rows=self.skip_bad_rows,
            duplicates="group",
        )

    @property
    def head_kind(self) -> str:
        """One of `BIG_HEADS`: which heads fit."""
        if not self.own_data:
            return self.task
        return find_head_kind(self.own_task.kind, self.own_task.texts)

    @property
    def head_name(self) -> str:
        """The head, where it is unset the usual one."""
        is_small = self.adaptation == "finetune_only"
        usual = "dense" if is_small else BIG_HEADS.get(self.head_kind, "")
        return self.head or usual

    @property
    def has_head_lr(self) -> bool:
        """Whether the head has a rate of its own, for a time at least."""
        return self.freezes or self.adaptation == "two_rates"

    @property
    def selects_by_gap(self) -> bool:
        """Whether --phase_one_gap chooses the epoch that is the result."""
        gap = self.phase_one_gap
        return self.adaptation == "stack_only" and gap is not None and gap >= 0

    def defaults(self) -> dict[str, Setting]:
        """Head and encoder, by task; the rate that is shown."""
        values = super().defaults() | {"head": self.head_name}
        if self.phase_one_gap is None:
            is_alone = self.adaptation == "stack_only"
            values["phase_one_gap"] = -1.0 if is_alone else GAP
        if not self.model:
            cased = "" if self.head_kind == "ner" else "_uncased"
            values["model"] = f"bert_base_en{cased}"
        if self.adaptation == "stack_only":
            values["lr"] = self.head_lr
        return values

    def check_settings(self) -> None:
        """Raises `UserError`, naming the flag, for an invalid value."""
        super().check_settings()
        if self.head_kind not in BIG_HEADS:
            raise UserError(
                f"--task={self.task}: give {', '.join(BIG_HEADS)}, or a task "
                "file of your own, such as mine.toml."
            )
        self.refuse_trainable_layers("--adaptation")
        self.refuse_empty("text_column", "label_column")
        if self.adaptation == "finetune_only" and self.head != "dense":
            raise UserError(
                f"--head={self.head}: --adaptation=finetune_only is the "
                "paper's two dense layers. Give --adaptation=joint to train "
                "this head with everything from the first step."
            )
        heads.check(self.head_kind, self.head)
        sizes = {name: getattr(self, name) for name in SIZES}
        if sizes["reads_embeddings"] and self.frozen_prefix == "cached":
            raise UserError(
                "--reads_embeddings=1: the feature cache holds the states of "
                "the last frozen block alone. Give --frozen_prefix=live."
            )
        units, count = sizes["transformer_units"], sizes["transformer_heads"]
        if units % (2 * count):
            raise UserError(
                f"--transformer_units={units}: must be a multiple of twice "
                f"--transformer_heads={count}."
            )


def find_head_kind(kind: str, texts: Sequence[str]) -> str:
    """Which heads fit a kind of task with these text columns."""
    if kind == "entities":
        return "ner"
    return "pairs" if len(texts) == 2 else "text"


class StackingData(run_data.RunData[Settings]):
    """Entities, texts or pairs, with a fixed sample of the training set."""

    def open_source(self, task: str | task_file.TaskFile) -> Source:
        """The source of entities, texts or pairs."""
        settings = self.settings
        if settings.own_data:
            return super().open_source(task)
        if task == "ner":
            return conll.open_source(settings.data)
        if task == "pairs":
            return self._open_pairs()
        return yahoo.open_source(settings.data, classes=settings.classes)

    def _open_pairs(self) -> Source:
        """Quora's questions, of GLUE or the CS224N project; or GLUE's MRPC."""
        settings = self.settings
        folder, name = os.path.split(os.path.normpath(settings.data))
        task, data = glue.TASKS["qqp"], settings.data
        if name == glue.TASKS["mrpc"].folder:
            task, data = glue.TASKS["mrpc"], folder or os.curdir
        if os.path.isfile(os.path.join(settings.data, "quora-train.csv")):
            source: Source = cs224n.open_project(settings.data, "paraphrase")
        else:
            source = glue.open_source(task, data, settings.cache_folder)
        source.task = dataclasses.replace(
            source.task, name="pairs", metric="accuracy", also=("f1",)
        )
        return source

    def read_splits(self, task: Task) -> Texts:
        """The texts of a task; a fixed sample of `train` is scored, too.

        Raises:
            UserError: There are no validation texts.
        """
        examples = super().read_splits(task)
        if not examples["validation"]:
            raise UserError(
                "--validation_fraction=0: validation decides when the first "
                "phase ends. Give a fraction of the training set."
            )
        train, validation = examples["train"][""], examples["validation"][""]
        sample = splits.draw_sample(
            len(train), len(validation), self.settings.split_seed
        )
        examples["validation"][splits.TRAINING_SAMPLE] = train.take(sample)
        return examples

    def texts_per_row(self, task: Task) -> int:
        """Number of texts of an example that run as rows of their own."""
        settings, kind = self.settings, find_head_kind(task.kind, task.texts)
        if settings.head == "dense":
            return 2 if settings.pairs == "sbert" and kind == "pairs" else 1
        return heads.load(kind, settings.head).texts_per_example


class Stacking(experiment.Experiment[Settings]):
    """A head of the paper, in one of its adaptations."""

    name = "stacking"
    Settings = Settings
    Data = StackingData

    @property
    def has_foreign_code(self) -> bool:
        """Whether the head, or another part, is not of this package."""
        kind, head = self.settings.head_kind, self.settings.head
        return super().has_foreign_code or heads.is_foreign(kind, head)

    def build_head(self, task: Task, encoder: "Encoder") -> "Layer":
        """The head that `--head` names."""
        settings = self.settings
        options = {
            name: getattr(settings, name)
            for name, size in heads.SIZES.items()
            if settings.head in size.heads
        }
        if settings.head == "dense" and not task.is_tagging:
            options["pooling"] = settings.pooling
            options["texts_per_example"] = self.data.texts_per_row(task)
        kind = find_head_kind(task.kind, task.texts)
        return heads.load(kind, settings.head)(
            task.units,
            encoder.hidden,
            settings.head_dropout,
            settings.seed,
            settings.dtype_policy,
            jit_compile=settings.uses_xla,
            name=task.head_name,
            **options,
        )

    def pooling_of(self, task: Task) -> str:
        """What the head reads of a text; the large heads read all tokens."""
        is_dense = self.settings.head == "dense"
        return super().pooling_of(task) if is_dense else "tokens"

    def make_phases(
        self, objectives: "Sequence[Objective]", blocks: int
    ) -> "list[Phase]":
        """The phases of `--adaptation`: the head, everything, or both."""
        settings, metric = self.settings, self.metric
        phases = super().make_phases(objectives, blocks)
        if settings.adaptation == "stack_and_finetune":
            first = dataclasses.replace(
                phases[0],
                trainable=self.trainable(blocks, "head"),
                trainable_layers="head",
                lr=settings.head_lr,
                max_epochs=settings.phase_one_epochs,
                patience=0,
                select="last",
            )
            phases.insert(0, first)
        if settings.adaptation == "two_rates":
            phases[0] = dataclasses.replace(
                phases[0], head_scale=settings.head_lr / settings.lr
            )

        def is_close(scores: dict[str, float]) -> bool:
            name = "accuracy" if "accuracy" in scores else metric
            gap = scores[f"{splits.TRAINING_SAMPLE}_{name}"] - scores[name]
            return abs(gap) <= settings.phase_one_gap

        if settings.phases[0] == "head" and settings.phase_one_gap >= 0:
            phases[0] = dataclasses.replace(
                phases[0], is_eligible=is_close, select="best"
            )
        return phases

    @classmethod
    def restore_settings(cls, config: Record) -> Record:
        """The settings to predict with; a task file may be gone by now."""
        [task] = config["tasks"].values()
        kind = find_head_kind(task["kind"], task["texts"])
        return {**super().restore_settings(config), "task": kind}


EXPERIMENT = Stacking
run = Stacking.run
