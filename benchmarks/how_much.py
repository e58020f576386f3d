"""How much must be trained: the results of all studies on one page.

    python -m benchmarks.how_much --document=docs/how_much.md

Reads every `summary.json` below `experiments` (--summaries), whichever encoder
its runs trained, and writes the tables between the marks of the page and the
figure into `experiments/how_much` (--out). It trains nothing.
"""

import dataclasses
import glob
import math
import os
from collections.abc import Iterable, Sequence

from absl import flags

from benchmarks import (
    documents,
    fewest_blocks,
    loss_figure,
    verdicts_by_encoder,
)
from benchmarks.fewest_blocks import BlockLoss, TaskLosses
from benchmarks.verdicts_by_encoder import Statement
from tf_transfer.comparison import decisions
from tf_transfer.comparison.decisions import NO
from tf_transfer.comparison.run_record import RunRecord
from tf_transfer.config import command_line
from tf_transfer.reports import advice, study as study_lib, summary, verdicts
from tf_transfer.reports.run_groups import FAILED, group_by
from tf_transfer.reports.study import Study
from tf_transfer.utils import files, formatting
from tf_transfer.utils.errors import UserError

STATEMENTS = "how_much/statements.toml"  # below --summaries
PAPERS = {
    "glue": "Wang",
    "tweets": "Hart",
    "stacking": "Wang et al.",
    "multitask": "Li",
    "freezing": "Lee et al.",
    "methods": "ours",
}
MARGIN = decisions.MARGIN
POINTS = advice.describe_points(MARGIN)
FAILED_MARK = "†"


def define_flags() -> None:
    """Defines the flags of this command."""
    flags.DEFINE_string("summaries", "experiments", "Folder of the summaries.")
    flags.DEFINE_string("document", "", "The page; empty to print its parts.")
    flags.DEFINE_string("out", "experiments/how_much", "Folder of the figure.")


@dataclasses.dataclass(frozen=True)
class Results:
    """The results that the page shows.

    Attributes:
        studies: Of all summaries; each summary is judged by itself.
        losses: Of all studies, by encoder and task.
        runs: All runs that trained or were fitted.
        statements: Of the papers.
    """

    studies: Sequence[Study]
    losses: Sequence[TaskLosses]
    runs: Sequence[RunRecord]
    statements: Sequence[Statement]


def list_summaries(folder: str) -> list[str]:
    """The paths of all summaries below a folder.

    Raises:
        UserError: There are none.
    """
    pattern = os.path.join(folder, "**", "summary.json")
    paths = sorted(glob.glob(pattern, recursive=True))
    if not paths:
        raise UserError(f"--summaries={folder}: has no summary.json.")
    return paths


def read_results(paths: Iterable[str], folder: str) -> Results:
    """Reads summaries and compares their runs.

    Args:
        paths: Of the summaries.
        folder: With the papers' claims and `STATEMENTS`.
    """
    studies: list[Study] = []
    runs: list[RunRecord] = []
    for path in paths:
        content = summary.read_summary(path)
        studies += study_lib.collect(content, folder, MARGIN)
        runs += [run for run in content["runs"] if not run.members]
    losses = [
        one for study in studies for one in fewest_blocks.list_losses(study)
    ]
    losses.sort(key=lambda one: (one.encoder, one.task, one.experiment))
    path = os.path.join(folder, STATEMENTS)
    statements = verdicts_by_encoder.read_statements(path)
    return Results(studies, losses, runs, statements)


def make_parts(results: Results) -> dict[str, str]:
    """The generated parts of the page, by the name of their marks."""
    return {
        "answer": describe_answer(results.losses),
        "losses": make_losses(results.losses),
        "statements": make_statements(results),
        "verdicts": make_verdicts(results),
        "costs": make_costs(results.runs),
    }


# === The answer ===


