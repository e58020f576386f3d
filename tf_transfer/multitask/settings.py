"""The settings of multitask runs; their defaults are Li's."""

import dataclasses

from tf_transfer.config import settings as settings_lib
from tf_transfer.config.fields import Setting, setting, training_setting
from tf_transfer.data import cs224n
from tf_transfer.own import task_file
from tf_transfer.runs import task_settings as tasks_lib
from tf_transfer.utils.errors import UserError

# What trains in each phase, by `--train`.
PHASES = {
    "head": ("head",),
    "all": ("all",),
    "head_then_all": ("head", "all"),
}
COMBINATIONS = ("in_turn", "sum", "pcgrad", "sampled")
LR = 1e-5
RECIPE = {
    "batch_size": 32,
    "max_epochs": 20,
    "head_dropout": 0.3,
    "weight_decay": 0.0,
    "bias_correction": True,
    "clip_norm": 0.0,
    "patience": 0,
    "min_delta": 0.0,
}
HELP = {
    "data": "Folder of the CS224N project's files: ids-sst-train.csv, "
    "quora-train.csv, sts-train.csv, and the same with dev. `tfds`, or a "
    "folder of the official GLUE files: the nearest of GLUE's, SST-2, QQP "
    "and STS-B. `sample`: a handful of rows, to try the command.",
    "lr": f"Learning rate of training everything. Unset: {LR:g}; the method's "
    "own for others than `full`.",
    "max_epochs": "Epochs; with --train=head_then_all, those of its second "
    "phase.",
    "head_dropout": "Dropout rate before an output layer.",
    "patience": "Stop when the overall score has not risen for this many "
    "epochs (0: never).",
}


