"""One encoder, three tasks: sentiment, paraphrase and similarity.

Yingbo Li, "Finetune minBERT for Multi-Tasks Learning" (Stanford CS224N): SST-5
by cross-entropy, Quora by binary cross-entropy, STS by squared error, on one
BERT with three output layers. Training those alone first, then everything, and
reading the mean of the tokens for pairs, is best; decaying the rate from layer
to layer does not help.

    python -m tf_transfer.multitask --data=FOLDER
    python -m tf_transfer.multitask --data=FOLDER --combine=pcgrad --lr=2e-5

Defaults are those of its best run of 20 epochs on dev: first the output layers
at 1e-3, then everything at 1e-5, batch 32, whole data sets in turn (paraphrase,
similarity, sentiment) in every epoch, the mean of the tokens, pairs as (u, v,
|u - v|), the epoch of the best overall score on dev: (accuracy + accuracy +
(r + 1) / 2) / 3.
Without --data, GLUE's nearest sets are used, from TFDS: SST-2 has two labels of
SST-5's five, and neither sizes nor scores are the paper's.

From its starter code, on which the paper is silent: Adam with bias correction,
epsilon 1e-6, no decay, a constant rate, no clipping; dropout 0.3 before the
output layers, which start as PyTorch's `Linear` does (--head_init). Ours: [CLS]
goes through the pooler, which is frozen with the encoder in the first phase (or
`cls_state`); squared error is on raw scores from 0 to 5 (or
--targets=truncated, as in the starter code); texts are cut at 128 tokens; the
output layers' phase takes the tasks in turn, however the second combines them.
While another task trains, an output layer moves by Adam's old moments, as in
the starter code, whose PyTorch 1.8 leaves gradients of zeros; with --tasks it
stands still, as in PyTorch today (--idle_heads). The sum of the losses takes a
batch of each task a step until the largest set is through; a set that ends
sooner is shuffled again, its last batch may be short (--short_batches).

What the paper names as future work, and its field expects: gradient surgery
(Yu et al. 2020), and tasks drawn in proportion to size^alpha, which falls from
--alpha to --last_alpha over the epochs (Stickland and Murray 2019).
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tf_transfer import experiment
from tf_transfer.config import settings as settings_lib
from tf_transfer.config.fields import setting, training_setting
from tf_transfer.data import cs224n
from tf_transfer.data.task import Task
from tf_transfer.multitask.data import MultitaskData
from tf_transfer.own import task_file
from tf_transfer.runs import run_data, task_settings as tasks_lib
from tf_transfer.training.progress import OVERALL
from tf_transfer.utils.errors import UserError
from tf_transfer.utils.json_files import Record

if TYPE_CHECKING:
    from tf_transfer.training.objectives import Objective, Phase

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
    "max_epochs": "Epochs; of --train=head_then_all, of its second phase.",
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

    task = "cs224n"

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

    def hashed(self) -> Record:
        """The settings that can change a number, by name."""
        values = super().hashed()
        if self.head_combine == self.combine:  # as before the flag
            values.pop("head_combine", None)
        if self.tasks:
            values["task"] = self.task_name
            values["order"] = ",".join(tasks_in_order(self))
        return values

    def defaults(self) -> Record:
        """The epochs of the heads' phase; the rate that is shown."""
        values = super().defaults()
        if self.train == "head":
            values["lr"] = self.head_lr
        if not self.head_epochs:
            values["head_epochs"] = self.max_epochs
        if self.idle_heads is None:
            values["idle_heads"] = "still" if self.tasks else "drift"
        return values

    def check(self) -> None:
        """Raises `UserError`, naming the flag, for an invalid value."""
        super().check()
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