def describe_answer(losses: Sequence[TaskLosses]) -> str:
    """Summarises the table of losses, one list item per encoder."""
    items = []
    for encoder, members in group_by(losses, lambda x: x.encoder).items():
        compared = [one for one in members if one.known_losses]
        fewest = [
            loss
            for one in compared
            for loss in [fewest_blocks.find_fewest(one.block_losses, MARGIN)]
            if loss is not None
        ]
        upper_ends = [
            high
            for one in compared
            for _, high in [fewest_blocks.find_range(one.known_losses)]
            if high is not None
        ]
        depth = members[0].depth
        half = [one for one in fewest if 2 * one.blocks <= depth]
        most = max(x.blocks for one in members for x in one.block_losses)
        shares = [one.share for one in fewest if not math.isnan(one.share)]
        probes = [x.probe for x in members if x.probe and x.probe.word]
        close = [x for x in probes if x.row.difference.value >= -MARGIN]
        worse = [one for one in probes if one.word == NO]
        text = (
            f"In {len(compared)} of {len(members)} comparisons the full model "
            "and some of the last blocks learned. By the means of the trials, "
            f"some of the last blocks lose at most {POINTS} in {len(fewest)} "
            "of these"
        )
        if 2 * most > depth:
            text += f", and half of all blocks or fewer do in {len(half)}"
        text += (
            f". The trials suffice to show it in {len(upper_ends) or 'none'}. "
            f"At most {most} blocks were tried."
        )
        if fewest:
            text += f" The fewest blocks: {_list_fewest(compared)}."
        if shares:
            text += (
                f" They take {_show_range(shares)} % of the time of training "
                "everything."
            )
        if probes:
            text += (
                f" The probe loses at most {POINTS} in "
                f"{len(close)} of {len(probes)} comparisons, and is shown to "
                f"lose more in {len(worse)}."
            )
        blocks = formatting.count(depth, "block")
        items.append(f"- **`{encoder}`**, {blocks}. {text}")
    return "\n".join(items)


def _list_fewest(compared: Sequence[TaskLosses]) -> str:
    """The fewest blocks of each task, such as `4 on cola, 2 to 3 on sst2`."""
    by_task: dict[str, list[int]] = {}
    for one in compared:
        fewest = fewest_blocks.find_fewest(one.block_losses, MARGIN)
        if fewest is not None:
            by_task.setdefault(one.task, []).append(fewest.blocks)
    texts = [
        f"{_show_range(blocks)} on {task}" for task, blocks in by_task.items()
    ]
    return ", ".join(texts)


def _show_range(values: Sequence[float]) -> str:
    """The lowest to the highest value, such as `2 to 3`, or the only one."""
    ends = dict.fromkeys((f"{min(values):.0f}", f"{max(values):.0f}"))
    return " to ".join(ends)


# === The table of losses ===


def make_losses(losses: Sequence[TaskLosses]) -> str:
    """The table of losses as Markdown, with its caption and the figure."""
    rows = [
        [
            "encoder",
            "task",
            "training texts",
            "trials",
            "everything",
            "time, s",
            "blocks tried",
            "fewest blocks",
            "interval",
            "minus everything",
            "time, %",
            "the probe minus everything",
            "study",
        ]
    ]
    rows.append(["---"] * len(rows[0]))
    for one in losses:
        rows.append(_make_row(one, _describe_study(one, losses)))
    figure = loss_figure.draw_losses(losses)
    return (
        f"{_explain_losses()}\n\n{documents.as_markdown(rows)}\n\n"
        f"{FAILED_MARK}: {FAILED}. At *fewest blocks*, that is so for the full "
        "model or for each number of blocks.\n\n"
        f"![{figure.caption}](../experiments/how_much/{figure.name}.png)"
    )


def _explain_losses() -> str:
    return (
        "Test scores in points, with 95 % intervals. *Fewest blocks*: of the "
        "numbers of last blocks that were tried, the fewest whose mean loss "
        f"is at most {POINTS}. *Interval*: from the fewest that are "
        "not shown to lose more, to the fewest that are shown to lose less; "
        "*all* stands for training everything. *Trials*: the fewest of any "
        "approach in the row. Behind a loss is whether it is "
        f"below {POINTS}: yes and no are shown at 5 % (Holm, over all "
        "rows of the task on the study's page), and *open* means that the "
        "trials are too few to say. *Time*: seconds of training with the "
        "build of the feature cache, in percent of everything's; empty where "
        "they were not measured alike:"
    )


def _make_row(one: TaskLosses, study: str) -> list[str]:
    fewest = fewest_blocks.find_fewest(one.block_losses, MARGIN)
    tried = ", ".join(str(loss.blocks) for loss in one.block_losses)
    number, ends, loss, share = FAILED_MARK, "", "", ""
    if one.known_losses:
        low, high = fewest_blocks.find_range(one.known_losses)
        number = "none"
        ends = "all" if low is None else f"{low} to {_show_blocks(high)}"
    if fewest is not None:
        number, loss, share = (
            f"{fewest.blocks} of {one.depth}",
            _show_loss(fewest),
            _show_number(fewest.share),
        )
    trials = min(
        row.seeds
        for row in (one.everything, *(x.row for x in one.block_losses))
    )
    ranged = one.everything.test
    if not ranged.is_known:
        ranged = one.everything.validation
    score = ranged.show(1)
    if one.everything.note == FAILED:
        score += FAILED_MARK
    return [
        f"`{one.encoder}`",
        f"{one.task}, {one.metric}",
        f"{one.texts:,}",
        str(trials),
        score,
        _show_number(one.everything.seconds),
        tried,
        number,
        ends,
        loss,
        share,
        _show_loss(one.probe) if one.probe else "",
        study,
    ]


