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
from tf_transfer.data.task import Task
from tf_transfer.multitask.data import MultitaskData
from tf_transfer.multitask.settings import (
    loss_weights,
    Settings,
    tasks_in_order,
)
from tf_transfer.runs import run_data
from tf_transfer.training.progress import OVERALL
from tf_transfer.utils.errors import UserError
from tf_transfer.utils.json_files import Record

if TYPE_CHECKING:
    from keras.layers import Layer

    from tf_transfer.models.encoder import Encoder
    from tf_transfer.training.objectives import Objective, Phase


class Multitask(experiment.Experiment[Settings]):
    """One encoder, three tasks: Li's comparison; or your own tasks."""

    name = "multitask"
    Settings = Settings
    Data = MultitaskData
    metric = OVERALL

    def build_head(self, task: Task, encoder: "Encoder") -> "Layer":
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
    def restore_settings(cls, config: Record) -> Record:
        """The settings to predict with; task files may be gone by now."""
        recalled = super().restore_settings(config)
        for name in ("tasks", "order", "loss_weights", "validation_fraction"):
            recalled.pop(name, None)
        return recalled

    def overall(self, scores: Mapping[str, float]) -> float:
        """The mean of the tasks' headline scores, correlations as (r + 1) / 2.

        Args:
            scores: Scores of all tasks, by names that begin with the task.
        """
        values = []
        for name, task in self.data.tasks.items():
            score = scores[f"{name}_{task.metric}"]
            values.append((score + 1) / 2 if task.kind == "score" else score)
        return sum(values) / len(values)


EXPERIMENT = Multitask
run = Multitask.run
