"""To tune or not to tune: a big head first, then everything.

Ran Wang, Haibo Su, Chunye Wang, Kailin Ji, Jupeng Ding, "To Tune or Not To
Tune? How About the Best of Both Worlds?" (arXiv 1907.05338). Training a large
head on the frozen encoder for a few epochs, not to its best, and then
everything at a small rate, is better than fine-tuning BERT with a small head.

    python -m tf_transfer.stacking --task=ner --head=bilstm
    python -m tf_transfer.stacking --task=ner --adaptation=finetune_only
    python -m tf_transfer.stacking --task=pairs --adaptation=stack_only

As in the paper: the first phase at 1e-3; dropout 0.1 on all layers; Kaiming
initialisation; BERT's Adam with weight decay; fine-tuning alone with two dense
layers. The paper's other figures are lost. Ours: 2e-5 in the second phase; one
epoch in the first and three in the second, or of the head alone; batch 32;
decay 0.01; the cased encoder for entities; the last epoch of a phase is its
result. Sizes of heads: see `models/heads`.

When to leave the first phase, the paper leaves open: after --phase_one_epochs,
or, of those, at the last whose accuracies on the training set and on validation
differ by no more than --phase_one_gap. Training accuracy is that of a fixed
sample as large as the validation set, without dropout; both are recorded.

For entities a loss is the mean over the words of a batch. Sentences longer than
--max_length are cut between words, and scored whole.
"""

import dataclasses
import functools
import os
from typing import Any, TYPE_CHECKING

from tf_transfer import experiment, tasks
from tf_transfer.config import settings as settings_lib
from tf_transfer.config.fields import Group, setting
from tf_transfer.data import (
    conll,
    cs224n,
    glue,
    held_out,
    splits,
    table_source,
    task_file,
    yahoo,
)
from tf_transfer.data.task import Task
from tf_transfer.models import heads, methods
from tf_transfer.training.progress import SAMPLE
from tf_transfer.utils.errors import UserError

if TYPE_CHECKING:
    import keras

    from tf_transfer.models.encoder import Encoder
    from tf_transfer.models.network import Network
    from tf_transfer.training.objectives import Objective, Phase

