"""How often a report's verdicts are wrong: made-up runs, the real engine.

    python -m benchmarks.calibrate_verdicts --document=docs/verdicts.md

Runs get scores whose true difference is known, and every claim is judged as a
report judges it. Printed is the share of each word in percent of the
simulations, and of those that are false.
"""

import dataclasses
import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import tqdm
from absl import app, flags

from tf_transfer.reports import (
    claims,
    frames,
    infer,
    resampling,
    verdicts,
)
from tf_transfer.utils import formatting

BEGIN, END = "<!-- generated: begin -->", "<!-- generated: end -->"
LAST, ALL = {"trainable_layers": "2"}, {"trainable_layers": "all"}
OTHERS = ("1", "3", "4")  # trained blocks of the other approaches on a task
PUBLISHED = -2.0  # points, where a claim has a size
MARGIN = 1.0  # points, where a claim is of no difference
LEVEL = 5.0  # percent of verdicts that may be false
FOLDS, FOLD_SHARE = 10, 1 / 9
TEXTS = 10_000  # that test: a score of 70 is well above the baseline's 50

simulations = flags.DEFINE_integer(
    "simulations", 1000, "Of each row.", lower_bound=100
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
        false: words that are false then.
        difference: true mean of the last blocks less that of fine-tuning.
        deviations: of the scores of both groups over seeds.
        others: of three more approaches on the task.
        rates: learning rates tried on each group; the better on validation is
            taken.
        correlation: of a run's scores on validation and test.
        texts: standard deviation, over test texts, of each group.
        failing: share of the seeds that lose 20 points, on both groups.
        tasks: of the claim.
        of_tasks: standard deviation of the true difference over tasks.
        in_folds: whether both groups were tested in the same folds.
        drift: percent by which times change over a task's runs.
        noise: standard deviation of the times of both groups, in percent.
        apart: whether the groups were timed one after the other.
        family: judge so many claims together, and count sets with a false one.
        seeds: numbers of seeds to try.
    """

    name: str
    claim: dict[str, Any]
    false: tuple[str, ...] = ()
    difference: float = 0.0
    deviations: tuple[float, float] = (1.0, 1.0)
    others: tuple[float, ...] = ()
    rates: int = 1
    correlation: float = 0.5
    texts: float = 0.0
    failing: float = 0.0
    tasks: int = 1
    of_tasks: float = 0.0
    in_folds: bool = False
    drift: float = 0.0
    noise: tuple[float, float] = (1.0, 1.0)
    apart: bool = False
    family: int = 1
    seeds: tuple[int, ...] = (3, 5, 10)


DIFFERENCE = {"published": PUBLISHED}
SIGN = {"sign": -1}
EQUAL = {"kind": "equal", "margin": MARGIN}
TREND = {"kind": "trend", "sign": 1}
SPREAD = {"kind": "spread", "margin": 1.0, "second": ()}
SAME_TIME = {
    "kind": "equal",
    "margin": 10.0,
    "measure": ("seconds", "seconds"),
    "relative": True,
}
TIME = {"measure": ("seconds", "seconds"), "relative": True, "sign": -1}
BOTH = (infer.AGREES, infer.IN_SIGN, infer.CONTRADICTS)
AGREE = (infer.AGREES, infer.IN_SIGN)
WRONG_SIZE = (infer.AGREES,)
AGAINST = (infer.CONTRADICTS,)
ALIKE, UNLIKE = (1.0, 1.0, 1.0), (1.8, 3.2, 5.6)
SCENARIOS = (
    Scenario("no difference", SIGN, BOTH),
    Scenario("no difference, 3 approaches more", SIGN, BOTH, others=ALIKE),
    Scenario(
        "no difference, deviations 1 to 10",
        SIGN,
        BOTH,
        deviations=(1.0, 10.0),
        others=UNLIKE,
    ),
    Scenario(
        "no difference, deviations 5 and 5, others 1",
        SIGN,
        BOTH,
        deviations=(5.0, 5.0),
        others=ALIKE,
    ),
    Scenario(
        "no difference, a third of all seeds fail", SIGN, BOTH, failing=1 / 3
    ),
    Scenario("no difference, best of 2 rates a group", SIGN, BOTH, rates=2),
    Scenario(
        "no difference, best of 2 rates, validation is the test",
        SIGN,
        BOTH,
        rates=2,
        correlation=1.0,
    ),
    Scenario("no difference, on few test texts", SIGN, BOTH, texts=1.0),
    Scenario(
        "no difference on 4 tasks, mean", SIGN, BOTH, tasks=4, seeds=(3, 10)
    ),
    Scenario(
        "no difference on 4 tasks, most",
        SIGN | {"over": "most"},
        BOTH,
        tasks=4,
        seeds=(3, 10),
    ),
    Scenario(
        "no difference on 4 tasks, each",
        SIGN | {"over": "each"},
        BOTH,
        tasks=4,
        seeds=(3, 10),
    ),
    Scenario("no difference, 10 claims, any", SIGN, BOTH, family=10),
    Scenario("no difference, 37 claims, any", SIGN, BOTH, family=37),
    Scenario(
        "no difference in the same 10 folds",
        SIGN,
        BOTH,
        in_folds=True,
        seeds=(1,),
    ),
    Scenario("no difference, -2 published", DIFFERENCE, AGREE),
    Scenario("half of the published", DIFFERENCE, WRONG_SIZE, PUBLISHED / 2),
    Scenario("twice the published", DIFFERENCE, WRONG_SIZE, 2 * PUBLISHED),
    Scenario(
        "2.5 times the published", DIFFERENCE, WRONG_SIZE, 2.5 * PUBLISHED
    ),
    Scenario("the published, -2", DIFFERENCE, AGAINST, PUBLISHED),
    Scenario(
        "the published, spreads 0.5", DIFFERENCE, AGAINST, PUBLISHED, (0.5, 0.5)
    ),
    Scenario(
        "the published, 3 approaches more",
        DIFFERENCE,
        AGAINST,
        PUBLISHED,
        others=ALIKE,
    ),
    Scenario(
        "the sign, -2, 10 claims, each", SIGN, AGAINST, PUBLISHED, family=10
    ),
    Scenario(
        "the sign, -2, 37 claims, each", SIGN, AGAINST, PUBLISHED, family=37
    ),
    Scenario("the other sign", DIFFERENCE, AGREE, -PUBLISHED),
    Scenario("equal claimed, and true", EQUAL, AGAINST),
    Scenario("equal claimed, true, spread 0.3", EQUAL, AGAINST, 0, (0.3, 0.3)),
    Scenario("equal claimed, at the margin", EQUAL, AGREE, -MARGIN),
    Scenario(
        "equal claimed, at it, spread 0.3", EQUAL, AGREE, -MARGIN, (0.3, 0.3)
    ),
    Scenario(
        "equal claimed, within it, spread 0.3",
        EQUAL,
        AGAINST,
        -0.9 * MARGIN,
        (0.3, 0.3),
    ),
    Scenario("equal claimed, three times it", EQUAL, AGREE, -3 * MARGIN),
    Scenario(
        "trend claimed, 8 tasks differ by 2, not by size",
        TREND,
        BOTH,
        tasks=8,
        of_tasks=2.0,
        seeds=(3, 10),
    ),
    Scenario("spread of 1 claimed, and true", SPREAD, BOTH),
    Scenario(
        "spread of 1 claimed, it is 0.3",
        SPREAD,
        AGAINST,
        deviations=(0.3, 0.3),
    ),
    Scenario("times alike, in turn", TIME, BOTH),
    Scenario(
        "times alike, deviations 1 and 10 %", TIME, BOTH, noise=(1.0, 10.0)
    ),
    Scenario(
        "times within 10 % claimed, they are 50 % apart",
        SAME_TIME,
        AGREE,
        -50.0,
    ),
    Scenario("times alike, in turn, drift of 5 %", TIME, BOTH, drift=5.0),
    Scenario(
        "times alike, one group later, drift of 5 %",
        TIME,
        BOTH,
        drift=5.0,
        apart=True,
    ),
    Scenario("a group takes 5 % less, in turn", TIME, AGAINST, -5.0),
)


def make_paper(scenario: Scenario, count: int) -> claims.Paper:
    """So many claims of a kind, each on tasks of its own."""
    sizes = {
        f"{number}.{task}": {
            "train_and_validation": round(TEXTS / FOLD_SHARE) * 2**task,
            "test": TEXTS,
        }
        for number in range(count)
        for task in range(scenario.tasks)
    }
    return claims.Paper(
        name="",
        settings={"frozen_prefix": "live"},
        encoders=("bert_base_en_uncased",),
        sizes=sizes,
        varied=(),
        rates=tuple(map(float, range(scenario.rates))),
        claims=tuple(
            claims.Claim(
                **{
                    "id": str(number),
                    "text": "",
                    "source": "",
                    "tasks": tuple(
                        f"{number}.{t}" for t in range(scenario.tasks)
                    ),
                    "first": (LAST,),
                    "second": (ALL,),
                    **scenario.claim,
                }
            )
            for number in range(count)
        ),
        notes=(),
    )


def draw_scores(
    scenario: Scenario, layers: str, mean: float, random: np.random.Generator
) -> tuple[float, float]:
    """(test, validation) of a run, in points."""
    deviations = dict(zip(("2", "all", *OTHERS), scenario.deviations))
    deviations |= dict(zip(OTHERS, scenario.others))
    test, other = random.normal(0, deviations[layers], 2)
    share = scenario.correlation
    validation = share * test + math.sqrt(1 - share**2) * other
    if random.random() < scenario.failing:
        mean -= 20
    return 70 + mean + test, 70 + mean + validation


def make_runs(
    scenario: Scenario,
    paper: claims.Paper,
    seeds: int,
    random: np.random.Generator,
) -> pd.DataFrame:
    """Runs for all claims; see `frames.runs_frame` for the columns."""
    rows = []
    groups = ("2", "all", *OTHERS[: len(scenario.others)])
    for task in paper.sizes:
        true = scenario.difference + random.normal(0, scenario.of_tasks)
        for number, layers in enumerate(groups):
            mean = true if layers == "2" else 0.0
            resampled = random.normal(0, scenario.texts, resampling.RESAMPLES)
            shift = random.normal(0, scenario.texts)
            for rate, seed in itertools.product(paper.rates, range(seeds)):
                test, validation = draw_scores(scenario, layers, mean, random)
                started = seed + number / len(groups)
                if scenario.apart:
                    started = number * seeds * 10 + seed
                record = {
                    "blocks": 12,
                    "approach": layers,
                    "metric": "accuracy",
                    "folds": draw_folds(scenario, random),
                    "test": test / 100,
                    "sizes": {"test": TEXTS},
                }
                if scenario.texts:
                    record["texts"] = task
                    record["resampled"] = resampling.encode(resampled)
                rows.append(
                    (task, layers, rate, seed, test + shift, validation)
                    + (started, record)
                )
    runs = pd.DataFrame(
        rows,
        columns=["task", "layers", "lr", "seed", "score", "validation"]
        + ["started", "record"],
    )
    spans = runs.groupby("task").started.transform("max")
    gains = np.where(runs.layers == "2", scenario.difference, 0.0)
    changes = gains + scenario.drift * runs.started / spans
    noise = runs.layers.map(dict(zip(("2", "all"), scenario.noise))).fillna(1)
    changes += noise * random.normal(0, 1, len(runs))
    return runs.assign(
        path=runs.index.map(str),
        group=runs.groupby([runs.task, runs.layers, runs.lr]).ngroup(),
        settings=[
            {"trainable_layers": layers, "lr": lr, "frozen_prefix": "live"}
            for layers, lr in zip(runs.layers, runs.lr)
        ],
        sizes=[
            {
                "train": paper.sizes[task]["train_and_validation"],
                "test": TEXTS,
            }
            for task in runs.task
        ],
        seconds=100 * np.exp(changes / 100),
        environment="",
        traced="",
        mixed=False,
        study=frames.letters_of(0),
        data_identity=runs.task,
        model="bert_base_en_uncased",
        blocks=12,
        approach=runs.layers,
        metric="accuracy",
        majority=50.0,
        one_answer=False,
        timed=True,
        stop_reason="patience",
    )


def draw_folds(
    scenario: Scenario, random: np.random.Generator
) -> list[dict[str, float]] | None:
    """Scores in folds, whose training sets overlap: their luck is shared."""
    if not scenario.in_folds:
        return None
    share = FOLD_SHARE / (1 + FOLD_SHARE)  # Nadeau and Bengio's correlation
    luck = math.sqrt(share) * random.normal()
    own = math.sqrt(1 - share) * random.normal(size=FOLDS)
    return [{"accuracy": (70 + luck + one) / 100} for one in own]


def simulate(
    scenario: Scenario, seeds: int, random: np.random.Generator
) -> dict[str, float]:
    """Percent of simulations that end in each word; of families, in any."""
    count = simulations.value * (3 if scenario.family > 1 else 1)
    paper = make_paper(scenario, count)
    runs = make_runs(scenario, paper, seeds, random)
    tasks = verdicts.split_tasks(runs, paper)
    judged = []
    for claim in paper.claims:
        of_claim = {task: tasks[task] for task in claim.tasks}
        verdict = verdicts.judge_claim(of_claim, paper, claim)
        assert verdict is not None
        judged.append(verdict)
    families = [
        verdicts.correct_for_many(judged[begin : begin + scenario.family])
        for begin in range(0, count - scenario.family + 1, scenario.family)
    ]
    # Of a family, the share of sets with a false word; of each word, that of
    # its claims.
    words = [verdict.word for family in families for verdict in family]
    is_false = [
        any(verdict.word in scenario.false for verdict in family)
        for family in families
    ]
    false = 100 * float(np.mean(is_false))
    limit = LEVEL + 2 * math.sqrt(LEVEL * (100 - LEVEL) / len(families))
    return {
        **{
            word: 100 * words.count(word) / len(words)
            for word in (
                infer.AGREES,
                infer.IN_SIGN,
                infer.CONTRADICTS,
                infer.INCONCLUSIVE,
            )
        },
        "false": false,
        "at most": limit,
    }


def tabulate() -> list[tuple[str, ...]]:
    """The table: a row for each scenario and number of seeds."""
    random = np.random.default_rng(0)
    rows: list[tuple[str, ...]] = []
    work = [(one, seeds) for one in SCENARIOS for seeds in one.seeds]
    for scenario, seeds in tqdm.tqdm(work, leave=False, disable=None):
        shares = simulate(scenario, seeds, random)
        if not rows:
            rows.append(("what is true", "seeds a group", *shares))
        cells = [f"{share:.1f}" for share in shares.values()]
        if shares["false"] > shares["at most"]:
            cells[-2] += " (!)"
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
