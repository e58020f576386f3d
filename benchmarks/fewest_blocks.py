"""The fewest trained blocks that lose little, and the probe, by task.

All comparisons are those of a report: paired on the same texts, with the
intervals of `comparison.estimates` and the words of `decisions.judge_losses`.
"""

import dataclasses
import math
from collections.abc import Iterable, Sequence

from tf_transfer.comparison import decisions
from tf_transfer.comparison.decisions import NO, Row, YES
from tf_transfer.reports import approaches, claims
from tf_transfer.reports.approaches import Approach
from tf_transfer.reports.run_groups import group_by
from tf_transfer.reports.study import Study


@dataclasses.dataclass(frozen=True)
class BlockLoss:
    """The loss of a number of blocks, or of the probe, against everything.

    Attributes:
        blocks: Number of trained blocks; 0 for the head alone and the probe.
        row: What it scores, loses and costs.
        word: Whether it loses less than the margin, see
            `decisions.judge_losses`; "" where it is not compared.
        share: Its seconds of training, with the build of its feature cache, in
            percent of those of everything; nan if their timing environments
            differ.
    """

    blocks: int
    row: Row
    word: str
    share: float = math.nan


@dataclasses.dataclass(frozen=True)
class TaskLosses:
    """The losses of training fewer blocks on a task.

    Attributes:
        experiment: Such as `glue`.
        encoder: The value of `--model`.
        depth: Blocks of the encoder.
        task: Its name, with the reference where there are several.
        metric: Such as `accuracy`.
        texts: Number of training texts.
        everything: The row that all others are compared with.
        block_losses: By number of blocks, rising.
        probe: None where it was not run.
        settings: By which the study differs from the experiment's others.
    """

    experiment: str
    encoder: str
    depth: int
    task: str
    metric: str
    texts: int
    everything: Row
    block_losses: Sequence[BlockLoss]
    probe: BlockLoss | None
    settings: Sequence[str] = ()

    @property
    def known_losses(self) -> list[BlockLoss]:
        """The known `block_losses`."""
        return [x for x in self.block_losses if x.row.difference.is_known]


# === The selection ===


def find_fewest(losses: Iterable[BlockLoss], margin: float) -> BlockLoss | None:
    """The fewest blocks whose mean loss is at most the margin.

    Args:
        losses: By number of blocks, rising; unknown ones are skipped.
        margin: The largest accepted loss, in points.

    Returns:
        None if every number of blocks loses more.
    """
    for one in losses:
        if one.row.difference.value >= -margin:  # false where it is nan
            return one
    return None


def find_range(losses: Sequence[BlockLoss]) -> tuple[int | None, int | None]:
    """The interval of the fewest blocks; None stands for everything.

    Args:
        losses: By number of blocks, rising, all of them known.

    Returns:
        The fewest blocks that are not shown to lose more than the margin, and
        the fewest that are shown to lose less.
    """
    low = next((one.blocks for one in losses if one.word != NO), None)
    high = next((one.blocks for one in losses if one.word == YES), None)
    return low, high


# === From a study ===


def list_losses(study: Study) -> list[TaskLosses]:
    """The losses on each task of a study, in its order.

    Tasks on which no run trained a number of blocks are left out.
    """
    # The rows of the tasks follow the means over tasks.
    rows = study.rows[len(study.rows) - len(study.approaches) :]
    pairs = list(zip(study.approaches, rows))
    losses = []
    for on_task in group_by(pairs, lambda pair: pair[0].task).values():
        judged = decisions.judge_losses(
            [row for _, row in on_task], study.margin
        )
        bases = _list_bases([one for one, _ in on_task], study)
        for base, everything in on_task:
            if base not in bases:
                continue
            by_blocks: dict[int, BlockLoss] = {}
            probe = None
            for (one, row), word in zip(on_task, judged):
                blocks = count_blocks(one)
                if one.base is not base or one is base:
                    continue
                loss = BlockLoss(
                    blocks or 0, row, word, _find_share(row, everything)
                )
                if one.is_probe:
                    probe = loss
                elif blocks is not None:
                    by_blocks[blocks] = _choose_cached(
                        loss, by_blocks.get(blocks)
                    )
            if by_blocks:
                losses.append(
                    TaskLosses(
                        study.experiment,
                        study.model,
                        study.blocks,
                        _name_task(base, bases),
                        str(base.runs.metric.iloc[0]),
                        base.first.sizes["train"],
                        everything,
                        [by_blocks[blocks] for blocks in sorted(by_blocks)],
                        probe,
                        study.distinct.split(", "),
                    )
                )
    return losses


def _list_bases(on_task: Sequence[Approach], study: Study) -> list[Approach]:
    """The approaches that others on a task are compared with.

    Of several recipes, the one that is best on validation counts. Without
    validation, only the paper's rate counts if it was run.
    """
    bases = [one for one in on_task if one.base is one]
    if best := approaches.find_best_validated(bases):
        return [best]
    if study.paper is None:
        return bases
    stated = study.paper.settings_on(study.model).get("lr")
    at_stated = [one for one in bases if claims.is_same(one.first.lr, stated)]
    return at_stated or bases


def _name_task(base: Approach, bases: Sequence[Approach]) -> str:
    """The task, with the reference where there are several."""
    task = base.first.task
    return task if len(bases) == 1 else f"{task}, {base.name}"


def count_blocks(approach: Approach) -> int | None:
    """How many of the last blocks an approach trains, with all their weights.

    Returns:
        None for everything, a method such as LoRA, other blocks than the last,
        and heads that only one approach has.
    """
    settings = approach.first.settings
    layers = str(settings.get("trainable_layers", ""))
    is_other = settings.get("blocks") or settings.get("untrained")
    if not layers.isdigit() or settings.get("method") != "full" or is_other:
        return None
    return int(layers)


def _choose_cached(one: BlockLoss, other: BlockLoss | None) -> BlockLoss:
    """Selects one of two losses of the same blocks: known, then cached.

    Frozen blocks that run once are cheaper.
    """
    if other is None:
        return one
    return max(
        (other, one),
        key=lambda x: (x.row.difference.is_known, x.row.is_cached),
    )


def _find_share(row: Row, everything: Row) -> float:
    """See `BlockLoss.share`."""
    if not row.time.is_known:
        return math.nan
    if row.time_of == decisions.TIME:
        return row.time.value
    return 100 * row.seconds / everything.seconds