# What trains in each phase, by `--adaptation`.
ADAPTATIONS = {
    "finetune_only": ("all",),
    "stack_only": ("head",),
    "stack_and_finetune": ("head", "all"),
    "joint": ("all",),
}
TASKS = ("ner", "text", "pairs")
BIG_HEADS = {"ner": "bilstm", "text": "densenet", "pairs": "sim_transformer"}
TEST_FRACTION = 0.1  # of a table's different texts
LARGEST_WIDTH, DEEPEST = 2**14, 100  # of heads
LR = 2e-5
RECIPE = {
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
FOR_TEXTS = {"needs": {"labels_words": False}}
FOR_SELECTION = {"needs": {"selects_by_gap": False}}
CHANGES = {
    "long_texts": FOR_TEXTS,
    "class_weights": FOR_TEXTS,
    "select": FOR_SELECTION,
    "patience": FOR_SELECTION,
    "min_delta": FOR_SELECTION,
}


def size(name: str, default: int, help: str, **bounds: Any) -> Any:
    """A field for a size of those heads that have it."""
    having = tuple(head for head, sizes in heads.SIZES.items() if name in sizes)
    return setting(
        default,
        f"{', '.join(having)}: {help}",
        needs={"head_name": having},
        **({"at_least": 1, "at_most": LARGEST_WIDTH} | bounds),
    )


@dataclasses.dataclass(frozen=True)
class Settings(
    settings_lib.Settings, defaults=RECIPE, help=HELP, changes=CHANGES
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
        "Of Yahoo Answers: which of its ten, by number or name.",
        needs={"task": "text"},
    )
    text_column: str = setting(
        "text",
        "Of a table: the column of the texts.",
        hashed=False,  # the identity of the table is
        may_be_empty=False,
        needs={"is_own": False},
    )
    label_column: str = setting(
        "label",
        "Of a table: the column of the labels.",
        hashed=False,  # the identity of the table is
        may_be_empty=False,
        needs={"is_own": False},
    )
    encoding: str = setting(
        "utf-8",
        "Of a table: its encoding.",
        group=Group.TEXTS,
        hashed=False,
        is_encoding=True,
        needs={"is_own": False},
    )
    head: str = setting(
        "",
        " ".join(
            f"{kind}: {', '.join(heads.names_for(kind))}." for kind in BIG_HEADS
        )
        + " Unset: dense for finetune_only, else "
        + ", ".join(BIG_HEADS.values())
        + ".",
        group=Group.TRAINED,
    )
    pooling: str = setting(
        "cls",
        "What the dense head reads of a text: [CLS] through the pooler, or as "
        "the last block leaves it.",
        group=Group.TRAINED,
        choices=("cls", "cls_state"),
        needs={"head_name": "dense", "labels_words": False},
    )
    pairs: str = setting(
        "cross",
        "How the dense head reads a pair: `cross`, both texts in one row; or "
        "`sbert`, each by itself, as for BiMPM and Sim-Transformer, u and v, "
        "and the head reads (u, v, |u - v|).",
        group=Group.TRAINED,
        choices=("cross", "sbert"),
        needs={"head_name": "dense", "head_kind": "pairs"},
    )
    inner_units: int = size(
        "inner_units",
        0,
        "width of the first of its two layers (0: the encoder's).",
        at_least=0,
    )
    lstm_units: int = size("lstm_units", 256, "units in each direction.")
    lstm_layers: int = size(
        "lstm_layers", 1, "layers, one on the other.", at_most=DEEPEST
    )
    growth: int = size("growth", 64, "channels of a convolution.")
    kernel: int = size("kernel", 3, "tokens that a convolution reads.")
    perspectives: int = size(
        "perspectives", 5, "perspectives of each matching."
    )
    context_units: int = size(
        "context_units",
        100,
        "units of the first BiLSTM, in each direction.",
    )
    aggregation_units: int = size(
        "aggregation_units", 100, "units of the last BiLSTM, in each direction."
    )
    transformer_units: int = size(
        "transformer_units", 256, "width of its blocks.", at_least=8
    )
    transformer_layers: int = size(
        "transformer_layers", 1, "its blocks.", at_most=DEEPEST
    )
    transformer_heads: int = size(
        "transformer_heads",
        4,
        "attention heads of a block.",
        at_most=DEEPEST,
    )
    adaptation: str = setting(
        "stack_and_finetune",
        "`finetune_only`: everything, with the dense head. `stack_only`: the "
        "head on the frozen encoder. `stack_and_finetune`: the one, then "
        "everything. `joint`: everything from the first step, any head.",
        choices=tuple(ADAPTATIONS),
    )
    head_lr: float = setting(
        1e-3,
        "Learning rate of the first phase.",
        above=0,
        needs={"freezes": True},
    )
    phase_one_epochs: int = setting(
        1,
        "Epochs of the first phase.",
        at_least=1,
        needs={"adaptation": "stack_and_finetune"},
    )
    phase_one_gap: float = setting(
        -1.0,
        "The first phase ends with its last epoch whose accuracies on training "
        "and validation set differ by this much at most, such as 0.01 (below "
        "0: with its last).",
        needs={"freezes": True},
    )

    @property
    def approach(self) -> str:
        """What trains when, and which head."""
        return f"{self.adaptation}_{self.head}{self.method_label}"

    @property
    def phases(self) -> tuple[str, ...]:
        """What trains in each phase: `head` or `all`."""
        return ADAPTATIONS[self.adaptation]

    @property
    def has_task_file(self) -> bool:
        """Whether the task is described in a file."""
        return task_file.is_task_file(self.task)

    @property
    def head_kind(self) -> str:
        """One of `TASKS`: which heads fit."""
        if not self.is_own:
            return self.task
        task = task_file.read(self.task)
        return _head_kind(task.kind, len(task.texts))

    @property
    def head_name(self) -> str:
        """The head, where it is unset the usual one."""
        if self.head:
            return self.head
        is_small = self.adaptation == "finetune_only"
        return "dense" if is_small else BIG_HEADS.get(self.head_kind, "")

    @property
    def labels_words(self) -> bool:
        """Whether words have labels, not texts."""
        return self.head_kind == "ner"

    @property
    def selects_by_gap(self) -> bool:
        """Whether --phase_one_gap says which epoch is the result."""
        return self.adaptation == "stack_only" and self.phase_one_gap >= 0

    @property
    def task_name(self) -> str:
        """What folders and tables call the task."""
        return task_file.read(self.task).name if self.is_own else self.task

    def hashed(self) -> dict[str, Any]:
        """The settings that can change a number, by name."""
        return {**super().hashed(), "task": self.task_name}

    def defaults(self) -> dict[str, Any]:
        """Head and encoder, by task; the rate that is shown."""
        values: dict[str, Any] = {"head": self.head_name}
        if not self.model:
            cased = "" if self.labels_words else "_uncased"
            values["model"] = f"bert_base_en{cased}"
        if self.adaptation == "stack_only":
            values["lr"] = self.head_lr
        elif self.lr is None:
            values["lr"] = methods.load(self.method).lr or LR
        return values

    def check(self) -> None:
        """Raises `UserError`, naming the flag, for an invalid value."""
        super().check()
        if self.head_kind not in TASKS:
            raise UserError(
                f"--task={self.task}: give {', '.join(TASKS)}, or a task file "
                "of your own, such as mine.toml."
            )
        self.refuse_trainable_layers("--adaptation")
        if self.adaptation == "finetune_only" and self.head != "dense":
            raise UserError(
                f"--head={self.head}: --adaptation=finetune_only is the "
                "paper's two dense layers. Give --adaptation=joint to train "
                "this head with everything from the first step."
            )
        heads.check(self.head_kind, self.head)
        if self.transformer_units % (2 * self.transformer_heads):
            raise UserError(
                f"--transformer_units={self.transformer_units}: must be a "
                "multiple of twice --transformer_heads="
                f"{self.transformer_heads}."
            )


def _head_kind(kind: str, texts: int) -> str:
    """Which heads fit a kind of task on so many texts."""
    if kind == "entities":
        return "ner"
    return "pairs" if texts == 2 else "text"


class Stacking(experiment.Experiment):
    """A head of the paper, in one of its adaptations."""

    name = "stacking"
    Settings = Settings

    @functools.cached_property
    def source(self) -> Any:
        """The source of entities, texts or pairs."""
        settings = self.settings
        if settings.is_own:
            return table_source.TableSource(
                task_file.read(settings.task), settings.split_seed
            )
        if settings.task == "ner":
            return conll.open_source("ner", settings.data)
        if settings.task == "pairs":
            return self._open_pairs()
        if self.reads_table:
            return self._open_table()
        return yahoo.Answers(settings.data, settings.classes)

    @property
    def reads_table(self) -> bool:
        """Whether the texts are a table of your own, without a task file."""
        return os.path.isfile(self.settings.data)

    def _open_table(self) -> held_out.HeldOutSource:
        settings = self.settings
        source = held_out.HeldOutSource(
            held_out.TableOptions(
                settings.task,
                settings.data,
                settings.text_column,
                settings.label_column,
                encoding=settings.encoding,
                duplicates="group",
                test_fraction=TEST_FRACTION,
                split_seed=settings.split_seed,
            )
        )
        _ = source.task  # a wrong line is reported as it is
        try:
            _ = source.drawn  # a table that is too small is reported at once
        except UserError:
            raise UserError(
                f"--data={settings.data}: a tenth of its different texts "
                "should be tested, with some of each label in both splits; it "
                "has too few. Give a larger table."
            ) from None
        return source

    def _open_pairs(self) -> Any:
        """Quora's questions, of GLUE or the CS224N project; or GLUE's MRPC."""
        settings = self.settings
        source: Any
        folder, name = os.path.split(os.path.normpath(settings.data))
        if os.path.isfile(os.path.join(settings.data, "quora-train.csv")):
            source = cs224n.ProjectFiles(settings.data, "paraphrase")
        elif name == glue.TASKS["mrpc"].folder:
            source = glue.open_task(
                glue.TASKS["mrpc"], folder or os.curdir, settings.cache_folder
            )
        else:
            source = glue.open_task(
                glue.TASKS["qqp"], settings.data, settings.cache_folder
            )
        source.task = dataclasses.replace(
            source.task, name="pairs", metric="accuracy", also=("f1",)
        )
        return source

    def build_head(
        self, task: Task, number: int, encoder: "Encoder"
    ) -> "keras.layers.Layer":
        """The head that `--head` names."""
        del number
        settings = self.settings
        options = {
            name: getattr(settings, name)
            for name in heads.SIZES.get(settings.head, ())
        }
        if settings.head == "dense" and not task.is_tagging:
            options["pooling"] = settings.pooling
            options["texts_per_example"] = self.texts_per_row(task)
        return heads.build(
            _head_kind(task.kind, len(task.texts)),
            settings.head,
            task.units,
            encoder.hidden,
            settings.head_dropout,
            settings.seed,
            settings.precision,
            jit_compile=settings.jit_compile,
            name=f"head_{task.name}",
            **options,
        )

    def texts_per_row(self, task: Task) -> int:
        """Number of texts of an example that run as rows of their own."""
        settings = self.settings
        kind = _head_kind(task.kind, len(task.texts))
        if settings.head == "dense":
            return 2 if settings.pairs == "sbert" and kind == "pairs" else 1
        return heads.load(kind, settings.head).texts_per_example

    def read_examples(self, task: Task) -> tasks.Texts:
        """The texts of a task; a fixed sample of `train` is scored, too.

        Raises:
            UserError: there are no validation texts.
        """
        settings = self.settings
        examples = super().read_examples(task)
        if not examples["validation"]:
            raise UserError(
                "--validation_fraction=0: validation decides when the first "
                "phase ends. Give a fraction of the training set."
            )
        train, validation = examples["train"][""], examples["validation"][""]
        sample = splits.draw_sample(
            len(train), len(validation), settings.split_seed
        )
        examples["validation"][SAMPLE] = train.take(sample)
        return examples

    def phases(
        self, network: "Network"
    ) -> tuple[list["Phase"], dict[str, int]]:
        """The phases, and the number of examples of each split."""
        encoded = self.encode_splits(self.task, network.encoder)
        objective = tasks.make_objective(
            self.task, encoded, class_weights=self.settings.class_weights
        )
        blocks = len(network.encoder.blocks)
        sizes = tasks.count_examples(encoded)
        sizes["sample"] = sizes.pop(f"validation_{SAMPLE}")
        return [
            self._phase(name, objective, blocks)
            for name in self.settings.phases
        ], sizes

    def _phase(self, name: str, objective: "Objective", blocks: int) -> "Phase":
        from tf_transfer.training.objectives import Phase

        settings, metric = self.settings, self.metric
        is_last = name == settings.phases[-1]
        phase = Phase(
            trainable=self.trainable_in(name, blocks),
            trainable_layers=name,
            lr=settings.head_lr if name == "head" else settings.lr,
            max_epochs=(
                settings.max_epochs if is_last else settings.phase_one_epochs
            ),
            objectives=(objective,),
            score=lambda scores: scores[metric],
            patience=settings.patience if is_last else 0,
            min_delta=settings.min_delta,
            select=settings.select if is_last else "last",
            layer_decay=settings.layer_decay,
        )
        if name != "head" or settings.phase_one_gap < 0:
            return phase

        def is_close(scores: dict[str, float]) -> bool:
            name = "accuracy" if "accuracy" in scores else metric
            gap = scores[f"{SAMPLE}_{name}"] - scores[name]
            return abs(gap) <= settings.phase_one_gap

        return dataclasses.replace(phase, is_eligible=is_close, select="best")

    # === Predicting ===

    @classmethod
    def recall_settings(cls, config: dict[str, Any]) -> dict[str, Any]:
        """The kind of a task file, as the file may be gone."""
        if not task_file.is_task_file(config["settings"]["task"]):
            return {}
        [task] = config["tasks"].values()
        return {"task": _head_kind(task["kind"], len(task["texts"]))}


EXPERIMENT = Stacking
run = Stacking.run

if __name__ == "__main__":
    experiment.start(Stacking)
