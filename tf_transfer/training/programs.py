"""The programs of a phase of training: optimizer, traced steps and passes.

Tracing a step takes seconds, more than many runs train. Initial weights, rate,
decay and seed are variables of the program. So a network keeps its programs,
and the next run on the same network uses them again if nothing differs that
shapes them.
"""

import collections
import dataclasses
from collections.abc import Sequence

import keras
import numpy as np
import tensorflow as tf

from tf_transfer.data import batches
from tf_transfer.models import freezing
from tf_transfer.models.network import Network
from tf_transfer.training import joint
from tf_transfer.training.objectives import Phase, TrainingOptions
from tf_transfer.training.optimizer import BertAdam, LearningRate
from tf_transfer.training.progress import Progress
from tf_transfer.training.steps import KINDS, ObjectiveProgram, Pass, Scores
from tf_transfer.training.strategy import Devices
from tf_transfer.utils.json_files import Record

MOST_PROGRAMS = 4  # of a network: each has an optimizer with its moments


class PhasePrograms:
    """The programs of a phase.

    Args:
        network: Frozen as the phase needs it.
        phase: What trains, on splits with all that is stored.
        weights: Those that train.
        devices: Where it runs.
        options: How to train.
        warms_up: Whether the rate rises at first.

    Create it under the strategy's scope. Attributes:
        rate: of the optimizer.
        optimizer: over all that trains.
        objectives: a program for each objective.
        passes: of an epoch.
    """

    def __init__(
        self,
        network: Network,
        phase: Phase,
        weights: Sequence[keras.Variable],
        devices: Devices,
        options: TrainingOptions,
        warms_up: bool,
    ) -> None:
        scales = freezing.rate_scales(
            network, phase.layer_decay, phase.head_scale
        )
        groups = {
            id(weight): objective.name
            for objective in phase.objectives
            for weight in network.heads[objective.name].weights
            if len(phase.objectives) > 1
        }
        self.rate = LearningRate(options.schedule, warms_up)
        self.optimizer = BertAdam(
            weights,
            self.rate,
            options.adam,
            [scales[id(weight)] for weight in weights],
            [groups.get(id(weight), "") for weight in weights],
        )
        self.objectives = [
            ObjectiveProgram(
                network, objective, devices, self.optimizer, options
            )
            for objective in phase.objectives
        ]
        self._outputs: dict[str, tuple[Scores, dict[str, np.ndarray]]] = {}
        self.passes = (
            [Pass(self.objectives, phase.combination)]
            if phase.combination
            else [Pass([one], joint.Sum()) for one in self.objectives]
        )

    def rebind(self, phase: Phase, options: TrainingOptions) -> None:
        """Rebinds the programs to another run, and resets the optimizer.

        Args:
            phase: The other run's.
            options: Its options.
        """
        for program, objective in zip(self.objectives, phase.objectives):
            program.rebind(objective, options)
        self.release_data()
        self.optimizer.reset(options.adam.weight_decay)

    def release_data(self) -> None:
        """Frees what the steps have read, and the outputs."""
        self._outputs.clear()
        for program in self.objectives:
            program.release_data()

    def evaluate(
        self, phase: Phase, one_pass: Pass, progress: Progress
    ) -> tuple[Record, dict[str, np.ndarray]]:
        """Metrics by kind of split, and logits by name, of all objectives.

        A head that no gradient trains is fitted before. If only heads train,
        the output of an objective outside of the pass is as before, unless its
        head drifts.

        Args:
            phase: What trains.
            one_pass: The pass that has just ended.
            progress: Of the run; the seconds of tracing are added to it.
        """
        others_move = (
            not phase.trainable.only_heads
            or self.objectives[0].options.adam.idle_heads == "drift"
        )
        scores: Scores = collections.defaultdict(dict)
        logits: dict[str, np.ndarray] = {}
        for program in self.objectives:
            name = program.objective.name
            has_moved = others_move or program in one_pass.programs
            progress.trace_seconds += program.fit_head()
            if has_moved or name not in self._outputs:
                self._outputs[name] = program.score(
                    progress, program.kinds_after_epoch
                )
            metrics, arrays = self._outputs[name]
            for kind, values in metrics.items():
                scores[kind] |= values
            logits |= arrays
        if phase.summarize is not None:
            for values in scores.values():
                values |= phase.summarize(values)
        return {kind: scores[kind] or None for kind in KINDS}, logits


def prepare(
    network: Network,
    number: int,
    phase: Phase,
    weights: Sequence[keras.Variable],
    devices: Devices,
    options: TrainingOptions,
) -> PhasePrograms:
    """The programs of a phase: the network's own, or new ones.

    Args:
        number: Of the phase in its run.
        network: See `PhasePrograms`.
        phase: See `PhasePrograms`.
        weights: See `PhasePrograms`.
        devices: See `PhasePrograms`.
        options: See `PhasePrograms`.
    """
    steps = [
        batches.count_steps(
            len(objective.train),
            options.batch_size,
            options.short_batches == "dropped",
        )
        for objective in phase.objectives
    ]
    combine = phase.combination.count_steps if phase.combination else sum
    total_steps = combine(steps) * phase.max_epochs
    warmup_steps = int(total_steps * options.warmup_fraction)
    adam = options.adam
    key = (  # everything that shapes the programs, apart from their inputs
        number,  # dropout's masks differ from phase to phase
        phase.trainable,
        phase.layer_decay,
        phase.head_scale,
        phase.combination,
        tuple(
            (o.name, o.loss, o.weight, o.prefix, o.fit_regression is None)
            for o in phase.objectives
        ),
        devices.strategy,
        options.schedule,
        bool(warmup_steps),
        options.short_batches == "scaled" and options.batch_size,
        options.uses_xla,
        dataclasses.replace(adam, weight_decay=float(bool(adam.weight_decay))),
        tf.config.functions_run_eagerly(),
    )
    programs: PhasePrograms | None = network.programs.pop(key, None)
    with devices.strategy.scope():
        if programs is None:
            programs = PhasePrograms(
                network,
                phase,
                weights,
                devices,
                options,
                bool(warmup_steps),
            )
        else:
            programs.rebind(phase, options)
        programs.rate.numbers.assign([phase.lr, total_steps, warmup_steps])
        network.seeds.seed.assign(options.seed)
    network.programs[key] = programs
    while len(network.programs) > MOST_PROGRAMS:  # the longest unused goes
        del network.programs[next(iter(network.programs))]
    return programs