@dataclasses.dataclass(frozen=True)
class Settings(
    tasks_lib.RunSettings,
    defaults=RECIPE,
    help=HELP,
    rates=tasks_lib.Rates(LR, LR, LR),
):
    """The shared settings with the paper's defaults, and its choices."""

    tasks: str = setting(
        "",
        "Tasks that train together instead of the paper's three: names as "
        "--task of the other commands takes them and task files of your own, "
        "such as a.toml,b.toml,sst2.",
        hashed=False,  # their names are, and the identity of their data
    )
    train: str = setting(
        "head_then_all",
        "`head` trains the output layers on the frozen encoder, at --head_lr; "
        "`all` everything, at --lr; `head_then_all` the one, then the other.",
        choices=tuple(PHASES),
    )
    head_lr: float = setting(
        1e-3,
        "Learning rate of the output layers' phase.",
        above=0,
        needs={"train": ("head", "head_then_all")},
    )
    pooling: str = training_setting(
        "mean",
        "What the output layers read: `cls` for [CLS] through the pooler; "
        "`cls_state` for [CLS] of the last block; `mean` for the mean of all "
        "tokens; `cls_for_sentiment` for `cls` on single texts and `mean` on "
        "pairs; `cls_state_for_sentiment` likewise with `cls_state`.",
        choices=("cls", "cls_state", "mean")
        + ("cls_for_sentiment", "cls_state_for_sentiment"),
    )
    pairs: str = training_setting(
        "sbert",
        "How a pair is read: `sbert`, each text by itself, u and v, and the "
        "output layer reads (u, v, |u - v|); `concat`, (u, v) alone; `cross`, "
        "both in one row.",
        choices=("sbert", "concat", "cross"),
    )
    order: str = setting(
        "paraphrase,similarity,sentiment",
        "The tasks, in the order of their passes in an epoch; of --tasks, as "
        "they stand there.",
    )
    combine: str = setting(
        "in_turn",
        "`in_turn`: each task's whole training set, one after the other. "
        "`sum`: a batch of each task at every step, losses added; an epoch is "
        "one pass over the largest set. `pcgrad`: as `sum`, but where two "
        "tasks' gradients of the encoder conflict, each is projected onto the "
        "normal plane of the other. `sampled`: a batch of one task a step, "
        "drawn in proportion to size^alpha.",
        choices=COMBINATIONS,
    )
    head_combine: str = setting(
        "in_turn",
        "How the tasks are combined while --train=head_then_all trains the "
        "output layers; --combine is of its second phase.",
        choices=COMBINATIONS,
        needs={"train": "head_then_all"},
    )
    idle_heads: str = setting(
        None,
        "An output layer while another task trains: it stands `still`; or it "
        "may `drift` on by Adam's moments, as in the starter code's PyTorch "
        "1.8, which leaves gradients of zeros. Unset: drift; still with "
        "--tasks.",
        choices=("still", "drift"),
        unnamed="still",
        needs={"leaves_heads_idle": True},
    )
    head_init: str = training_setting(
        "uniform",
        "Initial weights of an output layer that reads one vector per text: "
        "`uniform` up to 1 / sqrt(inputs), as PyTorch's Linear, which the "
        "starter code leaves as it is; or `truncated_normal` with deviation "
        "0.02, as in BERT's own code and all other commands.",
        choices=("uniform", "truncated_normal"),
        unnamed="truncated_normal",
    )
    targets: str = setting(
        "exact",
        "The scores of similarity: `exact`; or `truncated` to whole numbers, "
        "in training and in validation, which correlates the sigmoid of "
        "predictions: as in the starter code.",
        choices=("exact", "truncated"),
        unnamed="exact",
    )
    short_batches: str = setting(
        "mean",
        "Loss of a short last batch of a pass: `mean` over its examples; "
        "`scaled` by its share of --batch_size, as in the starter code; or "
        "`dropped`, no step.",
        choices=("mean", "scaled", "dropped"),
        unnamed="mean",
    )
    loss_weights: str = setting(
        "",
        "What the tasks' losses are multiplied by, such as "
        "sentiment=2,similarity=0.5; those left out by 1.",
    )
    alpha: float = setting(
        1.0,
        "--combine=sampled: the exponent in the first epoch.",
        at_least=0,
        needs={"samples": True},
    )
    last_alpha: float = setting(
        0.2,
        "--combine=sampled: the exponent in the last epoch.",
        at_least=0,
        needs={"samples": True},
    )
    max_dev_examples: int = setting(
        0,
        "Number of validation examples of each task, stratified (0: all): "
        "every pass over a task is followed by a validation of all tasks.",
        at_least=0,
    )
    head_epochs: int = setting(
        0,
        "Epochs of --train=head_then_all's first phase (0: --max_epochs).",
        at_least=0,
        needs={"train": "head_then_all"},
    )

    @property
    def task(self) -> str:
        """The name of the paper's three tasks together."""
        return "cs224n"

    @property
    def approach(self) -> str:
        """`head`, `all` or `head_then_all`; with a method its label."""
        return f"{self.train}{self.method_label}"

    @property
    def own_data(self) -> str:
        """`task_file` if all tasks are described in task files."""
        are_own = map(task_file.is_task_file, self.tasks.split(","))
        return "task_file" if all(are_own) else ""

    @property
    def task_name(self) -> str:
        """The tasks' name in folders and tables."""
        return "+".join(self.task_names) if self.tasks else self.task

    @property
    def task_names(self) -> list[str]:
        """The names of the tasks that train."""
        if not self.tasks:
            return list(cs224n.TASKS)
        names = [
            task_file.read_task_file(word).name
            if task_file.is_task_file(word)
            else word
            for word in self.tasks.split(",")
        ]
        for name in names:
            if names.count(name) > 1:
                raise UserError(
                    f"--tasks={self.tasks}: two tasks are called {name!r}. "
                    "Give one of them another name."
                )
        return names

    @property
    def phases(self) -> tuple[str, ...]:
        """The weights that train in each phase: `head` or `all`."""
        return PHASES[self.train]

    @property
    def phase_epochs(self) -> tuple[int, ...]:
        """The largest number of epochs of each of `phases`."""
        epochs = (self.head_epochs, self.max_epochs)
        return epochs[-len(self.phases) :]

    @property
    def combinations(self) -> set[str]:
        """How the tasks are combined, in any phase."""
        first = self.head_combine if len(self.phases) > 1 else self.combine
        return {first, self.combine}

    @property
    def samples(self) -> bool:
        """Whether a phase draws the task of each step."""
        return "sampled" in self.combinations

    @property
    def leaves_heads_idle(self) -> bool:
        """Whether a step may train one task's output layer alone."""
        return self.samples or "in_turn" in self.combinations

    @property
    def names_epochs(self) -> bool:
        """Whether the key has `max_epochs`: the last one has its own alpha."""
        return super().names_epochs or (
            self.samples and self.alpha != self.last_alpha
        )

    def hashed(self) -> dict[str, Setting]:
        """The settings that can change a number, by name."""
        values = super().hashed()
        if self.head_combine == self.combine:  # as before the flag
            values.pop("head_combine", None)
        if self.tasks:
            values["task"] = self.task_name
            values["order"] = ",".join(tasks_in_order(self))
        return values

    def defaults(self) -> dict[str, Setting]:
        """The epochs of the heads' phase; the rate that is shown."""
        values = super().defaults()
        if self.train == "head":
            values["lr"] = self.head_lr
        if not self.head_epochs:
            values["head_epochs"] = self.max_epochs
        if self.idle_heads is None:
            values["idle_heads"] = "still" if self.tasks else "drift"
        return values

    def check_settings(self) -> None:
        """Raises `UserError`, naming the flag, for an invalid value."""
        super().check_settings()
        self.refuse_trainable_layers("--train")
        default = settings_lib.Settings.validation_fraction
        if self.validation_fraction != default and not self.tasks:
            raise UserError(
                "--validation_fraction: has no use here: the dev files "
                "validate."
            )
        tasks_in_order(self)
        loss_weights(self)


def tasks_in_order(settings: Settings) -> list[str]:
    """Names of the tasks, in the order of their passes in an epoch."""
    task_names = settings.task_names
    if settings.tasks and settings.order == Settings.order:
        return task_names
    names = settings.order.split(",")
    if sorted(names) != sorted(task_names):
        raise UserError(
            f"--order={settings.order}: give each of {', '.join(task_names)} "
            "once, with commas between."
        )
    return names


def loss_weights(settings: Settings) -> dict[str, float]:
    """The weight of each task's loss."""
    weights = dict.fromkeys(settings.task_names, 1.0)
    for entry in filter(None, settings.loss_weights.split(",")):
        name, _, word = entry.partition("=")
        try:
            weight = float(word)
        except ValueError:
            weight = 0.0
        if name not in weights or not 0 < weight < float("inf"):
            raise UserError(
                f"--loss_weights={settings.loss_weights}: {entry!r} is not "
                f"NAME=NUMBER with a name of {', '.join(weights)} and a "
                "number above 0."
            )
        weights[name] = weight
    return weights
