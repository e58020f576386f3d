"""The model of a run: network, objectives and phases, and the devices."""

import functools
from collections.abc import Callable, Sequence
from typing import ClassVar, Generic, TYPE_CHECKING

import numpy as np

from tf_transfer.config import command_line, settings as settings_lib
from tf_transfer.config.experiments import EXPERIMENTS
from tf_transfer.data import splits
from tf_transfer.data.encoded_split import EncodedSplit
from tf_transfer.data.task import Task
from tf_transfer.models import freezing, loading, methods
from tf_transfer.runs.run_data import RunData, Splits
from tf_transfer.runs.task_settings import SettingsT
from tf_transfer.runs.warm import OURS, WarmState
from tf_transfer.utils.errors import UserError

if TYPE_CHECKING:
    from keras.layers import Layer

    from tf_transfer.feature_cache.feature_cache import CacheOptions
    from tf_transfer.models.encoder import Encoder
    from tf_transfer.models.network import Network
    from tf_transfer.training.objectives import Objective, Phase
    from tf_transfer.training.strategy import Devices

BALANCED = ("classes", "labels")  # kinds that --class_weights applies to


class RunModel(Generic[SettingsT]):
    """The model and devices of a run; the base class of `Experiment`.

    Attributes:
        name: The folder of its runs below `--out`, and its name in grids.
        settings: Resolved.
        data: The tasks.
        warm: Keeps the encoder and the network from one run to the next.
        shares_state: Whether other runs use `warm` as well.
        head: Function (task, encoder) to a Keras layer, in place of
            `build_head`; None for that.
    """

    name: ClassVar[str]
    settings: SettingsT
    data: RunData[SettingsT]
    warm: WarmState
    shares_state: bool
    head: "Callable[[Task, Encoder], Layer] | None"

    @property
    def run_settings(self) -> SettingsT:
        """The settings with those that depend on the texts, as recorded."""
        return self.settings

    @property
    def metric(self) -> str:
        """The metric that selects, stops and ranks."""
        return self.data.task.metric

    @property
    def command_module(self) -> str:
        """The module in the command `python -m ...` of a run."""
        return EXPERIMENTS.get(self.name, type(self).__module__)

    @property
    def has_foreign_code(self) -> bool:
        """Whether a head, a method or the experiment is not of this package.

        Only such code may draw from TensorFlow's own generator.
        """
        paths = methods.METHODS.values()
        return (
            self.head is not None
            or not type(self).__module__.startswith(OURS)
            or not all(path.startswith(".") for path in paths)
        )

    def build_network(
        self, devices: "Devices", encoder: "Encoder | None" = None
    ) -> "Network":
        """Encoder (loaded, unless given) and a head for each task.

        Args:
            devices: Variables are created under their strategy.
            encoder: The encoder of the heads; None to load it.
        """
        from tf_transfer.models.methods import added

        tasks, build_head = self.data.tasks, self.head or self.build_head
        with devices.strategy.scope():
            encoder = encoder or self.load_encoder()
            built = {
                name: build_head(task, encoder) for name, task in tasks.items()
            }
            weights = {}
            if self.settings.trains:  # a probe has a head alone
                weights = added.build(
                    encoder,
                    self.trainable(len(encoder.blocks)),
                    self.settings.seed,
                )
            return self.warm.network(
                encoder,
                built,
                {n: t.score_scale for n, t in tasks.items() if t.score_scale},
                weights,
            )

    def load_encoder(self, warm: WarmState | None = None) -> "Encoder":
        """The pretrained encoder; call it under the strategy's scope.

        Args:
            warm: Keeps it; None for that of the run.

        Raises:
            UserError: It has too few positions.
        """
        settings, probe = self.settings, self.data.fitted_probe
        encoder = (warm or self.warm).load(
            settings.model,
            settings.cache_folder,
            settings.dropout,
            settings.dtype_policy,
            settings.seed,
            # A fitted probe needs no block above the one that it reads.
            probe["block"] if probe else settings.keep_blocks or None,
        )
        if settings.max_length > encoder.max_positions:
            raise UserError(
                f"--max_length={settings.max_length}: this encoder has "
                f"positions for {encoder.max_positions} tokens."
            )
        return encoder

    def build_head(self, task: Task, encoder: "Encoder") -> "Layer":
        """The head of a task: pooling, dropout, one dense layer or two.

        A task that labels words has the token head. A fitted probe has the head
        that holds its weights.

        Raises:
            UserError: `--head=mlp` is given for a task that labels words.
        """
        from tf_transfer.models.heads import dense, pooled, words

        settings, probe = self.settings, self.data.fitted_probe
        name, is_deep = task.head_name, settings.head == "mlp"
        if probe:
            options = 0.0, 0, "float32"  # no dropout; no weight is drawn
            if task.is_tagging:
                return dense.TokenLinearHead(
                    task.units, encoder.hidden, *options, name=name
                )
            pooling = probe["pooling"]
            width = pooled.pooled_width(pooling, encoder)
            if probe["words"]:
                vocabulary = len(encoder.tokenizer.vocabulary)
                return words.WordsHead(
                    task.units, width, pooling, vocabulary, name=name
                )
            return pooled.PooledHead(
                task.units,
                width,
                pooling,
                *options,
                texts_per_example=self.data.texts_per_row(task),
                pair_features=probe["pair_features"] or "difference",
                name=name,
            )
        shared = settings.head_dropout, settings.seed, settings.dtype_policy
        if task.is_tagging and is_deep:
            raise UserError(
                f"--head=mlp: the head of task {task.name}, which labels "
                "words, has two layers already. Leave it out."
            )
        if task.is_tagging:
            return dense.TokenDenseHead(
                task.units, encoder.hidden, *shared, name=name
            )
        if settings.is_contrastive:
            return pooled.UnitMeanHead(task.units, encoder.hidden, name=name)
        pooling = self.pooling_of(task)
        return pooled.PooledHead(
            task.units,
            pooled.pooled_width(pooling, encoder),
            pooling,
            *shared,
            texts_per_example=self.data.texts_per_row(task),
            pooler_dropout=settings.pooler_dropout,
            inner_units=encoder.hidden if is_deep else 0,
            name=name,
        )

    def pooling_of(self, task: Task) -> str:
        """The pooling that the head of a task reads; see `base_head.Head`."""
        if task.is_tagging:
            return "tokens"
        return "mean" if self.settings.is_contrastive else self.settings.pooling

    def trainable(self, blocks: int, phase: str = "") -> freezing.Trainable:
        """The weights that train in a phase.

        Args:
            blocks: Number of the encoder's blocks.
            phase: One of `Settings.phases`; empty for the last.
        """
        settings = self.settings
        return freezing.parse(
            phase or settings.phases[-1],
            settings.blocks,
            blocks,
            methods.from_settings(settings),
            loading.has_new_pooler(settings.model),
        )

    # === Phases ===

    def make_objective(self, task: Task, encoded: Splits) -> "Objective":
        """The objective of a task, with the loss for its kind of labels.

        Args:
            task: The task, with the names of its head, labels and metrics.
            encoded: See `RunData.encode_splits`.

        Raises:
            UserError: No task has classes to balance.
        """
        from tf_transfer.data import metrics  # takes seconds to import
        from tf_transfer.training import objectives

        loss = objectives.loss_for(task.kind, task.units)
        if task.score_scale:
            loss = objectives.scaled_loss(loss, task.score_scale[1])
        kinds = {task.kind for task in self.data.tasks.values()}
        if self.settings.class_weights == "balanced":
            if kinds.isdisjoint(BALANCED):
                raise UserError(
                    f"--class_weights=balanced: task {task.name} has no "
                    "classes. Leave it out."
                )
            # Scores trained with classes have nothing to balance.
            if task.kind in BALANCED:
                loss = objectives.balanced_loss(
                    loss, encoded["train"][""].labels, len(task.labels or ())
                )

        def measure(
            split: EncodedSplit, logits: np.ndarray
        ) -> dict[str, float]:
            return metrics.measure_task(
                task, split.targets, logits, split.word_starts
            )

        fit_regression = None
        if self.settings.is_contrastive:
            if task.kind != "classes":
                raise UserError(
                    "--method=contrastive: compares texts by their classes, "
                    f"and task {task.name} has none. Leave it out."
                )
            from tf_transfer.baselines import linear

            is_balanced = self.settings.class_weights == "balanced"
            fit_regression = functools.partial(
                linear.fit_contrastive_head, task, is_balanced
            )
        return objectives.Objective(
            name=task.name,
            loss=loss,
            fit_regression=fit_regression,
            train=encoded["train"][""],
            evaluation={k: encoded[k] for k in ("validation", "test")},
            measure=measure,
        )

    def make_phases(
        self, objectives: "Sequence[Objective]", blocks: int
    ) -> "list[Phase]":
        """The phases of a run: here one.

        Args:
            objectives: Of the tasks, in their order.
            blocks: Number of the encoder's blocks.
        """
        from tf_transfer.training.objectives import Phase

        settings, metric = self.run_settings, self.metric
        validates = all(o.evaluation["validation"] for o in objectives)
        phase = Phase(
            trainable=self.trainable(blocks),
            trainable_layers=settings.blocks or settings.phases[-1],
            lr=settings.lr,
            max_epochs=settings.max_epochs,
            objectives=tuple(objectives),
            score=(lambda scores: scores[metric]) if validates else None,
            patience=settings.patience if validates else 0,
            min_delta=settings.min_delta,
            select=settings.select,
            layer_decay=settings.layer_decay,
        )
        return [phase]

    def build(
        self, devices: "Devices", encoder: "Encoder | None" = None
    ) -> tuple["Network", list["Phase"], dict[str, int]]:
        """Network, phases and split sizes of a run.

        Raises:
            UserError: No example is left to score.
        """
        data = self.data
        _ = data.examples  # an invalid row is reported before weights load
        network = self.build_network(devices, encoder)
        encoded = {
            name: data.encode_splits(task, network.encoder)
            for name, task in data.tasks.items()
        }
        objectives = [
            self.make_objective(task, encoded[name])
            for name, task in data.tasks.items()
        ]
        if not (
            data.may_score_nothing
            or any(objective.scored_splits for objective in objectives)
        ):
            raise UserError(splits.NOTHING_SCORED)
        phases = self.make_phases(objectives, len(network.encoder.blocks))
        sizes = {
            data.name_split(kind, name, split): len(some)
            for name, kinds in encoded.items()
            for kind, named in kinds.items()
            for split, some in named.items()
        }
        return network, phases, sizes

    # === Where it runs ===

    def set_up_devices(self) -> "Devices":
        """The devices of the run; see `strategy.set_up`."""
        command_line.import_tensorflow()
        from tf_transfer.training import strategy

        settings = self.settings
        return strategy.set_up(
            settings.strategy,
            settings.batch_size if settings.trains else None,
            cpu_devices=settings.cpu_devices,
            precision=settings.precision,
            deterministic=settings.deterministic,
            seed=settings.seed,
            seeds_tensorflow=self.has_foreign_code,
        )

    def cache_options(self) -> "CacheOptions | None":
        """The feature cache's options; None to run frozen blocks live.

        Raises:
            UserError: `--also_cache` names more blocks than there are.
        """
        from tf_transfer.feature_cache.feature_cache import CacheOptions

        settings, also = self.settings, []
        if not settings.runs_cached:
            return None
        if settings.also_cache:
            shape = loading.read_shape(settings.model, settings.keep_blocks)
            blocks = shape.blocks
            also = [blocks - int(n) for n in settings.also_cache.split(",")]
            if min(also) < 0:
                raise UserError(
                    f"--also_cache={settings.also_cache}: this encoder has "
                    f"{blocks} blocks."
                )
        return settings_lib.pick(
            CacheOptions,
            settings,
            folder=settings.cache_folder,
            precision=settings.arithmetic,
            engine=settings.pass_engine,
            engine_precision=settings.pass_precision,
            dtype=settings.cache_dtype,
            limit_gb=settings.cache_limit_gb,
            also=tuple(also),
        )
