"""The trainer: how a network is trained, from top to bottom.

    train ── phases ── epochs ── passes over the data ── chunks of steps
                          └── evaluation, selection, records, checkpoint

A pass is one objective's data set, once; with several objectives an epoch has a
pass for each, or one that they share (`joint.JointPass`). What a step computes
is in `steps`, next door.

A resumed run is the run that was not interrupted, bit for bit: order and
dropout masks are functions of seed and position, and everything else is in the
checkpoint. What is not training (progress, TensorBoard, memory, the interval of
checkpoints) is done by callbacks.
"""

import collections
import dataclasses
import hashlib
import sys
import time
from collections.abc import Collection
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tf_transfer.feature_cache.cache import CacheOptions
from tf_transfer.feature_cache.cache import FeatureCache
from tf_transfer.models import freezing
from tf_transfer.models.network import Network
from tf_transfer.training import programs
from tf_transfer.training import progressive
from tf_transfer.training.callbacks import Callback
from tf_transfer.training.dropout import DropoutSeeds
from tf_transfer.training.objectives import Objective
from tf_transfer.training.objectives import Phase
from tf_transfer.training.optimizer import AdamOptions
from tf_transfer.training.progress import Progress
from tf_transfer.training.records import OUT_OF_TIME
from tf_transfer.training.records import RunDirectory
from tf_transfer.training.signals import StopSignals
from tf_transfer.training.steps import NotFiniteError
from tf_transfer.training.steps import ObjectiveProgram
from tf_transfer.training.steps import Pass
from tf_transfer.training.stopping import EarlyStopping
from tf_transfer.training.strategy import Devices
from tf_transfer.utils import machine
from tf_transfer.utils.errors import Interrupted
from tf_transfer.utils.errors import UserError


@dataclasses.dataclass(frozen=True)
class TrainingOptions:
    """How to train; the fields are those of `config.settings.Settings`."""

    adam: AdamOptions
    batch_size: int
    batching: str
    max_length: int
    schedule: str
    warmup_fraction: float
    seed: int
    jit_compile: bool = False
    drop_last: bool = False


