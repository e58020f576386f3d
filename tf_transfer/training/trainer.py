"""The trainer: how a network is trained, from top to bottom.

    train ── phases ── epochs ── passes over the data ── chunks of steps
                          └── evaluation, selection, records, checkpoint

A pass goes once over the data of an objective. With several objectives, an
epoch has one pass for each, or one that they share (`joint`). `steps` computes
a step.

A resumed run equals an uninterrupted one, bit for bit: order and dropout masks
are functions of seed and position, and everything else is in the checkpoint.
Callbacks do what is not training (progress, TensorBoard, memory).
"""

import contextlib
import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence

import keras
import msgspec
import numpy as np
import tensorflow as tf

from tf_transfer.feature_cache import feature_cache as cache_lib
from tf_transfer.models import freezing
from tf_transfer.models.network import Network
from tf_transfer.training import programs, steps
from tf_transfer.training.callbacks import Callback
from tf_transfer.training.objectives import Phase, TrainingOptions
from tf_transfer.training.progress import Chunk, EarlyStopping, Progress
from tf_transfer.training.records import RunDirectory
from tf_transfer.training.results import (
    OUT_OF_TIME,
    Outcome,
    PhaseResult,
)
from tf_transfer.training.signals import StopSignals
from tf_transfer.training.strategy import Devices
from tf_transfer.utils import screen
from tf_transfer.utils.errors import (
    Interrupted,
    NotFiniteError,
    RunError,
    UserError,
)
from tf_transfer.utils.json_files import Record

Variables = Mapping[str, keras.Variable | tf.Variable]  # by path


