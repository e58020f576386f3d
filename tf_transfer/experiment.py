"""Experiments: one paper each, or a user's own.

An experiment has settings, tasks and the source of their texts, a model with
its heads, phases, and a way to predict. Training, `--describe`, naming a run
without loading it, sweeping, predicting and exporting ask it alone.

`Experiment` itself trains a head on one text or pair of texts of GLUE, in one
phase with one objective. A paper overrides the methods that differ. See
docs/python.md for one of your own.
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TYPE_CHECKING

import numpy as np

from tf_transfer import tasks as tasks_lib
from tf_transfer.config import command_line
from tf_transfer.config import settings as settings_lib
from tf_transfer.config.experiments import EXPERIMENTS, load
from tf_transfer.data import glue, splits
from tf_transfer.data import texts as texts_lib
from tf_transfer.data.task import Source, Task
from tf_transfer.models import loading, methods
from tf_transfer.tasks import Splits, TaskSettings, Texts
from tf_transfer.trained import Result
from tf_transfer.training import records
from tf_transfer.utils.errors import UserError
from tf_transfer.utils.formatting import cut
from tf_transfer.warm import WarmState

if TYPE_CHECKING:
    import keras

    from tf_transfer.data.batches import EncodedSplit
    from tf_transfer.models.encoder import Encoder
    from tf_transfer.models.freezing import Trainable
    from tf_transfer.models.methods.base import Method
    from tf_transfer.models.network import Network
    from tf_transfer.training.callbacks import Callback
    from tf_transfer.training.objectives import Phase
    from tf_transfer.training.strategy import Devices


class Experiment:
    """One run of an experiment: its resolved settings, data, model and phases.

    Args:
        settings: of the class `Settings`; they are resolved here.
        source: the source of the task's texts, in place of the one that the
            settings name.
        head: function (task, encoder) to a Keras layer with the interface of
            `models.heads.pooled.PooledHead`, in place of the experiment's own.

    Attributes:
        name: the folder of its runs below `--out`, and its name in grids.
        settings: resolved.
        cut_share: fraction of the training texts that were cut.
        chosen: what a fitted probe reads; see `probe.Probe.chosen`. Else None.

    Raises:
        UserError: the settings are invalid; the message names the flag.
    """

    name: ClassVar[str]
    Settings: ClassVar[type] = TaskSettings
    scales_scores: ClassVar[bool] = False  # see `Task.scaled`

    def __init__(
        self,
        settings: Any,
        source: Source | None = None,
        head: Callable[[Task, "Encoder"], "keras.layers.Layer"] | None = None,
    ) -> None:
        self.settings = settings.resolve()
        _ = self.method  # an invalid method is reported at once
        self._head = head
        self._own_source = source
        self.cut_share = 0.0
        self.chosen: dict[str, Any] | None = None
        self._warm = WarmState()
        if source is not None:
            self.source = source

    # === Tasks and names: nothing is loaded ===

    @functools.cached_property
    def source(self) -> Any:
        """The source of its texts."""
        return tasks_lib.open_source(self.settings)

    @functools.cached_property
    def tasks(self) -> dict[str, Task]:
        """Its tasks, by the names of their heads."""
        settings = self.settings
        is_baseline = settings.is_sparse or settings.is_probe
        loss_head = "sigmoid" if is_baseline else settings.loss_head
        task = self.source.task.with_loss_head(loss_head)
        if settings.is_probe:  # a regression needs no unit
            task = dataclasses.replace(task, score_scale=None)
        elif self.scales_scores:
            task = task.scaled()
        return {task.name: task}

    @property
    def task(self) -> Task:
        """The only task of an experiment that has one."""
        [task] = self.tasks.values()
        return task

    @property
    def metric(self) -> str:
        """The metric that selects, stops and ranks."""
        return self.task.metric

    @property
    def folders(self) -> list[str]:
        """Folders between the experiment's folder and the run's."""
        if self._own_source is not None:
            return [self._own_source.task.name, self.settings.approach]
        return [self.settings.task_name, self.settings.approach]

    @property
    def identities(self) -> dict[str, str]:
        """The identities of model, data and head, for the key of a run."""
        identities = {
            "model_identity": loading.identify(
                self.settings.model, self.settings.cache_folder
            ),
            "data_identity": self.data_identity,
        }
        if self.head_identity is not None:
            identities["head_identity"] = self.head_identity
        return identities

    @property
    def data_identity(self) -> str:
        """The identity of the data, and the unit of its scores."""
        identity = self.source.identity
        if not self.scales_scores:
            return identity
        is_scaled = self.source.task.scaled() != self.source.task
        return f"{identity} scaled" if is_scaled else identity

    @property
    def head_identity(self) -> str | None:
        """The name of the function that builds a head of the user's own."""
        if self._head is None:
            return None
        name = getattr(self._head, "__qualname__", type(self._head))
        return f"{self._head.__module__}.{name}"

    @property
    def command_module(self) -> str:
        """The module in the command `python -m ...` of a run."""
        return EXPERIMENTS.get(self.name, type(self).__module__)

    def find_run(self, replicas: int = 1) -> records.RunDirectory:
        """The directory of the run, known before anything is loaded.

        Args:
            replicas: number of replicas that share a batch.
        """
        return records.locate(
            self.settings, self.name, self.folders, self.identities, replicas
        )

    def find_finished(self) -> Result | None:
        """The finished run, which is printed; None if steps are left.

        Also None where the number of replicas takes TensorFlow to know: `train`
        looks again.
        """
        if self.settings.strategy not in ("default", "one_device"):
            return None
        return self._finished(self.find_run())

    def _finished(
        self, directory: records.RunDirectory, is_chief: bool = True
    ) -> Result | None:
        record = directory.result()
        directory.check_key()
        if record is None or records.is_extended(self.settings, record):
            return None
        if is_chief:
            more, phases = "", record["phases"]
            if phases and phases[-1]["epochs"] > self.settings.max_epochs:
                more = (
                    f"It has run {phases[-1]['epochs']} epochs, more than "
                    f"--max_epochs={self.settings.max_epochs}. "
                )
            print(
                f"Already done: {directory.path}\n"
                f"{records.summarize(record)}\n{more}"
                "Use --rerun to run it again, in a directory next to it."
            )
        return Result(self, directory.path, record)

    # === Model ===

    @property
    def method(self) -> "Method":
        """The method inside of the trainable blocks."""
        return methods.from_settings(self.settings)

    @property
    def has_new_pooler(self) -> bool:
        """Whether the pooler is new, as the pretrained model has none."""
        return loading.is_roberta(self.settings.model)

    def build_network(
        self, devices: "Devices", encoder: "Encoder | None" = None
    ) -> "Network":
        """Encoder (loaded, unless given) and a head for each task.

        Args:
            devices: variables are created under their strategy.
            encoder: the encoder of the heads; None to load it.
        """
        from tf_transfer.models.methods import added

        with devices.strategy.scope():
            encoder = encoder or self.load_encoder()
            heads = {
                name: self._head(task, encoder)
                if self._head
                else self.build_head(task, number, encoder)
                for number, (name, task) in enumerate(self.tasks.items())
            }
            scales = {
                name: task.score_scale
                for name, task in self.tasks.items()
                if task.score_scale
            }
            trainable = self.trainable(len(encoder.blocks))
            return self._warm.network(
                encoder,
                heads,
                scales,
                added.build(encoder, trainable, self.settings.seed),
            )

    def load_encoder(self) -> "Encoder":
        """The pretrained encoder; call it under the strategy's scope.

        Raises:
            UserError: it has too few positions.
        """
        settings = self.settings
        encoder = self._warm.load(
            loading.identify(settings.model, settings.cache_folder),
            settings.model,
            settings.cache_folder,
            settings.dropout,
            settings.precision,
            settings.seed,
            # A fitted probe needs no block above the one that it reads.
            self.chosen["block"]
            if self.chosen
            else settings.keep_blocks or None,
        )
        if settings.max_length > encoder.max_positions:
            raise UserError(
                f"--max_length={settings.max_length}: this encoder has "
                f"positions for {encoder.max_positions} tokens."
            )
        return encoder

    def build_head(
        self, task: Task, number: int, encoder: "Encoder"
    ) -> "keras.layers.Layer":
        """The head of a task: pooling, dropout, one dense layer or two.

        Args:
            task: the task that it answers.
            number: index of the task among those of the experiment.
            encoder: the encoder that it reads.
        """
        del number
        if self.chosen:
            return tasks_lib.make_probe_head(self.chosen, task, encoder)
        return tasks_lib.make_head(
            self.settings, task, encoder, self.texts_per_row(task)
        )

    def texts_per_row(self, task: Task) -> int:
        """Number of texts of an example that run as rows of their own.

        Raises:
            UserError: `--pairs` is given, and the task has no pairs.
        """
        if self.chosen:
            return 2 if self.chosen["pair_features"] else 1
        if self.settings.pairs != "sbert":
            return 1
        if len(task.texts) == 1:
            raise UserError(
                f"--pairs=sbert: task {task.name} has one text an example, no "
                "pairs. Leave it out."
            )
        return len(task.texts)

    def trainable(self, blocks: int) -> "Trainable":
        """The weights that train, in the last of several phases.

        Args:
            blocks: number of the encoder's blocks.
        """
        from tf_transfer.models import freezing

        if self.settings.phases:
            return self.trainable_in(self.settings.phases[-1], blocks)
        return freezing.parse(
            self.settings.trainable_layers,
            self.settings.blocks,
            blocks,
            self.method,
            self.has_new_pooler,
        )

    def trainable_in(self, phase: str, blocks: int) -> "Trainable":
        """The weights that train in a phase of `Settings.phases`."""
        from tf_transfer.models import freezing

        return freezing.parse(
            phase, "", blocks, self.method, self.has_new_pooler
        )

    # === Data and phases ===

    @property
    def reads_without_tensorflow(self) -> bool:
        """Whether `examples` may be read before the devices are set up.

        TFDS reads with TensorFlow, and a user's own source may.
        """
        return self._own_source is None and (
            self.settings.is_own or self.settings.data != "tfds"
        )

    @functools.cached_property
    def examples(self) -> dict[str, Texts]:
        """The texts of each task, by its name, until `forget`."""
        examples = {
            name: self.read_examples(task) for name, task in self.tasks.items()
        }
        if self.settings.is_own:
            for name, texts in examples.items():
                tasks_lib.report_shared(name, texts)
        return examples

    def read_examples(self, task: Task) -> Texts:
        """The training, validation and test texts of a task.

        The official development set is the test; MNLI's mismatched one has
        the split name `mismatched`.

        Raises:
            UserError: a row is invalid; the message names file and line.
        """
        settings = self.settings
        return tasks_lib.read_splits(
            self.source,
            task,
            settings.validation_fraction,
            settings.split_seed,
            settings.max_train_examples,
        )

    def encode_splits(self, task: Task, encoder: "Encoder") -> Splits:
        """The examples of a task as token ids."""
        title = f"{task.name} " if len(self.tasks) > 1 else ""
        encoded = {
            kind: {
                name: self.encode(some, task, encoder, f"{title}{kind}")
                for name, some in named.items()
                if kind != "test" or self.settings.score_test
            }
            for kind, named in self.examples[task.name].items()
        }
        self.cut_share = max(
            self.cut_share,
            tasks_lib.report_cut(
                encoded["train"][""], self.settings.max_length
            ),
        )
        return encoded

    def encode(
        self,
        examples: Any,
        task: Task,
        encoder: "Encoder",
        name: str,
        texts_per_row: int | None = None,
    ) -> "EncodedSplit":
        """Tokenises examples.

        Args:
            examples: `Examples`, labelled or not, or `Sentences` of a task
                that labels words.
            task: the task of the examples.
            encoder: the encoder, which has the tokenizer.
            name: text of the progress bar.
            texts_per_row: number of texts of an example that run as rows of
                their own. None: as `texts_per_row` returns.
        """
        return tasks_lib.encode(
            examples,
            task,
            encoder,
            self.settings.max_length,
            texts_per_row or self.texts_per_row(task),
            name,
            functools.partial(
                self._warm.encode, long_texts=self.settings.long_texts
            ),
        )

    def phases(
        self, network: "Network"
    ) -> tuple[list["Phase"], dict[str, int]]:
        """The phases, and the number of examples of each split."""
        encoded = self.encode_splits(self.task, network.encoder)
        return tasks_lib.make_phases(
            self.settings,
            self.task,
            encoded,
            self.trainable(len(network.encoder.blocks)),
            self.metric,
        ), tasks_lib.count_examples(encoded)

    def build(
        self, devices: "Devices", encoder: "Encoder | None" = None
    ) -> tuple["Network", list["Phase"], dict[str, int]]:
        """Network, phases and split sizes of a run.

        Raises:
            UserError: no example is left to score.
        """
        _ = self.examples  # an invalid row is reported before weights load
        network = self.build_network(devices, encoder)
        phases, sizes = self.phases(network)
        if not any(
            o.scored_splits for phase in phases for o in phase.objectives
        ):
            raise UserError(splits.NOTHING_SCORED)
        return network, phases, sizes

    def forget(self) -> None:
        """Frees the texts."""
        self.__dict__.pop("examples", None)
        if isinstance(self.source, Source):
            self.source.forget()

    # === A run ===

    @classmethod
    def run(
        cls,
        settings: Any,
        callbacks: Sequence["Callback"] = (),
        source: Source | None = None,
        head: Callable | None = None,
    ) -> Result:
        """Trains and evaluates, or finds the finished run.

        Args:
            settings: of the class `Settings`.
            callbacks: see `training.callbacks.Callback`.
            source, head: see `Experiment`.

        Raises:
            UserError: settings or data are invalid.
            Interrupted: SIGTERM or Ctrl-C; the same call resumes the run.
        """
        return cls(settings, source=source, head=head).train(callbacks)

    def train(
        self,
        callbacks: Sequence["Callback"] = (),
        warm: WarmState | None = None,
    ) -> Result:
        """Trains the run, or resumes it; see `run`.

        Args:
            callbacks: see `training.callbacks.Callback`.
            warm: state that the runs of this process share: the next run
                reuses this run's network.
        """
        finished = self.find_finished()
        if finished is not None:
            return finished
        if self.reads_without_tensorflow:
            _ = self.examples  # an invalid row is reported at once
        command_line.import_tensorflow()
        from tf_transfer.models import freezing
        from tf_transfer.training import callbacks as callbacks_lib
        from tf_transfer.training import trainer as trainer_lib
        from tf_transfer.training.optimizer import AdamOptions

        self._warm = warm or self._warm
        settings = self.settings
        if settings.is_probe:
            from tf_transfer.baselines import probe_run

            return Result(self, *probe_run.run(self))
        devices = self.set_up_devices()
        directory = self.find_run(devices.replicas)
        finished = self._finished(directory, devices.is_chief)
        if finished is not None:
            return finished
        network, phases, sizes = self.build(devices)
        leaves_test = not settings.score_test and any(
            texts["test"] for texts in self.examples.values()
        )
        warnings = [
            warning
            for name, texts in self.examples.items()
            for warning in splits.find_warnings(self.tasks[name], texts)
        ]
        self.forget()
        devices.agree(0)  # all workers have looked before the chief writes
        record = directory.result()
        parts = {c.name: c.parameters for c in freezing.components(network)}
        try:
            if devices.is_chief:
                if record is not None:
                    print(records.describe_extension(settings, record))
                directory.begin(
                    settings,
                    devices,
                    parts,
                    sizes,
                    {"tasks": {n: t.record for n, t in self.tasks.items()}}
                    | {"runs_before": self._warm.runs},
                )
            trainer = trainer_lib.Trainer(
                network,
                phases,
                devices,
                directory,
                settings_lib.pick(
                    trainer_lib.TrainingOptions,
                    settings,
                    adam=settings_lib.pick(AdamOptions, settings),
                ),
                self.cache_options(),
                [
                    callbacks_lib.PeakMemory(self._warm.runs == 0),
                    callbacks_lib.ProgressBar(),
                    callbacks_lib.TensorBoard(
                        directory, settings, self.folders[0], self.metric
                    ),
                    callbacks_lib.CheckpointTimer(settings.checkpoint_minutes),
                    *self.own_callbacks(),
                    *callbacks,
                ],
            )
            if warm is not None:
                warm.remember(trainer.weights_that_train.values())
            record = {
                "task": self.folders[0],
                "metric": self.metric,
                "approach": settings.approach,
                "trainable_layers": phases[-1].trainable_layers,
                "lr": settings.lr,
                "batch_size": settings.batch_size,
                "seed": settings.seed,
                **trainer.train(),
                "warnings": warnings,
            }
            if leaves_test:
                record["scores_test"] = False
            if devices.is_chief:
                directory.end(record)
        finally:
            WarmState.runs += 1
            directory.close()
        return Result(self, directory.path, record, network)

    def own_callbacks(self) -> list["Callback"]:
        """Callbacks that every run of this experiment has."""
        return []

    def set_up_devices(self) -> "Devices":
        """The devices of the run; see `strategy.set_up`."""
        from tf_transfer.training import strategy

        settings = self.settings
        return strategy.set_up(
            settings.strategy,
            settings.batch_size,
            cpu_devices=settings.cpu_devices,
            deterministic=settings.deterministic,
            seed=settings.seed,
        )

    def cache_options(self) -> Any:
        """The feature cache's options; None to run frozen blocks live."""
        from tf_transfer.feature_cache.cache import CacheOptions

        settings = self.settings
        if not settings.runs_cached:
            return None
        return settings_lib.pick(
            CacheOptions,
            settings,
            folder=settings.cache_folder,
            dtype=settings.cache_dtype,
            limit_gb=settings.cache_limit_gb,
            also=(),
        )

    def describe(self) -> str:
        """The table of `--describe`: components, and whether they train."""
        if self.settings.is_sparse or self.settings.is_probe:
            return self._describe_task(self.task, None)
        command_line.import_tensorflow()
        from tf_transfer.models import freezing

        network = self.build_network(self.set_up_devices())
        trainable = self.trainable(len(network.encoder.blocks))
        cards = []
        if self.reads_without_tensorflow:
            cards = [
                self._describe_task(task, network.encoder)
                for task in self.tasks.values()
            ]
        return "\n".join([*cards, freezing.describe(network, trainable)])

    def _describe_task(self, task: Task, encoder: "Encoder | None") -> str:
        """The report card of a task's data, with lengths if tokenised."""
        from tf_transfer.data import card

        examples, lengths = self.examples[task.name], np.zeros(0, np.int64)
        if encoder is not None and not task.is_tagging:
            split = self.encode(examples["train"][""], task, encoder, "train")
            assert split.tokens.lost is not None
            lengths = split.tokens.lengths + split.tokens.lost
        return card.describe(task, examples, lengths, self.settings.max_length)

    # === Predicting ===

    @classmethod
    def of_run(
        cls,
        config: dict[str, Any],
        cache_dir: str = "",
        head: "Callable[[Task, Encoder], keras.layers.Layer] | None" = None,
    ) -> "Experiment":
        """The experiment of a finished run, to predict with on this machine.

        Args:
            config: the content of its `config.json`.
            cache_dir: folder for downloads by pip.
            head: the function that built its head, if not the experiment.
        """
        names = {field.name for field in dataclasses.fields(cls.Settings)}
        known = {k: v for k, v in config["settings"].items() if k in names}
        known |= {
            "strategy": "default",
            "cpu_devices": 1,
            "cache_dir": cache_dir,
            **cls.recall_settings(config),
        }
        experiment = cls(cls.Settings(**known), head=head)
        if experiment.settings.is_probe:
            experiment.chosen = config["chosen"]
        experiment.tasks = {
            name: glue.recall(name, record)
            for name, record in config["tasks"].items()
        }
        return experiment

    @classmethod
    def recall_settings(cls, config: dict[str, Any]) -> dict[str, Any]:
        """Settings that differ from the run's when it predicts.

        Args:
            config: the content of its `config.json`.
        """
        del config
        return {}

    @property
    def reads_table(self) -> bool:
        """Whether the texts are a table that a `HeldOutSource` reads."""
        return False

    @property
    def keyword_column(self) -> str:
        """The column that is put before each text; empty for none."""
        if not self.reads_table:
            return ""
        return getattr(self.settings, "keyword_column", "")

    def prepare_text(self, text: str, keyword: str = "") -> str:
        """A text, prepared as the texts that the run was trained on."""
        if not self.reads_table:
            return text
        is_cleaned = getattr(self.settings, "clean", "none") == "basic"
        return texts_lib.make_text(text, keyword, is_cleaned)


