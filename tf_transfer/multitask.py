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
output layers. Ours: [CLS] goes through the pooler, which is frozen with the
encoder in the first phase; squared error is on raw scores from 0 to 5; texts
are cut at 128 tokens; the output layers' phase takes the tasks in turn, however
the second combines them. While another task trains, an output layer goes on by
Adam's old moments, as in the starter code, whose PyTorch 1.8 leaves gradients
of zeros; with --tasks it stands still, as in PyTorch today (--idle_heads). The
sum of the losses takes a batch of each task a step until the largest set is
through; a set that ends sooner is shuffled anew, its last batch may be short.

What the paper names as future work, and its field expects: gradient surgery
(Yu et al. 2020), and tasks drawn in proportion to size^alpha, which falls from
--alpha to --last_alpha over the epochs (Stickland and Murray 2019).
"""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, TYPE_CHECKING

from tf_transfer import experiment
from tf_transfer import tasks as tasks_lib
from tf_transfer.config import settings as settings_lib
from tf_transfer.config.fields import Group, setting
from tf_transfer.data import cs224n, registry, splits, table_source, task_file
from tf_transfer.data.task import Source, Task
from tf_transfer.models import methods
from tf_transfer.training.progress import OVERALL
from tf_transfer.utils.errors import UserError

if TYPE_CHECKING:
    import keras

    from tf_transfer.models.encoder import Encoder
    from tf_transfer.models.network import Network
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
class Settings(settings_lib.Settings, defaults=RECIPE, help=HELP):
    """The shared settings with the paper's defaults, and its choices."""

    task = "cs224n"

    tasks: str = setting(
        "",
        "Tasks that train together in place of the paper's three: names as "
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
    pooling: str = setting(
        "mean",
        "What the output layers read: [CLS] through the pooler; [CLS] as the "
        "last block leaves it; the mean of all tokens; or the first for "
        "sentiment and the last for pairs.",
        group=Group.TRAINED,
        choices=("cls", "cls_state", "mean", "cls_for_sentiment"),
    )
    pairs: str = setting(
        "sbert",
        "How a pair is read: `sbert`, each text by itself, u and v, and the "
        "output layer reads (u, v, |u - v|); `concat`, (u, v) alone; `cross`, "
        "both in one row.",
        group=Group.TRAINED,
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
    def is_own(self) -> bool:
        """Whether all tasks are files of one's own."""
        return bool(self.tasks) and all(
            map(task_file.is_task_file, self.tasks.split(","))
        )

    @property
    def task_name(self) -> str:
        """What folders and tables call the tasks."""
        return "+".join(task_names(self)) if self.tasks else self.task

    @property
    def phases(self) -> tuple[str, ...]:
        """What trains in each phase: `head` or `all`."""
        return PHASES[self.train]

    @property
    def combinations(self) -> set[str]:
        """How the tasks are combined, in any phase."""
        if self.train == "head_then_all":
            return {self.combine, self.head_combine}
        return {self.combine}

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
        """Whether `max_epochs` is part of the key: the last has its alpha."""
        is_moving = self.samples and self.alpha != self.last_alpha
        return super().names_epochs or is_moving

    def hashed(self) -> dict[str, Any]:
        """The settings that can change a number, by name."""
        values = super().hashed()
        if self.head_combine == self.combine:  # as before the flag
            values.pop("head_combine", None)
        if self.tasks:
            values["task"] = self.task_name
            values["order"] = ",".join(tasks_in_order(self))
        return values

    def defaults(self) -> dict[str, Any]:
        """The epochs of the heads' phase; the rate that is shown."""
        values: dict[str, Any] = {}
        if self.train == "head":
            values["lr"] = self.head_lr
        elif self.lr is None:
            values["lr"] = methods.load(self.method).lr or LR
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


def task_names(settings: Settings) -> list[str]:
    """Names of the tasks."""
    if not settings.tasks:
        return list(cs224n.TASKS)
    names = [
        task_file.read(word).name if task_file.is_task_file(word) else word
        for word in settings.tasks.split(",")
    ]
    for name in names:
        if names.count(name) > 1:
            raise UserError(
                f"--tasks={settings.tasks}: two tasks are called {name!r}. "
                "Give one of them another name."
            )
    return names


def tasks_in_order(settings: Settings) -> list[str]:
    """Names of the tasks, in the order of their passes in an epoch."""
    known = task_names(settings)
    if settings.tasks and settings.order == Settings.order:
        return known
    names = settings.order.split(",")
    if sorted(names) != sorted(known):
        raise UserError(
            f"--order={settings.order}: give each of {', '.join(known)} once, "
            "with commas between."
        )
    return names


def loss_weights(settings: Settings) -> dict[str, float]:
    """The weight of each task's loss."""
    weights = dict.fromkeys(task_names(settings), 1.0)
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


class Mix(Source):
    """Tasks of any kind and source, each with its splits.

    Args:
        settings: settings that name the tasks.

    Attributes:
        tasks: The tasks by name.
        identity: The identities of all sources.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._sources: dict[str, Source] = {}
        if not settings.tasks:
            self._sources, self.identity = cs224n.open_all(
                settings.data, settings.cache_folder
            )
            return
        for word in settings.tasks.split(","):
            if task_file.is_task_file(word):
                own = task_file.read(word)
                self._sources[own.name] = table_source.TableSource(
                    own, settings.split_seed
                )
            else:
                self._sources[word] = registry.open_source(
                    word, settings.data, settings.cache_folder
                )
        self.identity = "; ".join(
            source.identity for source in self._sources.values()
        )

    @functools.cached_property
    def tasks(self) -> dict[str, Task]:
        """The tasks by name; of the paper's, the dev files validate."""
        tasks = {name: s.task for name, s in self._sources.items()}
        if self._settings.tasks:
            return tasks
        return {
            name: dataclasses.replace(task, validation="dev", development=())
            for name, task in tasks.items()
        }

    def read_splits(self, task: Task) -> tasks_lib.Texts:
        """The texts of a task; those of the test if all tasks have one."""
        settings = self._settings
        examples = tasks_lib.read_splits(
            self._sources[task.name],
            task,
            settings.validation_fraction,
            settings.split_seed,
            settings.max_train_examples,
        )
        if not examples["validation"]:
            raise UserError(
                f"--validation_fraction=0: task {task.name} has no validation "
                "texts. Give a fraction."
            )
        if not all(task.development for task in self.tasks.values()):
            examples["test"] = {}
        return examples

    def forget(self) -> None:
        """Frees all texts."""
        for source in self._sources.values():
            source.forget()


class Multitask(experiment.Experiment):
    """One encoder, three tasks: Li's comparison; or your own tasks."""

    name = "multitask"
    Settings = Settings
    metric = OVERALL

    @functools.cached_property
    def source(self) -> Mix:
        """Where the texts come from."""
        return Mix(self.settings)

    @functools.cached_property
    def tasks(self) -> dict[str, Task]:
        """The tasks by name."""
        return self.source.tasks

    def build_head(
        self, task: Task, number: int, encoder: "Encoder"
    ) -> "keras.layers.Layer":
        """The output layer of a task."""
        from tf_transfer.models.heads import pooled

        if task.is_tagging:
            return super().build_head(task, number, encoder)
        settings = self.settings
        pooling = settings.pooling
        if pooling == "cls_for_sentiment":
            pooling = "cls" if len(task.texts) == 1 else "mean"
        return pooled.PooledHead(
            task.units,
            pooled.pooled_width(pooling, encoder),
            pooling,
            settings.head_dropout,
            3 * settings.seed + number,
            settings.precision,
            texts_per_example=self.texts_per_row(task),
            pair_features="both"
            if settings.pairs == "concat"
            else "difference",
            name=f"head_{task.name}",
        )

    def texts_per_row(self, task: Task) -> int:
        """Number of texts of an example that run as rows of their own."""
        return 1 if self.settings.pairs == "cross" else len(task.texts)

    def phases(
        self, network: "Network"
    ) -> tuple[list["Phase"], dict[str, int]]:
        """The phases, and the number of examples of each split."""
        objectives, sizes = self._make_objectives(network.encoder)
        blocks = len(network.encoder.blocks)
        return [
            self._phase(name, objectives, blocks)
            for name in self.settings.phases
        ], sizes

    def read_examples(self, task: Task) -> experiment.Texts:
        """The texts of a task; its development file validates."""
        settings = self.settings
        examples = self.source.read_splits(task)
        validation = examples["validation"][""]
        chosen = splits.choose_subset(
            validation.labels, settings.max_dev_examples, settings.split_seed
        )
        return {**examples, "validation": {"": validation.take(chosen)}}

    def _make_objectives(
        self, encoder: "Encoder"
    ) -> tuple[tuple["Objective", ...], dict[str, int]]:
        weights = loss_weights(self.settings)
        kinds = {task.kind for task in self.tasks.values()}
        objectives, sizes = [], {}
        for task in map(self.tasks.__getitem__, tasks_in_order(self.settings)):
            encoded = self.encode_splits(task, encoder)
            for kind, named in encoded.items():
                if named:
                    sizes[f"{kind}_{task.name}"] = len(named[""])
            objectives.append(
                tasks_lib.make_objective(
                    task,
                    encoded,
                    f"{task.name}_",
                    weights[task.name],
                    # Scores trained with classes have nothing to balance.
                    self.settings.class_weights
                    if task.kind in tasks_lib.BALANCED
                    or kinds.isdisjoint(tasks_lib.BALANCED)
                    else "none",
                )
            )
        return tuple(objectives), sizes

    def _phase(
        self, name: str, objectives: tuple["Objective", ...], blocks: int
    ) -> "Phase":
        from tf_transfer.training.objectives import Phase

        settings = self.settings
        is_last = name == settings.phases[-1]
        return Phase(
            trainable=self.trainable_in(name, blocks),
            trainable_layers=name,
            lr=settings.head_lr if name == "head" else settings.lr,
            max_epochs=settings.max_epochs if is_last else settings.head_epochs,
            objectives=objectives,
            score=lambda scores: scores[OVERALL],
            patience=settings.patience,
            min_delta=settings.min_delta,
            select=settings.select,
            layer_decay=settings.layer_decay,
            summarize=lambda scores: {OVERALL: self.overall(scores)},
            combination=self._combination(
                settings.combine if is_last else settings.head_combine
            ),
        )

    def overall(self, scores: Mapping[str, float]) -> float:
        """The mean of the tasks' headline scores, correlations as (r + 1) / 2.

        Args:
            scores: scores of all tasks, by names that begin with the task.
        """
        if not self.settings.tasks:
            return cs224n.overall(scores)
        values = []
        for name, task in self.tasks.items():
            score = scores[f"{name}_{task.metric}"]
            values.append((score + 1) / 2 if task.kind == "score" else score)
        return sum(values) / len(values)

    def _combination(self, name: str) -> Any:
        from tf_transfer.training import joint

        settings = self.settings
        if name == "sampled":
            return joint.Sampled(settings.alpha, settings.last_alpha)
        return {
            "in_turn": None,
            "sum": joint.Sum(),
            "pcgrad": joint.PCGrad(),
        }[name]

    @classmethod
    def recall_settings(cls, config: dict[str, Any]) -> dict[str, Any]:
        """No names of task files, which may be gone and only training reads."""
        del config
        return {"tasks": "", "order": Settings.order, "loss_weights": ""}


EXPERIMENT = Multitask
run = Multitask.run

if __name__ == "__main__":
    experiment.start(Multitask)
