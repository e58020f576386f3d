"""A run from its phases to its records: train, evaluate, select."""

import collections
import sys
import time

import numpy as np
import tqdm

from tf_transfer.feature_cache import cache as cache_lib
from tf_transfer.models import freezing
from tf_transfer.training import learner
from tf_transfer.training import loop
from tf_transfer.training import memory
from tf_transfer.training import progress as progress_lib
from tf_transfer.training.dropout import DropoutSeeds
from tf_transfer.training.optimizer import learning_rate
from tf_transfer.training.signals import StopSignals
from tf_transfer.training.state import State
from tf_transfer.training.stopping import Stopper
from tf_transfer.utils import machine
from tf_transfer.utils.errors import Interrupted
from tf_transfer.utils.errors import UserError


class Run:
    """Runs phases over a network, in one run directory.

    Args:
        settings: `settings.Settings`.
        directory: `records.RunDirectory`; locked if this is the chief.
        devices: `strategy.Devices`.
        network: `heads.Network`, built under the strategy's scope.
        phases: list of `phases.Phase`.
    """

    def __init__(self, settings, directory, devices, network, phases):
        self.settings = settings
        self.directory = directory
        self.devices = devices
        self.network = network
        self.phases = phases
        self.state = State(directory, devices, network, phases)
        self.signals = StopSignals()
        self.cache = None
        self.learners = []  # of the phase, one an objective
        self.outputs = {}  # of each, as last evaluated in the phase
        self.seeds = DropoutSeeds(network.layers)

    @property
    def progress(self):
        """Where the run stands."""
        return self.state.progress

    # === From beginning to end ===

    def train(self):
        """Trains what is left. Returns the facts for `result.json`.

        Raises:
            Interrupted: SIGTERM or Ctrl-C; the state is saved.
            UserError: a loss is not finite, the disk is full, or a frozen
                weight moved.
        """
        arrays = self.state.restore()
        frozen = self.state.frozen_sha256()
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
            done = self.progress.total_steps
            self.directory.start_events(
                done + 1 if done else 0, self._hyperparameters()
            )
        try:
            with self.signals:
                while self.progress.phase < len(self.phases):
                    self._run_phase(arrays)
                    arrays = None
        finally:
            self._close_cache()
        if self.state.frozen_sha256() != frozen:
            raise UserError(
                "A frozen weight moved during training: this is a bug in "
                "tf_transfer. The result was not written."
            )
        self._finish()
        return self._facts()

    def _hyperparameters(self):
        settings = self.settings
        shown = {
            "approach": settings.approach,
            "lr": settings.lr,
            "batch_size": settings.batch_size,
            "seed": settings.seed,
            "model": settings.model,
            "dropout": settings.dropout,
            "schedule": settings.schedule,
            "precision": settings.precision,
            "frozen_prefix": "cached" if settings.runs_cached else "live",
        }
        if hasattr(settings, "task"):
            shown["task"] = settings.task
        return shown

    def _run_phase(self, arrays):
        """Trains the current phase to its end, from arrays if resumed."""
        progress, phase = self.progress, self.phases[self.progress.phase]
        weights = freezing.freeze(self.network, phase.trainable)
        self.seeds.phase = progress.phase
        if arrays:  # before a prefix is told by what its weights are
            self.state.assign_weights(arrays)
        turns = self._build(phase, weights)
        self.outputs = {}
        stopper = Stopper(phase.patience, phase.min_delta)
        if progress.stopper:
            stopper = Stopper(**progress.stopper)
        if arrays:
            self.state.assign_all(arrays)
        else:
            progress.best = None  # each phase has its own
            progress.started_in = sorted(
                {*progress.started_in, progress.total_epochs}
            )
        begun = progress.step or progress.turn  # an epoch is always ended
        reason = "" if begun else self._reason_to_stop(phase, stopper)
        while not reason:
            for turn in range(progress.turn, len(turns)):
                progress.turn = turn
                self._run_turn(turns[turn], phase, stopper)
            reason = self._end_epoch(phase, stopper)
        self._end_phase(phase, stopper, reason)

    def _build(self, phase, weights):
        """The turns of an epoch, `Trainer`s that share one optimizer."""
        scales = freezing.rate_scales(self.network, phase.layer_decay)
        groups = {}
        if len(phase.objectives) > 1:
            groups = {
                id(weight): objective.name
                for objective in phase.objectives
                for weight in self.network.heads[objective.name].weights
            }
        total = self._steps_of(phase)
        self.state.optimizer = loop.build_optimizer(
            self.devices,
            weights,
            lambda step: learning_rate(
                step,
                phase.lr,
                self.settings.schedule,
                self.settings.warmup_fraction,
                total,
            ),
            self.settings,
            [scales[id(weight)] for weight in weights],
            [groups.get(id(weight), "") for weight in weights],
        )
        self.learners = [
            learner.Learner(
                self.devices,
                self.network,
                self.state.optimizer,
                objective,
                self.seeds,
                self.settings,
                prefix,
            )
            for prefix, objective in self._with_prefix(phase)
        ]
        return [
            loop.Trainer(
                self.devices,
                self.state.optimizer,
                group,
                phase.way,
                self.settings.seed,
            )
            for group in phase.way.turns(self.learners)
        ]

    def _steps_of(self, phase):
        """Steps of a phase, from its first epoch to its last."""
        steps = [
            -(-len(objective.train) // self.settings.batch_size)
            for objective in phase.objectives
        ]
        return phase.way.steps(steps) * phase.max_epochs

    def _with_prefix(self, phase):
        """Objectives with their frozen prefix, or with None to run it live."""
        objectives = [(None, objective) for objective in phase.objectives]
        if not self.settings.runs_cached or phase.trainable.embeddings:
            return objectives
        progress = self.progress
        self._close_cache()
        self.cache = cache_lib.PrefixCache(
            self.settings,
            self.devices,
            self.network,
            is_stopped=lambda: self.signals.came,
        )
        for number, (_, objective) in enumerate(objectives):
            name = f"{progress.phase} {objective.name}"
            is_new = name not in progress.prefix_stops
            prefix, objective, cost = self.cache.attach(
                objective, phase.trainable, progress.prefix_stops.get(name)
            )
            objectives[number] = (prefix, objective)
            progress.prefix_stops[name] = list(prefix.stops)
            progress.prefix_seconds += cost.paid
            progress.elapsed += cost.paid
            if is_new:
                progress.prefix_build_seconds += cost.original
        return objectives

    def _close_cache(self):
        if self.cache is not None:
            self.cache.close()

    # === A turn: one pass over one objective's data ===

    def _run_turn(self, trainer, phase, stopper):
        progress = self.progress
        behind = (progress.epoch - 1) / max(1, phase.max_epochs - 1)
        plan = trainer.plan(progress.total_epochs, behind)
        left = plan.start_at(progress.step)
        self.memory = memory.Peak()
        if len(left):
            with self._bar(phase, plan) as bar:
                ended = trainer.train(
                    left,
                    lambda *chunk: self._after_chunk(
                        bar, plan, stopper, *chunk
                    ),
                )
            if ended:
                self._leave()
        began = time.perf_counter()
        evaluated, logits = self._evaluate(trainer, phase)
        self._record(trainer, phase, evaluated, time.perf_counter() - began)
        self.latest_logits = logits
        progress.turn, progress.step = progress.turn + 1, 0
        progress.loss_sum, progress.seen, progress.train_seconds = 0.0, 0, 0.0

    def _bar(self, phase, plan):
        progress = self.progress
        return tqdm.tqdm(
            total=int(plan.counts.sum()),
            initial=int(plan.counts[: progress.step].sum()),
            desc=f"epoch {progress.epoch}/{phase.max_epochs}",
            unit=" examples",
            leave=False,
            file=sys.stderr,
            disable=None if self.devices.is_chief else True,
        )

    def _after_chunk(self, bar, plan, stopper, losses, counts, seconds):
        """Accounts for a chunk; saves if it is time. True ends the turn."""
        progress = self.progress
        for loss, count in zip(losses.tolist(), counts.tolist()):
            progress.loss_sum += loss * count
        progress.seen += int(counts.sum())
        progress.step += len(counts)
        progress.total_steps += len(counts)
        progress.train_seconds += seconds
        progress.elapsed += seconds
        self.memory.look()
        stop = self._asked_to_stop()
        if self.devices.is_chief:
            bar.set_postfix_str(f"loss {progress.loss_sum / progress.seen:.4f}")
            bar.update(int(counts.sum()))
            optimizer = self.state.optimizer
            for tag, value in (
                ("train/loss", np.average(losses, weights=counts)),
                ("train/lr", optimizer.rate(optimizer.step - 1)),
            ):
                self.directory.scalar(tag, value, progress.total_steps)
            self.directory.flush()
        minutes = self.state.minutes_unsaved()
        due = minutes >= self.settings.checkpoint_minutes
        if stop or (due and progress.step < len(plan)):
            self.state.save(stopper)
        return stop

    def _evaluate(self, trainer, phase):
        """Metrics and logits of every split of every objective.

        Where nothing but heads trains, those that were not in turn put out
        what they did before.
        """
        moved = self.learners
        if phase.trainable.only_heads:
            moved = trainer.learners
        results, logits = {}, {}
        for one in self.learners:
            name = one.objective.name
            if one in moved or name not in self.outputs:
                self.outputs[name] = self._outputs_of(one)
            metrics, arrays = self.outputs[name]
            for kind, values in metrics.items():
                known = results.setdefault(kind, None)
                if values:
                    results[kind] = {**(known or {}), **values}
            logits |= arrays
        if phase.overall is not None and results.get("validation"):
            results["validation"].update(phase.overall(results["validation"]))
        return results, logits

    def _outputs_of(self, one):
        """Metrics by kind of split, and logits by name, of a learner."""
        objective = one.objective
        metrics, logits = {}, {}
        for kind, splits in objective.evaluation.items():
            metrics[kind] = {}
            for prefix, part in splits:
                prefix = objective.prefix + prefix
                output = one.predict(part)
                if not np.isfinite(output).all():
                    raise loop.not_finite(
                        f"{kind} output", self.progress.total_steps
                    )
                logits[f"{kind}_{prefix}logits"] = output
                metrics[kind] |= objective.measure(part, output, prefix)
        return metrics, logits

    def _record(self, trainer, phase, evaluated, eval_seconds):
        progress = self.progress
        line = {
            "epoch": progress.total_epochs,
            "phase": progress.phase + 1,
            "phase_epoch": progress.epoch,
            "turn": trainer.name if len(phase.objectives) > 1 else None,
            "train_loss": progress.loss_sum / progress.seen,
            **evaluated,
            "train_seconds": progress.train_seconds,
            "eval_seconds": eval_seconds,
            "elapsed_seconds": progress.elapsed,
            "examples_per_second": progress.seen
            / max(progress.train_seconds, 1e-9),
            "peak_memory_bytes": self.memory.bytes,
        }
        progress.epochs.append(line)
        if not self.devices.is_chief:
            return
        self.directory.write_epochs(progress.epochs)
        self.directory.note_company(machine.concurrent_runs())
        for kind in ("validation", "test"):
            for metric, value in (line[kind] or {}).items():
                self.directory.scalar(
                    f"{kind}/{metric}", value, progress.total_steps
                )
        for tag, value in (
            ("time/epoch_seconds", line["train_seconds"]),
            ("time/elapsed_seconds", line["elapsed_seconds"]),
        ):
            self.directory.scalar(tag, value, progress.total_steps)
        self.directory.flush()
        print(progress_lib.one_line(line), flush=True)

    # === The end of an epoch, of a phase, of the run ===

    def _end_epoch(self, phase, stopper):
        """Selects, saves, and returns why the phase is over, or ""."""
        progress = self.progress
        line = progress.epochs[-1]
        if phase.keeps is not None:
            best = progress.epoch == 1 or phase.keeps(line["validation"])
        elif phase.score is None:
            best = True
        else:
            best = stopper.see(progress.epoch, phase.score(line["validation"]))
        if best or phase.select == "last":
            self.state.best_logits = self.latest_logits
        if best and phase.select == "best":
            self.state.keep_best(line)
        progress.epoch += 1
        progress.total_epochs += 1
        progress.turn = 0
        reason = self._reason_to_stop(phase, stopper)
        self.state.save(stopper)
        if not reason and self._asked_to_stop():
            self._leave()
        return reason

    def _reason_to_stop(self, phase, stopper):
        if stopper.should_stop:
            return "patience"
        if self.progress.epoch > phase.max_epochs:
            return "max_epochs"
        return ""

    def _end_phase(self, phase, stopper, reason):
        """Goes back to the selected weights, which the next phase starts from.

        The position moves to the next phase, but nothing is saved: a resume
        finds the phase ended and comes through here again.
        """
        progress = self.progress
        lines = [e for e in progress.epochs if e["phase"] == progress.phase + 1]
        progress.finished.append(
            {
                "trainable_layers": phase.trainable_layers,
                "lr": phase.lr,
                "epochs": progress.epoch - 1,
                "seconds": sum(line["train_seconds"] for line in lines),
                "stop_reason": reason,
            }
        )
        if phase.select == "last":
            self.state.keep_best(lines[-1])
        else:
            self.state.take_best()
        if phase.keeps is not None:
            kept = progress.best["line"]["phase_epoch"]
            progress.finished[-1]["kept_epoch"] = kept
        progress.phase += 1
        progress.epoch, progress.stopper = 1, None

    def _finish(self):
        """Drops what only a running run needs."""
        if self.devices.is_chief:
            self.directory.checkpoints.keep(1)
            self.directory.keep_models([self.progress.best["model"]])
            self.directory.write_predictions(self._predictions())

    def _predictions(self):
        arrays = dict(self.state.best_logits)
        for objective in self.phases[-1].objectives:
            for name, splits in objective.evaluation.items():
                for prefix, part in splits:
                    prefix = objective.prefix + prefix
                    arrays[f"{name}_{prefix}ids"] = part.ids
                    arrays[f"{name}_{prefix}labels"] = part.targets
        return arrays

    def _facts(self):
        progress = self.progress
        best = progress.best["line"]
        seconds = collections.Counter()  # of an epoch, over all its turns
        for line in progress.epochs:
            seconds[line["epoch"]] += line["train_seconds"]
        timed = [
            spent
            for epoch, spent in seconds.items()
            if epoch not in progress.started_in
        ]
        parts = freezing.parts(self.network)
        moving = self.phases[-1].trainable
        cached = bool(progress.prefix_stops)
        return {
            "validation": best["validation"],
            "test": best["test"],
            "test_last": progress.epochs[-1]["test"],
            "best_epoch": best["epoch"],
            "epochs_run": progress.epochs[-1]["epoch"],
            "stop_reason": progress.finished[-1]["stop_reason"],
            "phases": progress.finished,
            "train_seconds": progress.elapsed,
            "seconds_per_epoch": float(np.mean(timed)) if timed else None,
            "prefix_seconds": progress.prefix_seconds if cached else None,
            "prefix_build_seconds": (
                progress.prefix_build_seconds if cached else None
            ),
            "trainable_parameters": sum(
                p.parameters for p in parts if moving.includes(p.name)
            ),
            "total_parameters": sum(p.parameters for p in parts),
        }

    # === Leaving ===

    def _asked_to_stop(self):
        """Whether a signal came, to any of the workers."""
        return self.devices.agree(self.signals.came)[0] > 0

    def _leave(self):
        raise Interrupted(
            "Stopped and saved. The same command continues at epoch "
            f"{self.progress.epoch}, step {self.progress.step}: "
            f"{self.directory.path}"
        )
