"""What a checkpoint of a run holds, and how it gets there and back.

That is the weights that have moved, the optimizer, the outputs at the best
epoch, and `Progress`. Everything else (plans, dropout masks, schedules) follows
from the settings and the position; what only a later phase trains is as it was
loaded, so that a head's short epochs write no encoder.
"""

import dataclasses
import hashlib
import sys
import time

import numpy as np
import tensorflow as tf

from tf_transfer.models import freezing
from tf_transfer.training import loop
from tf_transfer.training import progress as progress_lib


class State:
    """Saves a run's state to its directory, and takes it back.

    Args:
        directory: `records.RunDirectory`.
        devices: `strategy.Devices`.
        network: `heads.Network`.
        phases: list of `phases.Phase`.

    Attributes:
        progress: `Progress`.
        optimizer: of the phase; set when it begins.
        best_logits: dict of the outputs at the selected epoch.
    """

    def __init__(self, directory, devices, network, phases):
        self.directory = directory
        self.devices = devices
        self.network = network
        self.progress = progress_lib.Progress()
        self._moving = [
            _weights_that_train(network, phases[: number + 1])
            for number in range(len(phases))
        ]
        self.optimizer = None
        self.best_logits = {}
        self._saved_at = time.monotonic()

    # === The weights ===

    @property
    def moving(self):
        """Dict from path to each weight that trains now, or did before."""
        last = len(self._moving) - 1
        return self._moving[min(self.progress.phase, last)]

    def frozen_sha256(self):
        """A hash of every weight that never trains."""
        digest = hashlib.sha256()
        for weight in self.network.weights:
            if weight.path not in self._moving[-1]:
                digest.update(weight.path.encode())
                digest.update(_value(weight).tobytes())
        return digest.hexdigest()

    def assign_weights(self, arrays):
        """Gives the weights that have moved their values."""
        self._assign(self.moving, arrays)

    def assign_all(self, arrays):
        """Gives weights and optimizer theirs."""
        self._assign(self._variables(), arrays)

    def _assign(self, variables, arrays):
        with self.devices.strategy.scope():
            for name, variable in variables.items():
                variable.assign(arrays[name])

    def _variables(self):
        return {**self.moving, **self.optimizer.state()}

    def keep_best(self, line):
        """Writes the weights of the epoch of that record."""
        name = f"phase-{line['phase']}-epoch-{line['phase_epoch']}"
        entry = {"file": name, "sha256": None}
        if self.devices.is_chief:
            entry = self.directory.write_model(
                name, {path: _value(w) for path, w in self.moving.items()}
            )
        self.progress.best = {"line": line, "model": entry}

    def take_best(self):
        """Goes back to the weights that `keep_best` wrote last."""
        self.devices.agree(0)  # the chief has written it
        self.assign_weights(
            self.directory.read_model(self.progress.best["model"])
        )
        self.devices.agree(0)  # nobody reads it any more

    # === Checkpoints ===

    def minutes_unsaved(self):
        """Minutes since the last checkpoint."""
        return (time.monotonic() - self._saved_at) / 60

    def save(self, stopper):
        """A checkpoint of this moment."""
        self.progress.stopper = dataclasses.asdict(stopper)
        self._saved_at = time.monotonic()
        if not self.devices.is_chief:
            return
        arrays = {name: _value(v) for name, v in self._variables().items()}
        if not all(np.isfinite(array).all() for array in arrays.values()):
            # The step's loss was still good: it was the update that broke.
            raise loop.not_finite("state", self.progress.total_steps)
        arrays |= {f"best/{n}": a for n, a in self.best_logits.items()}
        # Two saves at one step (a signal at an epoch's end) differ by turn.
        number = self.progress.total_steps * 2 + (self.progress.step == 0)
        kept = self.directory.checkpoints.save(
            number, arrays, dataclasses.asdict(self.progress)
        )
        self.directory.keep_models(
            [state["best"]["model"] for state in kept if state["best"]]
        )

    def restore(self):
        """Takes over the newest whole checkpoint.

        Returns:
            Its arrays, for `assign_weights` and `assign_all`; None where
            there is none.
        """

        def check_best(state):
            if state["best"]:
                self.directory.read_model(state["best"]["model"])

        chief = self.devices.is_chief
        found = self.directory.checkpoints.newest(
            _warn if chief else lambda line: None, chief, check_best
        )
        if found is None:
            return None
        arrays, state = found
        self.progress = progress_lib.Progress(**state)
        self.best_logits = {
            name.removeprefix("best/"): array
            for name, array in arrays.items()
            if name.startswith("best/")
        }
        if chief:
            where = self.progress
            print(
                f"Continuing at epoch {where.epoch}, step {where.step} "
                f"({where.total_steps} steps done).",
                flush=True,
            )
        return arrays


def _weights_that_train(network, phases):
    weights = [
        weight
        for part in freezing.parts(network)
        if any(phase.trainable.includes(part.name) for phase in phases)
        for weight in part.weights
    ]
    by_path = {weight.path: weight for weight in weights}
    if len(by_path) != len(weights):
        raise ValueError("two weights of the network share a path")
    return by_path


def _warn(line):
    print(f"{line} Falling back to the one before.", file=sys.stderr)


def _value(variable):
    """A copy of a variable's value, from this worker's first replica."""
    if hasattr(variable, "value") and not isinstance(variable, tf.Variable):
        variable = variable.value  # Keras wraps TensorFlow's
    return np.array(variable.numpy())