class Trainer:
    """Trains a network, phase by phase, in a run directory.

    Args:
        network: built under the strategy's scope.
        phases: what to train, one after the other.
        devices: where it runs.
        directory: the run directory; locked if this is the chief.
        options: how to train.
        cache: where and how the output of a frozen prefix is stored; None to
            run frozen blocks at every step.
        callbacks: called by the chief alone; see `callbacks.Callback`.

    Attributes:
        progress: where the run stands.
        optimizer: of the current phase.
        steps_left: of the current pass.
        best_logits: dict of the outputs at the selected epoch, by name.
        is_out_of_time: whether the phase ends with this epoch; callbacks set
            it.
    """

    def __init__(
        self,
        network: Network,
        phases: Sequence[Phase],
        devices: Devices,
        directory: RunDirectory,
        options: TrainingOptions,
        cache: CacheOptions | None = None,
        callbacks: Sequence[Callback] = (),
    ) -> None:
        self.network = network
        self.phases = list(phases)
        self.devices = devices
        self.directory = directory
        self.options = options
        self.progress = Progress()
        self.optimizer: Any = None
        self.steps_left = 0
        self.best_logits: dict[str, np.ndarray] = {}
        self.is_out_of_time = False
        self._cache_options = cache
        self._callbacks = list(callbacks) if devices.is_chief else []
        self._cache: FeatureCache | None = None
        self._signals = StopSignals()
        if network.seeds is None:
            with devices.strategy.scope():
                network.seeds = DropoutSeeds(network.layers)
        self._seeds = network.seeds
        # The weights that train in a phase or did in one before: what only a
        # later one trains is as it was loaded, so no checkpoint needs it.
        self._moving_weights = [
            _weights_that_train(network, self.phases[: number + 1])
            for number in range(len(self.phases))
        ]

    # === The run ===

    def train(self) -> dict[str, Any]:
        """Trains what is left.

        Returns:
            What `result.json` says of the training.

        Raises:
            Interrupted: SIGTERM or Ctrl-C; the state is saved.
            UserError: a loss is not finite, the disk is full, or a frozen
                weight moved.
        """
        arrays = self._restore()
        self._traces = arrays is not None  # the process before did
        # The last run on this network checked it at its end.
        moving = frozenset(self._moving_weights[-1])
        frozen = self.network.hashes.pop(moving, "")
        frozen = frozen or self._hash_frozen_weights()
        if self.progress.frozen_sha256 not in ("", frozen):
            raise UserError(
                f"{self.directory.path}: was begun with other encoder "
                "weights than --model gives now. Remove that folder to begin "
                "anew."
            )
        self.progress.frozen_sha256 = frozen
        self.progress.started_in.append(self.progress.total_epochs)
        if self.devices.is_chief:
            self.directory.write_epochs(self.progress.epochs)
        try:
            self._call("on_train_begin")
            with self._signals:
                while self.progress.phase < len(self.phases):
                    self._train_phase(self.phases[self.progress.phase], arrays)
                    arrays = None
            if self._hash_frozen_weights() != frozen:
                raise UserError(
                    "A frozen weight moved during training: this is a bug in "
                    "tf_transfer. The result was not written."
                )
            self.network.hashes[moving] = frozen
            self._score_test()
            if self.devices.is_chief:
                self._tidy_directory()
            result = self._result()
            self._call("on_train_end", result)
            return result
        finally:
            self._close_cache()
            self._call("on_close")

    def _call(self, event: str, *arguments: Any) -> None:
        for callback in self._callbacks:
            getattr(callback, event)(self, *arguments)

    # === A phase ===

    def _train_phase(
        self, phase: Phase, arrays: dict[str, np.ndarray] | None
    ) -> None:
        """Trains a phase to its end, from a checkpoint's arrays if resumed."""
        progress = self.progress
        phase = self._with_frozen(phase)
        passes = self._prepare(phase, arrays)
        stopping = EarlyStopping(phase.patience, phase.min_delta)
        if progress.stopping:
            stopping = EarlyStopping(**progress.stopping)
        self._stopping = stopping
        if not arrays:
            progress.best = None  # each phase has its own
            progress.started_in = sorted(
                {*progress.started_in, progress.total_epochs}
            )
        is_within_epoch = progress.step or progress.task
        reason = "" if is_within_epoch else self._reason_to_stop(phase)
        while not reason:
            for index in range(progress.task, len(passes)):
                progress.task = index
                self._train_pass(phase, passes[index])
            reason = self._end_epoch(phase)
            rest = self._with_frozen(phase)
            if not reason and rest.trainable != phase.trainable:
                phase = rest
                values = {n: _value(v) for n, v in self._variables().items()}
                # They would keep the moments of what is frozen in memory.
                self.network.programs.clear()
                passes = self._prepare(phase, values)
                progress.started_in.append(progress.total_epochs)
        self._end_phase(phase, reason)

    def _prepare(
        self, phase: Phase, arrays: dict[str, np.ndarray] | None
    ) -> list[Pass]:
        """The passes of a phase, with all its state from arrays, if any."""
        # The order matters: freeze, then build the optimizer, then trace.
        weights = freezing.freeze(self.network, phase.trainable)
        self._seeds.phase = self.progress.phase
        if arrays:  # a feature cache is named by the weights of its prefix
            self._assign(self.moving_weights, arrays)
        prepared = programs.prepare(
            self.network,
            self.progress.phase,
            phase,
            self._attach_features(phase),
            weights,
            self.devices,
            self._seeds,
            self.options,
        )
        self._traces |= prepared.is_new
        self.optimizer = prepared.optimizer
        self._programs = prepared.objectives
        self._outputs: dict[str, tuple[dict, dict]] = {}
        if arrays:
            self._assign(self._variables(), arrays)
        return prepared.passes

    def _with_frozen(self, phase: Phase) -> Phase:
        """The phase without the blocks that have been frozen in it."""
        return dataclasses.replace(
            phase,
            trainable=progressive.freeze_below(
                phase.trainable, self.progress.first
            ),
        )

    def _freeze_more(self, phase: Phase) -> None:
        """Decides which blocks of the phase freeze, from their gradients."""
        assert phase.freeze_percentile is not None
        progress, trainable = self.progress, phase.trainable
        of_weight = self.optimizer.take_sums()
        norms = {}
        for component in freezing.components(self.network):
            if component.is_block:
                trained = trainable.weights_of(component)
                norms[component.name] = sum(of_weight[w.path] for w in trained)
        first = trainable.first
        now = [norms[f"block {n}"] for n in range(first, trainable.last + 1)]
        if progress.norms:
            index = progressive.choose_first(
                progress.norms, now, phase.freeze_percentile
            )
            progress.first, now = first + index, now[index:]
        progress.norms = now

    def _attach_features(self, phase: Phase) -> list[programs.Attached]:
        """Objectives whose splits hold the stored output of their prefix.

        Without a cache, or where the embeddings train, the prefix is None.
        """
        if self._cache_options is None or not phase.trainable.has_prefix:
            return [(objective, None) for objective in phase.objectives]
        progress = self.progress
        self._close_cache()
        self._cache = FeatureCache(
            self.network.encoder,
            self.devices,
            self._cache_options,
            is_stopped=self._is_build_stopped,
            weights=self._pristine_hashes(phase),
        )
        if self._is_pristine(phase):
            key = "prefix", phase.trainable.cut
            self.network.hashes[key] = self._cache.weights
        attached: list[programs.Attached] = []
        for objective in phase.objectives:
            name = f"{progress.phase} {objective.name}"
            name += f" {progress.first}" if progress.first else ""
            splits = {("train", ""): objective.train}
            for kind, named in objective.evaluation.items():
                for split_name, split in named.items():
                    splits[kind, split_name] = split
            labels = {key: "_".join(filter(None, key[::-1])) for key in splits}
            prefix = self.network.prefix(
                objective.name, phase.trainable, self._cache_options.dtype
            )
            stored, cost = self._cache.attach(
                prefix, {labels[key]: split for key, split in splits.items()}
            )
            with_states = {key: stored[labels[key]] for key in splits}
            attached.append((_with_splits(objective, with_states), prefix))
            if name not in progress.prefixes:
                # What froze in this run, no other run has stored.
                original = cost.paid if progress.first else cost.original
                progress.prefix_build_seconds += original
                progress.prefixes.append(name)
            progress.prefix_seconds += cost.paid
            progress.elapsed += cost.paid
        return attached

    def _pristine_hashes(self, phase: Phase) -> Any:
        """Hashes of the encoder's prefixes, up to the cut, where known."""
        if not self._is_pristine(phase):
            return None
        return self.network.hashes.get(("prefix", phase.trainable.cut))

    def _is_pristine(self, phase: Phase) -> bool:
        """Whether what is frozen is as it was loaded.

        It is in the first phase, but for what a method added to it, which
        another run draws anew.
        """
        added = self.network.encoder.added
        cut = phase.trainable.cut
        is_first = not (self.progress.phase or self.progress.first)
        return is_first and all(number > cut for number in added)

    def _is_build_stopped(self) -> bool:
        self._call("on_build")
        return self._signals.came

    def _close_cache(self) -> None:
        if self._cache is not None:
            self._cache.close()

    # === A pass over the data ===

    def _train_pass(self, phase: Phase, one_pass: Pass) -> None:
        """Trains on what is left of a pass, evaluates and records."""
        progress = self.progress
        epochs_before = progress.epoch - 1
        plan = one_pass.plan(
            progress.total_epochs, epochs_before / max(1, phase.max_epochs - 1)
        )
        remaining = plan.start_at(progress.step)
        self._call("on_pass_begin", phase, plan)
        if len(remaining):
            is_stopped = one_pass.train(
                remaining,
                lambda *chunk: self._after_chunk(plan, *chunk),
            )
            if is_stopped:
                self._leave()
        began = time.perf_counter()
        scores, logits = self._evaluate(phase, one_pass)
        seconds = time.perf_counter() - began
        self._record(phase, one_pass, scores, seconds)
        self._latest_logits = logits
        progress.task, progress.step = progress.task + 1, 0
        progress.loss_sum, progress.examples = 0.0, 0
        progress.train_seconds = 0.0

    def _after_chunk(
        self,
        plan: Any,
        losses: np.ndarray,
        counts: np.ndarray,
        seconds: float,
    ) -> bool:
        """Accounts for a chunk of steps. Returns whether training ends."""
        progress = self.progress
        for loss, count in zip(losses.tolist(), counts.tolist()):
            progress.loss_sum += loss * count
        progress.examples += int(counts.sum())
        progress.step += len(counts)
        progress.total_steps += len(counts)
        progress.train_seconds += seconds
        progress.elapsed += seconds
        is_stopped = self._is_asked_to_stop()
        self.steps_left = len(plan) - progress.step
        self._call("on_steps_end", losses, counts)
        if is_stopped:
            self.save()
        return is_stopped

    # === Evaluation ===

    def _evaluate(
        self, phase: Phase, one_pass: Pass
    ) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Metrics by kind of split, and logits by name, of all objectives.

        Where only heads train, an objective that was not in the pass puts out
        what it did before, unless its head drifts.
        """
        others_move = (
            not phase.trainable.only_heads
            or self.options.adam.idle_heads == "drift"
        )
        scores: dict[str, Any] = {}
        logits: dict[str, np.ndarray] = {}
        for program in self._programs:
            name = program.objective.name
            has_moved = others_move or program in one_pass.programs
            if has_moved or name not in self._outputs:
                self._outputs[name] = self._score(program)
            metrics, arrays = self._outputs[name]
            for kind, values in metrics.items():
                scores.setdefault(kind, None)
                if values:
                    scores[kind] = {**(scores[kind] or {}), **values}
            logits |= arrays
        for kind in ("validation", "test"):
            if phase.summarize is not None and scores.get(kind):
                scores[kind].update(phase.summarize(scores[kind]))
        return scores, logits

    def _score(
        self,
        program: ObjectiveProgram,
        kinds: Collection[str] = ("validation", "test"),
    ) -> tuple[dict, dict]:
        """Metrics by kind of split, and logits by name, of one objective."""
        objective = program.objective
        metrics: dict[str, dict[str, float]] = {}
        logits = {}
        for kind, splits in objective.evaluation.items():
            if kind not in kinds:
                continue
            metrics[kind] = {}
            for split_name, split in splits.items():
                prefix = objective.prefix_of(split_name)
                output = program.predict(split)
                if not np.isfinite(output).all():
                    raise NotFiniteError(
                        f"{kind} output", self.progress.total_steps
                    )
                logits[f"{kind}_{prefix}logits"] = output
                for name, value in objective.measure(split, output).items():
                    metrics[kind][prefix + name] = value
        return metrics, logits

    def _record(
        self,
        phase: Phase,
        one_pass: Pass,
        scores: dict[str, Any],
        eval_seconds: float,
    ) -> None:
        """Writes a line of `epochs.jsonl`."""
        progress = self.progress
        line = {
            "epoch": progress.total_epochs,
            "phase": progress.phase + 1,
            "phase_epoch": progress.epoch,
            "task": one_pass.name if len(phase.objectives) > 1 else None,
            "train_loss": progress.loss_sum / progress.examples,
            **scores,
            "train_seconds": progress.train_seconds,
            "eval_seconds": eval_seconds,
            "elapsed_seconds": progress.elapsed,
            "examples_per_second": progress.examples
            / max(progress.train_seconds, 1e-9),
        }
        if phase.freeze_percentile is not None:
            line["frozen_blocks"] = phase.trainable.cut
        progress.epochs.append(line)
        self._call("on_evaluation", line)  # callbacks may add to it
        if self.devices.is_chief:
            self.directory.write_epochs(progress.epochs)
            self.directory.note_concurrent_runs(machine.concurrent_runs())
        self._call("on_record", line)

    # === Selection: the end of an epoch, and of a phase ===

    def _end_epoch(self, phase: Phase) -> str:
        """Selects, saves, and returns why the phase is over, or ""."""
        progress = self.progress
        line = progress.epochs[-1]
        if phase.is_eligible is not None:
            is_best = progress.epoch == 1 or phase.is_eligible(
                line["validation"]
            )
        elif phase.score is None:
            is_best = True
        else:
            is_best = self._stopping.update(
                progress.epoch, phase.score(line["validation"])
            )
        if is_best or phase.select == "last":
            self.best_logits = self._latest_logits
        if is_best and phase.select == "best":
            self._write_selected_weights(line)
        progress.epoch += 1
        progress.total_epochs += 1
        progress.task = 0
        reason = self._reason_to_stop(phase)
        if not reason and self.devices.agree(self.is_out_of_time)[0] > 0:
            reason = OUT_OF_TIME
        if phase.freeze_percentile is not None:
            self._freeze_more(phase)
        self.save()
        if not reason and self._is_asked_to_stop():
            self._leave()
        return reason

    def _reason_to_stop(self, phase: Phase) -> str:
        if self._stopping.should_stop:
            return "patience"
        if self.progress.epoch > phase.max_epochs:
            return "max_epochs"
        return ""

    def _end_phase(self, phase: Phase, reason: str) -> None:
        """Goes back to the selected weights, which the next phase starts from.

        The position moves to the next phase, but nothing is saved: a resume
        finds the phase ended and comes through here again.
        """
        progress = self.progress
        lines = [e for e in progress.epochs if e["phase"] == progress.phase + 1]
        record = {
            "trainable_layers": phase.trainable_layers,
            "lr": phase.lr,
            "epochs": progress.epoch - 1,
            "seconds": sum(line["train_seconds"] for line in lines),
            "stop_reason": reason,
        }
        if phase.select == "last":
            self._write_selected_weights(lines[-1])
        else:
            self._read_selected_weights()
        if phase.is_eligible is not None:
            record["kept_epoch"] = progress.best["line"]["phase_epoch"]
        progress.phase_records.append(record)
        progress.phase += 1
        progress.epoch, progress.stopping = 1, None
        progress.first, progress.norms = 0, []
        if len(self.phases) > programs.MOST_PROGRAMS:
            # None is used again, and each holds its phase's moments.
            self.network.programs.clear()

    def _write_selected_weights(self, line: dict[str, Any]) -> None:
        """Keeps the weights of the epoch of that record below `model/`."""
        name = f"phase-{line['phase']}-epoch-{line['phase_epoch']}"
        entry = {"file": name, "sha256": None}
        if self.devices.is_chief:
            entry = self.directory.write_model(
                name,
                {path: _value(w) for path, w in self.moving_weights.items()},
            )
        self.progress.best = {"line": line, "model": entry}

    def _read_selected_weights(self) -> None:
        self.devices.agree(0)  # the chief has written them
        self._assign(
            self.moving_weights,
            self.directory.read_model(self.progress.best["model"]),
        )
        self.devices.agree(0)  # nobody reads them any more

    # === Checkpoints ===

    @property
    def moving_weights(self) -> dict[str, Any]:
        """Each weight that trains in this phase or did before, by path."""
        last = len(self._moving_weights) - 1
        return self._moving_weights[min(self.progress.phase, last)]

    @property
    def weights_that_train(self) -> list[Any]:
        """All weights that train in some phase."""
        return list(self._moving_weights[-1].values())

    def _variables(self) -> dict[str, Any]:
        return {**self.moving_weights, **self.optimizer.state()}

    def _assign(
        self, variables: dict[str, Any], arrays: dict[str, np.ndarray]
    ) -> None:
        with self.devices.strategy.scope():
            for name, variable in variables.items():
                variable.assign(arrays[name])

    def save(self) -> None:
        """Writes a checkpoint of this moment: all that a resume needs.

        That is the weights that have moved, the optimizer, the outputs at the
        selected epoch, and `progress`.
        """
        self.progress.stopping = dataclasses.asdict(self._stopping)
        if not self.devices.is_chief:
            return
        arrays = {name: _value(v) for name, v in self._variables().items()}
        if not all(np.isfinite(array).all() for array in arrays.values()):
            # The step's loss was still good: it was the update that broke.
            raise NotFiniteError("state", self.progress.total_steps)
        arrays |= {f"best/{n}": a for n, a in self.best_logits.items()}
        # Two saves at one step (a signal at an epoch's end) differ in number.
        number = self.progress.total_steps * 2 + (self.progress.step == 0)
        kept = self.directory.checkpoints.save(
            number, arrays, dataclasses.asdict(self.progress)
        )
        self.directory.keep_models(
            [state["best"]["model"] for state in kept if state["best"]]
        )
        self._call("on_save")

    def _restore(self) -> dict[str, np.ndarray] | None:
        """Takes over the newest whole checkpoint.

        Returns:
            Its arrays, by the names of `_variables`; None where there is none.
        """

        def check_selected_weights(state: dict[str, Any]) -> None:
            if state["best"]:
                self.directory.read_model(state["best"]["model"])

        def warn(line: str) -> None:
            if self.devices.is_chief:
                print(
                    f"{line} Falling back to the one before.", file=sys.stderr
                )

        newest = self.directory.checkpoints.newest(
            warn, self.devices.is_chief, check_selected_weights
        )
        if newest is None:
            return None
        arrays, state = newest
        self.progress = Progress(**state)
        self.best_logits = {
            name.removeprefix("best/"): array
            for name, array in arrays.items()
            if name.startswith("best/")
        }
        if self.devices.is_chief:
            progress = self.progress
            print(
                f"Continuing at epoch {progress.epoch}, step {progress.step} "
                f"({progress.total_steps} steps done).",
                flush=True,
            )
        return arrays

    def _hash_frozen_weights(self) -> str:
        """A hash of every weight that never trains in this run."""
        digest = hashlib.sha256()
        for weight in self.network.weights:
            if weight.path not in self._moving_weights[-1]:
                digest.update(weight.path.encode())
                digest.update(_value(weight).data)
        return digest.hexdigest()

    # === The end of the run ===

    def _score_test(self) -> None:
        """Scores the test with the selected weights, if no epoch has."""
        best = self.progress.best["line"]
        if best["test"] is not None:
            return
        began = time.perf_counter()
        scores: dict[str, float] = {}
        for program in self._programs:
            metrics, logits = self._score(program, ("test",))
            scores |= metrics.get("test", {})
            self.best_logits |= logits
        if not scores:
            return
        best["test"] = scores
        for line in self.progress.epochs:
            if line["epoch"] == best["epoch"]:
                line["test"] = scores
                line["eval_seconds"] += time.perf_counter() - began
        if self.devices.is_chief:
            self.directory.write_epochs(self.progress.epochs)

    def _tidy_directory(self) -> None:
        """Drops what only a running run needs; writes the predictions."""
        self.directory.checkpoints.keep(1)
        self.directory.keep_models([self.progress.best["model"]])
        arrays = dict(self.best_logits)
        for objective in self.phases[-1].objectives:
            for kind, splits in objective.evaluation.items():
                for split_name, split in splits.items():
                    prefix = objective.prefix_of(split_name)
                    arrays[f"{kind}_{prefix}ids"] = split.ids
                    arrays[f"{kind}_{prefix}labels"] = split.targets
                    if split.word_starts is not None:
                        arrays[f"{kind}_{prefix}starts"] = split.word_starts
        self.directory.write_predictions(arrays)

    def _result(self) -> dict[str, Any]:
        progress = self.progress
        best = progress.best["line"]
        seconds: collections.Counter = collections.Counter()  # by epoch
        for line in progress.epochs:
            seconds[line["epoch"]] += line["train_seconds"]
        timed = [
            spent
            for epoch, spent in seconds.items()
            if epoch not in progress.started_in  # the first one traces
        ]
        components = freezing.components(self.network)
        # Where nothing has been frozen yet, it took no time.
        is_cached = self._cache_options is not None
        return {
            "validation": best["validation"],
            "test": best["test"],
            "test_last": progress.epochs[-1]["test"],
            "best_epoch": best["epoch"],
            "epochs_run": progress.epochs[-1]["epoch"],
            "stop_reason": progress.phase_records[-1]["stop_reason"],
            "phases": progress.phase_records,
            "train_seconds": progress.elapsed,
            "seconds_per_epoch": float(np.mean(timed)) if timed else None,
            "traced": self._traces,
            "prefix_seconds": progress.prefix_seconds if is_cached else None,
            "prefix_build_seconds": (
                progress.prefix_build_seconds if is_cached else None
            ),
            "checkpoint_bytes": self.directory.checkpoints.count_bytes(),
            "trainable_parameters": freezing.count_trained(
                self.network, self.phases[-1].trainable
            ),
            "total_parameters": sum(c.parameters for c in components),
        }

    def _is_asked_to_stop(self) -> bool:
        """Whether a signal came, to any of the workers."""
        return self.devices.agree(self._signals.came)[0] > 0

    def _leave(self) -> None:
        raise Interrupted(
            "Stopped and saved. The same command continues at epoch "
            f"{self.progress.epoch}, step {self.progress.step}: "
            f"{self.directory.path}"
        )


# === Weights ===


def _weights_that_train(
    network: Network, phases: Sequence[Phase]
) -> dict[str, Any]:
    """The weights that train in any of some phases, by path."""
    by_path: dict[str, Any] = {}
    for component in freezing.components(network):
        for phase in phases:
            for weight in phase.trainable.weights_of(component):
                if by_path.setdefault(weight.path, weight) is not weight:
                    raise ValueError("two weights of the network share a path")
    return by_path


def _value(variable: Any) -> np.ndarray:
    """A copy of a variable's value, from this worker's first replica."""
    if hasattr(variable, "value") and not isinstance(variable, tf.Variable):
        variable = variable.value  # Keras wraps TensorFlow's
    return np.array(variable.numpy())


def _with_splits(objective: Objective, splits: dict) -> Objective:
    """The same objective on other splits, by (kind, split name)."""
    return dataclasses.replace(
        objective,
        train=splits["train", ""],
        evaluation={
            kind: {name: splits[kind, name] for name in named}
            for kind, named in objective.evaluation.items()
        },
    )