# === Finished runs ===


def open_run(
    path: str,
    cache_dir: str = "",
    experiment_name: str = "",
    head: "Callable[[Task, Encoder], keras.layers.Layer] | None" = None,
) -> Result:
    """A finished run, ready to predict.

    Args:
        path: path of its directory.
        cache_dir: folder for downloads by pip.
        experiment_name: module of a user's own experiment; no file decides
            which code is loaded.
        head: the function that `run` was given as `head`, if any.

    Raises:
        UserError: the run is unfinished, damaged or without a model, or its
            encoder or head is another one than now.
    """
    directory = records.RunDirectory(path, None)
    record = directory.result()
    if record is not None and not record["best_epoch"]:
        raise UserError(
            f"--run={path}: is a baseline, which keeps no model. Give a run of "
            "an encoder."
        )
    config = directory.config(records.Trained)
    if config is None or record is None:
        missing = "config.json" if config is None else "result.json"
        raise UserError(
            f"--run={path}: has no {missing}. Give a finished run's folder."
        )
    directory.check_file("config.json", record)
    name = config["key"]["module"]
    cls = None
    if experiment_name or name in EXPERIMENTS:
        cls = load(experiment_name or name)
    if cls is None or cls.name != name:
        raise UserError(
            f"--run={path}: is a run of the experiment {cut(name)!r}. Give its "
            "module as --experiment."
        )
    experiment = cls.of_run(config, cache_dir, head)
    wanted = config["key"].get("head_identity")
    if experiment.head_identity != wanted:
        known = f"the head {wanted}" if wanted else "no head of your own"
        raise UserError(
            f"--run={path}: was trained with {known}. In Python, "
            "experiment.open_run takes it as `head`."
        )
    identity = loading.identify(
        experiment.settings.model, experiment.settings.cache_folder
    )
    if identity != config["key"]["model_identity"]:
        raise UserError(
            f"--run={path}: was trained on another "
            f"{experiment.settings.model} ({config['key']['model_identity']}) "
            f"than there is now ({identity}). Bring the old one back."
        )
    return Result(experiment, path, record)


# === Commands ===


def start(cls: type[Experiment]) -> None:
    """Runs an experiment's module as a command."""
    command_line.start(lambda: main(cls), cls.Settings)


def main(cls: type[Experiment]) -> None:
    """Reads the flags; trains, or prints what would train."""
    execute(cls(command_line.from_flags(cls.Settings)))


def execute(experiment: Experiment) -> None:
    """Trains, or prints what would train."""
    if experiment.settings.describe:
        print(experiment.describe())
    else:
        experiment.train()