class Multitask(experiment.Experiment):
    """One encoder, three tasks: Li's comparison; or your own tasks."""

    name = "multitask"
    Settings = Settings
    Data = MultitaskData
    metric = OVERALL

    def build_head(
        self, task: Task, encoder: "experiment.Encoder"
    ) -> "experiment.Layer":
        """The output layer of a task."""
        from tf_transfer.models.heads import pooled

        if task.is_tagging:
            return super().build_head(task, encoder)
        settings, pooling = self.settings, self.pooling_of(task)
        return pooled.PooledHead(
            task.units,
            pooled.pooled_width(pooling, encoder),
            pooling,
            settings.head_dropout,
            3 * settings.seed + [*self.data.tasks].index(task.name),
            settings.dtype_policy,
            texts_per_example=self.data.texts_per_row(task),
            pair_features="both"
            if settings.pairs == "concat"
            else "difference",
            init=settings.head_init,
            name=task.head_name,
        )

    def pooling_of(self, task: Task) -> str:
        """What the head of a task reads of a text; see `--pooling`."""
        pooling = super().pooling_of(task)
        if not pooling.endswith("_for_sentiment"):
            return pooling
        is_single = len(task.texts) == 1
        return pooling.removesuffix("_for_sentiment") if is_single else "mean"

    def make_objective(
        self, task: Task, encoded: "run_data.Splits"
    ) -> "Objective":
        """The objective of a task; see `--targets`."""
        from tf_transfer.data import metrics

        if task.is_tagging and self.settings.short_batches == "scaled":
            raise UserError(
                f"--short_batches=scaled: task {task.name} labels words, whose "
                "losses have other weights. Leave it out."
            )
        exact = super().make_objective(task, encoded)
        if self.settings.targets == "exact" or task.kind != "score":
            return exact
        return dataclasses.replace(
            exact,
            loss=lambda labels, logits: exact.loss(labels // 1, logits),
            measure=lambda split, logits: metrics.measure_task(
                task, split.targets // 1, metrics.sigmoid(logits)
            ),
        )

    def make_phases(
        self, objectives: "Sequence[Objective]", blocks: int
    ) -> "list[Phase]":
        """The phases of `--train`, in which `--combine` combines the tasks."""
        from tf_transfer.training import joint

        settings, weights = self.settings, loss_weights(self.settings)
        combinations = {
            "in_turn": None,
            "sum": joint.Sum(),
            "pcgrad": joint.PCGrad(),
            "sampled": joint.Sampled(settings.alpha, settings.last_alpha),
        }
        by_name = {
            objective.name: dataclasses.replace(
                objective,
                metric_prefix=f"{objective.name}_",
                weight=weights[objective.name],
            )
            for objective in objectives
        }
        ordered = [by_name[name] for name in tasks_in_order(settings)]
        [phase] = super().make_phases(ordered, blocks)
        last = dataclasses.replace(
            phase,
            summarize=lambda scores: {OVERALL: self.overall(scores)},
            combination=combinations[settings.combine],
        )
        first = dataclasses.replace(
            last,
            trainable=self.trainable(blocks, "head"),
            trainable_layers="head",
            lr=settings.head_lr,
            max_epochs=settings.head_epochs,
            combination=combinations[settings.head_combine],
        )
        return [first, last] if len(settings.phases) > 1 else [last]

    @classmethod
    def recall_settings(cls, config: Record) -> Record:
        """The settings to predict with; task files may be gone by now."""
        recalled = super().recall_settings(config)
        for name in ("tasks", "order", "loss_weights", "validation_fraction"):
            recalled.pop(name, None)
        return recalled

    def overall(self, scores: Mapping[str, float]) -> float:
        """The mean of the tasks' headline scores, correlations as (r + 1) / 2.

        Args:
            scores: scores of all tasks, by names that begin with the task.
        """
        values = []
        for name, task in self.data.tasks.items():
            score = scores[f"{name}_{task.metric}"]
            values.append((score + 1) / 2 if task.kind == "score" else score)
        return sum(values) / len(values)


EXPERIMENT = Multitask
run = Multitask.run
