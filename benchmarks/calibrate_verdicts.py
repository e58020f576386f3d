"""How often a report's verdicts are wrong: made-up runs, the real engine.

    python -m benchmarks.calibrate_verdicts --document=docs/verdicts.md

Runs get scores from normal distributions whose difference is known, and every
claim is judged as a report judges it. Printed is the share of each word in
percent of the simulations.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import tqdm
from absl import app
from absl import flags

from tf_transfer.reports import claims
from tf_transfer.reports import frames
from tf_transfer.reports import verdicts
from tf_transfer.utils import formatting

BEGIN, END = "<!-- generated: begin -->", "<!-- generated: end -->"
LAST, ALL = {"trainable_layers": "2"}, {"trainable_layers": "all"}
PUBLISHED = -2.0  # points, where a claim has a size
MARGIN = 1.0  # points, where a claim is of no difference
FAMILY = 10  # claims of a paper, for Holm's correction

simulations = flags.DEFINE_integer(
    "simulations", 1000, "Of each row.", lower_bound=FAMILY
)
document = flags.DEFINE_string(
    "document", "", "Markdown file whose marked part becomes the tables."
)


@dataclasses.dataclass(frozen=True)
class Scenario:
    """What is true of made-up runs, and what is claimed of them.

    Attributes:
        name: in words.
        claim: keys of `claims.Claim`.
        difference: true mean of the last blocks less that of fine-tuning.
        deviations: of the scores of both sides.
        rates: learning rates tried on each side; the better on validation is
            taken.
        tasks: of the claim, with the true difference of each beside the first.
        family: judge so many claims together, and count sets with a false one.
    """

    name: str
    claim: dict[str, Any]
    difference: float = 0.0
    deviations: tuple[float, float] = (1.0, 1.0)
    rates: int = 1
    tasks: int = 1
    family: int = 1


DIFFERENCE = {"published": PUBLISHED}
SIGN = {"sign": -1}
EQUAL = {"kind": "equal", "margin": MARGIN}
SCENARIOS = (
    Scenario("no difference", SIGN),
    Scenario("no difference, spreads 0.5 and 2", SIGN, 0, (0.5, 2.0)),
    Scenario("no difference, best of 2 rates a side", SIGN, rates=2),
    Scenario("no difference on 4 tasks, mean", SIGN, tasks=4),
    Scenario(
        "no difference on 4 tasks, most", SIGN | {"over": "most"}, tasks=4
    ),
    Scenario("no difference, 10 claims, any wrong", SIGN, family=FAMILY),
    Scenario("no difference, -2 published", DIFFERENCE),
    Scenario("the published difference, -2", DIFFERENCE, PUBLISHED),
    Scenario(
        "the published, spreads 0.5 and 2", DIFFERENCE, PUBLISHED, (0.5, 2.0)
    ),
    Scenario("the published, best of 2 rates", DIFFERENCE, PUBLISHED, rates=2),
    Scenario("a tenth of the published", DIFFERENCE, PUBLISHED / 10),
    Scenario("five times the published", DIFFERENCE, 5 * PUBLISHED),
    Scenario("the other sign", DIFFERENCE, -PUBLISHED),
    Scenario("equal claimed, and true", EQUAL),
    Scenario("equal claimed, true, spread 0.3", EQUAL, 0, (0.3, 0.3)),
    Scenario("equal claimed, at the margin", EQUAL, -MARGIN),
    Scenario("equal claimed, at it, spread 0.3", EQUAL, -MARGIN, (0.3, 0.3)),
    Scenario("equal claimed, three times it", EQUAL, -3 * MARGIN),
)
SEEDS = (3, 5, 10)


def make_paper(scenario: Scenario, count: int) -> claims.Paper:
    """So many claims of a kind, each on tasks of its own."""
    return claims.Paper(
        name="",
        settings={"frozen_prefix": "live"},
        encoders=("bert_base_en_uncased",),
        sizes={
            f"{number}.{task}": {"test": 100}
            for number in range(count)
            for task in range(scenario.tasks)
        },
        varied=(),
        rates=tuple(map(float, range(scenario.rates))),
        claims=tuple(
            claims.Claim(
                id=str(number),
                text="",
                source="",
                tasks=tuple(f"{number}.{t}" for t in range(scenario.tasks)),
                first=(LAST,),
                second=(ALL,),
                **scenario.claim,
            )
            for number in range(count)
        ),
        notes=(),
    )


def make_runs(
    scenario: Scenario,
    paper: claims.Paper,
    seeds: int,
    random: np.random.Generator,
) -> pd.DataFrame:
    """Runs for all claims; see `frames.runs_frame` for the columns."""
    rows = []
    for task in paper.sizes:
        for layers, mean, deviation in zip(
            (LAST, ALL), (scenario.difference, 0.0), scenario.deviations
        ):
            for rate in paper.rates:
                for seed in range(seeds):
                    score, validation = random.normal(70 + mean, deviation, 2)
                    rows.append((task, layers, rate, seed, score, validation))
    runs = pd.DataFrame(
        rows, columns=["task", "layers", "lr", "seed", "score", "validation"]
    )
    layers = runs.layers.map(frames.dump)
    return runs.assign(
        path=runs.index.map(str),
        group=runs.groupby([runs.task, layers, runs.lr]).ngroup(),
        settings=[
            {**layers, "lr": lr, "frozen_prefix": "live"}
            for layers, lr in zip(runs.layers, runs.lr)
        ],
        sizes=[{"test": 100}] * len(runs),
        record=[{"folds": None, "metric": "accuracy"}] * len(runs),
        study=frames.letters_of(0),
        data_identity=runs.task,
        model="bert_base_en_uncased",
        blocks=12,
        approach=runs.layers.map(lambda layers: layers["trainable_layers"]),
        metric="accuracy",
        majority=50.0,
        one_answer=False,
        timed=True,
        stop_reason="patience",
    )


def simulate(
    scenario: Scenario, seeds: int, random: np.random.Generator
) -> dict[str, float]:
    """Percent of simulations that end in each word; of families, in any."""
    paper = make_paper(scenario, simulations.value)
    runs = make_runs(scenario, paper, seeds, random)
    by_task = verdicts.split_by_task(runs, paper)
    judged = []
    for claim in paper.claims:
        of_claim = {task: by_task[task] for task in claim.tasks}
        verdict = verdicts.judge_claim(of_claim, paper, claim)
        assert verdict is not None
        judged.append(verdict)
    families = [
        verdicts.correct_for_many(judged[begin : begin + scenario.family])
        for begin in range(0, len(judged), scenario.family)
    ]
    ended = [{verdict.word for verdict in family} for family in families]
    return {
        word: 100 * float(np.mean([word in words for words in ended]))
        for word in (
            verdicts.AGREES,
            verdicts.IN_SIGN,
            verdicts.CONTRADICTS,
            verdicts.INCONCLUSIVE,
        )
    }


def tabulate() -> list[tuple[str, ...]]:
    """The table: a row for each scenario and number of seeds."""
    random = np.random.default_rng(0)
    rows: list[tuple[str, ...]] = []
    work = [(scenario, seeds) for scenario in SCENARIOS for seeds in SEEDS]
    for scenario, seeds in tqdm.tqdm(work, leave=False, disable=None):
        shares = simulate(scenario, seeds, random)
        if not rows:
            rows.append(("what is true", "seeds a side", *shares))
        cells = (f"{share:.1f}" for share in shares.values())
        rows.append((scenario.name, str(seeds), *cells))
    return rows


def to_markdown(rows: Sequence[Sequence[str]]) -> str:
    """Rows as a Markdown table, the first as its head."""
    head, *body = ("| " + " | ".join(row) + " |" for row in rows)
    return "\n".join([head, "| --- " * len(rows[0]) + "|", *body])


def main(argv: Sequence[str]) -> None:
    """Simulates, and prints or writes the table."""
    del argv
    rows = tabulate()
    print(formatting.aligned(rows))
    if document.value:
        with open(document.value, encoding="utf-8") as file:
            before, rest = file.read().split(BEGIN)
        _, after = rest.split(END)
        table = (
            f"Percent of {simulations.value:,} simulations.\n\n"
            f"{to_markdown(rows)}"
        )
        with open(document.value, "w", encoding="utf-8") as file:
            file.write(f"{before}{BEGIN}\n\n{table}\n\n{END}{after}")


if __name__ == "__main__":
    app.run(main)
