"""The network of a run: the encoder, a head for each task, and what trains."""

from collections.abc import Callable
from typing import Any, TYPE_CHECKING

from tf_transfer.data.task import Task
from tf_transfer.models import freezing, loading, methods
from tf_transfer.runs.run_data import RunData
from tf_transfer.runs.warm import OURS, WarmState
from tf_transfer.utils.errors import UserError

if TYPE_CHECKING:
    from keras.layers import Layer

    from tf_transfer.models.encoder import Encoder
    from tf_transfer.models.network import Network
    from tf_transfer.training.strategy import Devices


class RunModel:
    """Builds the network of a run; the base class of `Experiment`.

    Attributes:
        settings: resolved.
        data: the tasks.
        warm: keeps the encoder and the network from one run to the next.
        head: function (task, encoder) to a Keras layer, in place of
            `build_head`; None for that.
    """

    settings: Any
    data: RunData
    warm: WarmState
    head: "Callable[[Task, Encoder], Layer] | None"

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
            devices: variables are created under their strategy.
            encoder: the encoder of the heads; None to load it.
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

    def load_encoder(self) -> "Encoder":
        """The pretrained encoder; call it under the strategy's scope.

        Raises:
            UserError: it has too few positions.
        """
        settings, probe = self.settings, self.data.fitted_probe
        encoder = self.warm.load(
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
        """What the head of a task reads of a text; see `base_head.Head`."""
        if task.is_tagging:
            return "tokens"
        return "mean" if self.settings.is_contrastive else self.settings.pooling

    def trainable(self, blocks: int, phase: str = "") -> freezing.Trainable:
        """The weights that train in a phase.

        Args:
            blocks: number of the encoder's blocks.
            phase: one of `Settings.phases`; empty for the last.
        """
        settings = self.settings
        return freezing.parse(
            phase or settings.phases[-1],
            settings.blocks,
            blocks,
            methods.from_settings(settings),
            loading.has_new_pooler(settings.model),
        )
