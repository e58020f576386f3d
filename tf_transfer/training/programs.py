"""What a phase of training runs: optimizer, traced programs and passes.

Tracing a step takes seconds, more than many a run trains for. What differs
from run to run is a variable of the program: initial weights, rate, decay and
seed. So a network keeps its programs, and the next run on the same network
takes them over where nothing that shapes them differs.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tf_transfer.data import batches
from tf_transfer.feature_cache.prefix import FrozenPrefix
from tf_transfer.models import freezing
from tf_transfer.models.network import Network
from tf_transfer.training import joint
from tf_transfer.training.dropout import DropoutSeeds
from tf_transfer.training.objectives import Objective
from tf_transfer.training.objectives import Phase
from tf_transfer.training.optimizer import BertAdam
from tf_transfer.training.optimizer import LearningRate
from tf_transfer.training.steps import ObjectiveProgram
from tf_transfer.training.steps import Pass
from tf_transfer.training.strategy import Devices

MOST_PROGRAMS = 4  # of a network: each has an optimizer with its moments

# An objective on splits that hold the stored output of their prefix, and that
# prefix; None where every block is run.
Attached = tuple[Objective, FrozenPrefix | None]


@dataclasses.dataclass
class PhasePrograms:
    """What a phase runs.

    Attributes:
        rate: of the optimizer.
        optimizer: over all that trains.
        objectives: a program for each objective.
        passes: of an epoch.
        is_new: whether they are traced in this run.
    """

    rate: LearningRate
    optimizer: BertAdam
    objectives: list[ObjectiveProgram]
    passes: list[Pass]
    is_new: bool = True

    def take_over(self, attached: Sequence[Attached], options: Any) -> None:
        """Makes them another run's, which trains from its beginning.

        Args:
            attached: the other run's objectives.
            options: its `trainer.TrainingOptions`.
        """
        for program, (objective, _) in zip(self.objectives, attached):
            program.take_over(objective, options)
        self.optimizer.reset(options.adam.weight_decay)
        self.is_new = False


def prepare(
    network: Network,
    number: int,
    phase: Phase,
    attached: Sequence[Attached],
    weights: Sequence[Any],
    devices: Devices,
    seeds: DropoutSeeds,
    options: Any,
) -> PhasePrograms:
    """The programs of a phase: the network's own, or new ones.

    Args:
        network: frozen as the phase wants it.
        number: of the phase in its run.
        phase: what trains.
        attached: its objectives.
        weights: those that train.
        devices: where it runs.
        seeds: of the network's dropout.
        options: `trainer.TrainingOptions`.
    """
    total_steps = _steps_per_epoch(phase, options) * phase.max_epochs
    warmup_steps = int(total_steps * options.warmup_fraction)
    key = _key(number, phase, attached, devices, options, bool(warmup_steps))
    programs = network.programs.pop(key, None)
    with devices.strategy.scope():
        if programs is None:
            programs = _build(
                network,
                phase,
                attached,
                weights,
                devices,
                seeds,
                options,
                LearningRate(options.schedule, bool(warmup_steps)),
            )
        else:
            programs.take_over(attached, options)
        programs.rate.assign(phase.lr, total_steps, warmup_steps)
        seeds.seed.assign(options.seed)
    network.programs[key] = programs
    while len(network.programs) > MOST_PROGRAMS:  # the longest unused goes
        del network.programs[next(iter(network.programs))]
    return programs


def _key(
    number: int,
    phase: Phase,
    attached: Sequence[Attached],
    devices: Devices,
    options: Any,
    warms_up: bool,
) -> tuple:
    """Everything that shapes the programs, beside their inputs."""
    adam = options.adam
    return (
        number,  # dropout's masks differ from phase to phase
        phase.trainable,
        phase.layer_decay,
        phase.combination,
        phase.freeze_percentile is not None,
        tuple((o.name, o.loss, o.weight, prefix) for o, prefix in attached),
        devices.strategy,
        options.schedule,
        warms_up,
        options.jit_compile,
        dataclasses.replace(adam, weight_decay=float(bool(adam.weight_decay))),
        tf.config.functions_run_eagerly(),
    )


def _steps_per_epoch(phase: Phase, options: Any) -> int:
    steps = [
        batches.count_steps(
            len(objective.train), options.batch_size, options.drop_last
        )
        for objective in phase.objectives
    ]
    if phase.combination is None:
        return sum(steps)
    return phase.combination.count_steps(steps)


def _build(
    network: Network,
    phase: Phase,
    attached: Sequence[Attached],
    weights: Sequence[Any],
    devices: Devices,
    seeds: DropoutSeeds,
    options: Any,
    rate: LearningRate,
) -> PhasePrograms:
    scales = freezing.rate_scales(network, phase.layer_decay)
    groups: dict[int, str] = {}
    if len(attached) > 1:
        groups = {
            id(weight): objective.name
            for objective, _ in attached
            for weight in network.heads[objective.name].weights
        }
    summed: list[Any] = []
    if phase.freeze_percentile is not None:
        summed = [
            weight
            for component in freezing.components(network)
            if component.is_block
            for weight in phase.trainable.weights_of(component)
        ]
    optimizer = BertAdam(
        weights,
        rate,
        options.adam,
        [scales[id(weight)] for weight in weights],
        [groups.get(id(weight), "") for weight in weights],
        summed,
    )
    objectives = [
        ObjectiveProgram(
            network, objective, prefix, devices, optimizer, seeds, options
        )
        for objective, prefix in attached
    ]
    passes: list[Pass]
    if phase.combination is not None:
        passes = [
            joint.JointPass(devices, optimizer, objectives, phase.combination)
        ]
    else:
        passes = [Pass(devices, optimizer, [one]) for one in objectives]
    return PhasePrograms(rate, optimizer, objectives, passes)