def _show_blocks(blocks: int | None) -> str:
    return "all" if blocks is None else str(blocks)


def _show_loss(one: BlockLoss) -> str:
    """A difference with its interval and word, such as `-0.7 (...): open`."""
    if not one.row.difference.is_known:
        return FAILED_MARK
    return f"{one.row.difference.show(1, '+')}: {one.word}"


def _show_number(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.0f}"


def _describe_study(one: TaskLosses, losses: Sequence[TaskLosses]) -> str:
    """A link to the study, with the settings that distinguish its rows."""
    name = link_paper(one.experiment, one.experiment)
    same = [other for other in losses if _identify(other) == _identify(one)]
    shared = set.intersection(*({*other.settings} for other in same))
    distinct = [text for text in one.settings if text not in shared]
    return ", ".join([name, *distinct])


def _identify(one: TaskLosses) -> tuple[str, str, str, int]:
    return one.encoder, one.experiment, one.task, one.texts


def link_paper(experiment: str, text: str) -> str:
    """A link from the page to that of an experiment."""
    return f"[{text}](papers/{experiment}.md)"


# === The statements of the papers ===


def make_statements(results: Results) -> str:
    """The table of statements, with a column for each encoder."""
    encoders = verdicts_by_encoder.list_encoders(results.studies)
    heads = ["paper", "in its words", *(f"on `{x}`" for x in encoders)]
    rows = [heads, ["---"] * len(heads)]
    for one in results.statements:
        row = [
            link_paper(one.paper, PAPERS[one.paper]),
            f'"{one.quote}" ({one.source})',
        ]
        for encoder in encoders:
            texts = verdicts_by_encoder.describe_claims(
                results.studies, one, encoder
            )
            row.append("<br>".join(texts) or "not run")
        rows.append(row)
    return documents.as_markdown(rows)


def make_verdicts(results: Results) -> str:
    """The table of outcomes by paper and encoder."""
    heads = [
        "paper",
        "encoder",
        *verdicts.OUTCOMES.values(),
        "claims without a result",
    ]
    rows = [heads, ["---"] * len(heads)]
    for paper in dict.fromkeys(one.paper for one in results.statements):
        studies = [s for s in results.studies if s.experiment == paper]
        for encoder in verdicts_by_encoder.list_encoders(studies):
            counts, without = verdicts_by_encoder.count_outcomes(
                studies, paper, encoder
            )
            name = link_paper(paper, PAPERS[paper])
            rows.append([name, f"`{encoder}`", *map(str, [*counts, without])])
    return documents.as_markdown(rows)


# === Hours and memory ===


def make_costs(runs: Sequence[RunRecord]) -> str:
    """The table of hours and memory, by study and encoder."""
    heads = [
        "study",
        "encoder",
        "runs",
        "time of training",
        "largest memory",
        "commands",
    ]
    rows = [heads, ["---"] * len(heads)]
    # Some baselines name an encoder without using it.
    by_study = group_by(
        runs, lambda run: (run.experiment, run.model if run.trains else "")
    )
    for (experiment, encoder), members in sorted(by_study.items()):
        seconds = sum(run.seconds or 0.0 for run in members)
        memory = max(run.memory or 0 for run in members)
        rows.append(
            [
                link_paper(experiment, experiment),
                f"`{encoder}`" if encoder else "the probe, baselines",
                f"{len(members):,}",
                formatting.duration(seconds),
                formatting.size(memory) if memory else "",
                f"[commands](papers/{experiment}.md#reproduction)",
            ]
        )
    return documents.as_markdown(rows)


def main(argv: list[str]) -> None:
    """Prints the parts of the page, or writes them and the figure."""
    del argv
    values = flags.FLAGS
    paths = list_summaries(values.summaries)
    results = read_results(paths, values.summaries)
    parts = make_parts(results)
    if not values.document:
        print("\n\n".join(parts.values()))
        return
    for name, text in parts.items():
        documents.fill(values.document, name, text)
    figure = loss_figure.draw_losses(results.losses)
    os.makedirs(values.out, exist_ok=True)
    path = os.path.join(values.out, f"{figure.name}.png")
    files.write_atomically(path, figure.png)


if __name__ == "__main__":
    define_flags()
    command_line.command(main)