class Trainer:
    """Trains a network, phase by phase, in a run directory.

    Args:
        network: Built under the strategy's scope.
        phases: Stretches of training, one after the other.
        devices: Where it runs.
        directory: The run directory, locked.
        options: How to train.
        cache: Where and how the output of a frozen prefix is stored; None to
            run frozen blocks at every step.
        callbacks: See `callbacks.Callback`.

    Attributes:
        progress: The position of the run, and its scores.
        optimizer: Of the current phase.
        weights_that_train: All weights that train in some phase, by path.
        best_logits: Dict of the outputs at the selected epoch, by name.
        is_out_of_time: Whether the phase ends with this epoch; callbacks set
            it.
    """

    def __init__(
        self,
        network: Network,
        phases: Sequence[Phase],
        devices: Devices,
        directory: RunDirectory,
        options: TrainingOptions,
        cache: cache_lib.CacheOptions | None = None,
        callbacks: Sequence[Callback] = (),
    ) -> None:
        self.network = network
        self.phases = list(phases)
        self.devices = devices
        self.directory = directory
        self.options = options
        self.progress = Progress()
        self.best_logits: dict[str, np.ndarray] = {}
        self.is_out_of_time = False
        self._cache_options = cache
        self._callbacks = list(callbacks)
        self._open_cache = contextlib.ExitStack()
        self._saved_at = time.monotonic()
        self._signals = StopSignals()
        with devices.strategy.scope():  # their variable belongs there
            self._seeds = network.seeds
        self.weights_that_train = freezing.find_trained(
            network, [phase.trainable for phase in self.phases]
        )

    # === The run ===

    def train(self) -> Outcome:
        """Trains what is left.

        Raises:
            Interrupted: SIGTERM or Ctrl-C; the state is saved.
            RunError: A loss is not finite, the disk is full, or a frozen
                weight moved.
        """
        moving = frozenset(self.weights_that_train)
        arrays = self._restore()
        progress = self.progress
        # A finished run on this network has checked the hash already.
        hashes = self.network.frozen_hashes
        frozen = hashes.pop(moving, "") or self.network.hash_frozen(moving)
        if progress.frozen_sha256 not in ("", frozen):
            raise UserError(
                f"{self.directory.path}: was started with other encoder "
                "weights than --model loads now. Remove that folder to "
                "start again."
            )
        progress.frozen_sha256 = frozen
        self.directory.write_epochs(progress.epochs)
        try:
            self._call(lambda each: each.on_train_begin(self))
            with self._signals:
                while progress.phase < len(self.phases):
                    self._train_phase(self.phases[progress.phase], arrays)
                    arrays = None
            if self.network.hash_frozen(moving) != frozen:
                raise RunError(
                    "A frozen weight moved during training: this is a bug "
                    "in tf_transfer. The result was not written."
                )
            hashes[moving] = frozen
            self._score_test()
            self._tidy_directory()
            outcome = self._make_outcome()
            self._call(lambda each: each.on_train_end(self, outcome))
            return outcome
        finally:
            self._open_cache.close()
            self._call(lambda each: each.on_close(self))

    def _call(self, event: Callable[[Callback], None]) -> None:
        for callback in self._callbacks:
            event(callback)

    # === A phase ===

    def _train_phase(
        self, phase: Phase, arrays: dict[str, np.ndarray] | None
    ) -> None:
        """Trains a phase to its end, from a checkpoint's arrays if resumed."""
        progress = self.progress
        if arrays is None:
            progress.epoch, progress.best = 1, {}
            progress.stopping = EarlyStopping(phase.patience, phase.min_delta)
        passes = self._prepare(phase, arrays)
        is_within_epoch = progress.step or progress.task
        reason = "" if is_within_epoch else self._reason_to_stop(phase)
        while not reason:
            for one_pass in passes[progress.task :]:
                self._train_pass(phase, one_pass)
            reason = self._end_epoch(phase)
        self._end_phase(phase, reason)

    def _prepare(
        self, phase: Phase, arrays: dict[str, np.ndarray] | None
    ) -> list[steps.Pass]:
        """The passes of a phase, with all its state from arrays, if any."""
        progress = self.progress
        # The order matters: freeze, then build the optimizer, then trace.
        weights = freezing.freeze(self.network, phase.trainable)
        self._seeds.phase = progress.phase
        if arrays:  # a feature cache is named by the weights of its prefix
            self._assign(self.moving_weights, arrays)
        phase = self._attach_features(phase)
        self._programs = programs.prepare(
            self.network,
            progress.phase,
            phase,
            weights,
            self.devices,
            self.options,
        )
        self.optimizer = self._programs.optimizer
        if arrays:
            self._assign(self._variables(), arrays)
        return self._programs.passes

    def _attach_features(self, phase: Phase) -> Phase:
        """The phase on splits with the stored output of their prefix.

        Without a cache, or where the embeddings train, it is the phase itself.
        """
        if self._cache_options is None or not phase.trainable.has_prefix:
            return phase
        progress, cut = self.progress, phase.trainable.cut
        # In the first phase, frozen weights are as they were loaded, apart
        # from those that a method added, which each run initialises.
        is_pristine = progress.phase == 0 and all(
            number > cut for number in self.network.encoder.added
        )
        hashes = self.network.prefix_hashes
        self._open_cache.close()
        cache = cache_lib.FeatureCache(
            self.network.encoder,
            self.devices,
            self._cache_options,
            is_stopped=self._is_build_stopped,
            weights=hashes.get(cut) if is_pristine else None,
        )
        self._open_cache.callback(cache.close)
        if is_pristine:
            hashes[cut] = cache.weights
        attached = []
        for objective in phase.objectives:
            prefix = self.network.prefix(
                objective.name, phase.trainable, self._cache_options.dtype
            )
            stored, cost = cache.attach(
                prefix,
                {"train": objective.train}
                | {
                    f"{split_prefix}{kind}": split
                    for kind, split_prefix, split in objective.scored_splits
                },
            )
            attached.append(objective.with_states(prefix, stored.values()))
            progress.add_prefix(objective.name, cache.engine, cost)
        return dataclasses.replace(phase, objectives=tuple(attached))

    def _is_build_stopped(self) -> bool:
        self._call(lambda each: each.on_build(self))
        return self._signals.came

    # === A pass over the data ===

    def _train_pass(self, phase: Phase, one_pass: steps.Pass) -> None:
        """Trains on what is left of a pass, evaluates and records."""
        progress = self.progress
        share_done = (progress.epoch - 1) / max(1, phase.max_epochs - 1)
        plan = one_pass.plan(progress.total_epochs, share_done)
        self._call(lambda each: each.on_pass_begin(self, phase, plan))
        for chunk in one_pass.train(plan.start_at(progress.step)):
            self._after_chunk(len(plan), chunk)
        progress.end_pass()
        began = time.perf_counter()
        traced_before = progress.trace_seconds
        scores, self._latest_logits = self._programs.evaluate(
            phase, one_pass, progress
        )
        traced = progress.trace_seconds - traced_before
        eval_seconds = time.perf_counter() - began - traced
        task = None
        if len(one_pass.programs) < len(phase.objectives):  # they take turns
            task = one_pass.programs[0].objective.name
        self._record(progress.describe_pass(task, scores, eval_seconds))
        progress.start_pass(progress.task + 1)

    def _after_chunk(self, size: int, chunk: Chunk) -> None:
        """Accounts for a chunk of a pass of this many steps.

        Raises:
            Interrupted: A signal asked for it; the state is saved.
        """
        self.progress.add(chunk)
        self._call(
            lambda each: each.on_steps_end(self, chunk.losses, chunk.counts)
        )
        if self._signals.came:
            self.save()
            self._raise_interrupted()
        # At the end of the pass, the epoch's end saves.
        if self._is_save_due and self.progress.step < size:
            self.save()

    @property
    def _is_save_due(self) -> bool:
        """Whether the last checkpoint is older than it may be."""
        minutes = (time.monotonic() - self._saved_at) / 60
        return minutes >= self.options.checkpoint_minutes

    def _record(self, line: Record) -> None:
        """Writes a line of `epochs.jsonl`."""
        progress = self.progress
        progress.epochs.append(line)
        self._call(lambda each: each.on_record(self, line))  # may add to it
        self.directory.write_epochs(progress.epochs)
        self.directory.note_concurrent_runs()

    # === Selection: the end of an epoch, and of a phase ===

    def _end_epoch(self, phase: Phase) -> str:
        """Selects, saves, and returns why the phase is over, or ""."""
        progress = self.progress
        line = progress.epochs[-1]
        metrics = line["validation"]
        if phase.is_eligible is not None:
            is_best = progress.epoch == 1 or phase.is_eligible(metrics)
        else:
            is_best = phase.score is None or progress.stopping.update(
                phase.score(metrics)
            )
        if is_best or phase.select == "last":
            self.best_logits = self._latest_logits
        if is_best and phase.select == "best":
            self._write_selected_weights(line)
        progress.epoch += 1
        progress.total_epochs += 1
        progress.task = 0
        reason = self._reason_to_stop(phase)
        if not reason and self.is_out_of_time:
            reason = OUT_OF_TIME
        stops = bool(reason) or self._signals.came
        if stops or self.options.checkpoint_epochs or self._is_save_due:
            self.save()
        if not reason and self._signals.came:
            self._raise_interrupted()
        return reason

    def _reason_to_stop(self, phase: Phase) -> str:
        if self.progress.stopping.should_stop:
            return "patience"
        if self.progress.epoch > phase.max_epochs:
            return "max_epochs"
        return ""

    def _end_phase(self, phase: Phase, reason: str) -> None:
        """Restores the selected weights, from which the next phase starts.

        Not checkpointed: a resumed run repeats it.
        """
        progress = self.progress
        lines = [e for e in progress.epochs if e["phase"] == progress.phase + 1]
        record: PhaseResult = {
            "trainable_layers": phase.trainable_layers,
            "lr": phase.lr,
            "epochs": progress.epoch - 1,
            "seconds": sum(line["train_seconds"] for line in lines),
            "stop_reason": reason,
        }
        if phase.select == "last":
            self._write_selected_weights(lines[-1])
        else:
            try:
                arrays = self.directory.read_model(progress.best["model"])
            except ValueError as error:
                raise RunError(
                    f"{error}.\nGive the same command again: it continues "
                    "at the last intact checkpoint."
                ) from None
            self._assign(self.moving_weights, arrays)
        if phase.is_eligible is not None:
            record["kept_epoch"] = progress.best["line"]["phase_epoch"]
        progress.phase_records.append(record)
        progress.phase += 1
        self._programs.release_data()  # the next phase needs the memory

    def _write_selected_weights(self, line: Record) -> None:
        """Writes the current weights, those of epoch `line`, below `model/`."""
        name = f"phase-{line['phase']}-epoch-{line['phase_epoch']}"
        entry = self.directory.write_model(name, _to_numpy(self.moving_weights))
        self.progress.best = {"line": line, "model": entry}

    # === Checkpoints ===

    @property
    def moving_weights(self) -> dict[str, keras.Variable]:
        """Each weight that trains in this or an earlier phase, by path.

        A weight that only a later phase trains is as loaded, so no checkpoint
        needs it.
        """
        phases = self.phases[: self.progress.phase + 1]
        return freezing.find_trained(
            self.network, [phase.trainable for phase in phases]
        )

    def _variables(self) -> Variables:
        return {**self.moving_weights, **self.optimizer.state()}

    def _assign(
        self, variables: Variables, arrays: dict[str, np.ndarray]
    ) -> None:
        with self.devices.strategy.scope():
            for name, variable in variables.items():
                variable.assign(arrays[name])

    def save(self) -> None:
        """Writes a checkpoint with all that a resumed run needs.

        That is the weights that have moved, the optimizer, the outputs at the
        selected epoch, and `progress`.
        """
        arrays = _to_numpy(self._variables())
        if not all(np.isfinite(array).all() for array in arrays.values()):
            # The step's loss was still finite: the update was not.
            raise NotFiniteError("state", self.progress.total_steps)
        arrays |= {f"best/{n}": a for n, a in self.best_logits.items()}
        # Two saves at one step (a signal at an epoch's end) need two numbers.
        number = self.progress.total_steps * 2 + (self.progress.step == 0)
        states = self.directory.checkpoints.save(
            number, arrays, dataclasses.asdict(self.progress)
        )
        self.directory.keep_models(
            [state["best"]["model"] for state in states if state["best"]]
        )
        self._saved_at = time.monotonic()

    def _restore(self) -> dict[str, np.ndarray] | None:
        """Continues at the newest intact checkpoint.

        Returns:
            Its arrays, by the names of `_variables`; None where there is none.
        """

        def check_selected_weights(state: Record) -> None:
            if state["best"]:
                self.directory.read_model(state["best"]["model"])

        newest = self.directory.checkpoints.newest(
            repair=True, also_needs=check_selected_weights
        )
        if newest is None:
            return None
        arrays, state = newest
        self.progress = progress = msgspec.convert(state, Progress)
        self.best_logits = {
            name.removeprefix("best/"): array
            for name, array in arrays.items()
            if name.startswith("best/")
        }
        screen.say(
            f"Continuing at epoch {progress.epoch}, step {progress.step} "
            f"({progress.total_steps} steps done)."
        )
        return arrays

    # === The end of the run ===

    def _score_test(self) -> None:
        """Scores the test with the selected weights, if no epoch has."""
        progress = self.progress
        best = progress.best["line"]
        if best["test"] is not None:
            return
        began = time.perf_counter()
        progress.trace_seconds = 0.0
        for program in self._programs.objectives:
            metrics, logits = program.score(progress, ["test"])
            if metrics:
                best["test"] = {**(best["test"] or {}), **metrics["test"]}
            self.best_logits |= logits
        traced = progress.trace_seconds
        for line in progress.epochs:
            if line["epoch"] == best["epoch"]:
                line["test"] = best["test"]
                line["eval_seconds"] += time.perf_counter() - began - traced
                line["trace_seconds"] += traced
        self._programs.release_data()
        self.directory.write_epochs(progress.epochs)

    def _tidy_directory(self) -> None:
        """Removes what only a running run needs; writes the predictions."""
        self.directory.checkpoints.keep(1)
        self.directory.keep_models([self.progress.best["model"]])
        arrays = dict(self.best_logits)
        for objective in self.phases[-1].objectives:
            arrays |= objective.scored_columns()
        self.directory.write_predictions(arrays)

    def _make_outcome(self) -> Outcome:
        components = freezing.components(self.network)
        outcome = self.progress.make_outcome(
            self._cache_options is not None,
            freezing.count_trained(self.network, self.phases[-1].trainable),
            sum(component.parameters for component in components),
        )
        outcome["checkpoint_bytes"] = self.directory.checkpoints.count_bytes()
        return outcome

    def _raise_interrupted(self) -> None:
        raise Interrupted(
            "Stopped and saved. The same command continues at epoch "
            f"{self.progress.epoch}, step {self.progress.step}: "
            f"{self.directory.path}"
        )


def _to_numpy(variables: Variables) -> dict[str, np.ndarray]:
    """The values, from the first replica. On a CPU, nothing is copied."""
    return {
        name: np.asarray(tf.convert_to_tensor(variable))
        for name, variable in variables.items()
    }
