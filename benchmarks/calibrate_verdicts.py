r"""How often a report's verdicts are wrong: made-up runs, the real engine.

    python -m benchmarks.calibrate_verdicts \
        --document=experiments/verdicts/results.md

The runs of each of `verdict_scenarios.SCENARIOS` have scores whose true
difference is known, and every claim is judged as a report judges it. The table
has the percentage of simulations that end in each word, and of false verdicts.
"""

import itertools
import math
from collections.abc import Sequence

import msgspec
import numpy as np
import pandas as pd
import scipy.stats
import tqdm
from absl import flags

from benchmarks import documents
from benchmarks.verdict_scenarios import Scenario, SCENARIOS, SIZE
from tf_transfer.comparison import predictions
from tf_transfer.comparison.run_record import Environment, RunRecord
from tf_transfer.config import command_line
from tf_transfer.reports import (
    claims,
    contrast,
    run_frame as runs_lib,
    run_groups,
    verdicts,
)
from tf_transfer.utils import formatting

LAST, ALL = {"trainable_layers": "2"}, {"trainable_layers": "all"}
LEVEL = 5.0  # percent of verdicts that may be false
FOLDS, FOLD_SHARE = 10, 1 / 9
TEXTS = 10_000  # test texts: a score of 70 is well above the baseline's 50
# What a made-up run has beyond its scores.
RUN = RunRecord(
    path="",
    experiment="",
    task="",
    data="",
    model="",
    blocks=12,
    parts={},
    metric="accuracy",
    approach="",
    cached=False,
    lr=0.0,
    seed=0,
    max_epochs=None,
    key={},
    sizes={"test": TEXTS},
    timing_environment=Environment(
        processor=None,
        devices=None,
        threads=None,
        concurrent_runs=None,
        replicas=None,
        mixed=False,
    ),
    commit=None,
    versions={},
    epochs=[],
    passes=[],
    folds=None,
    validation=None,
    test=None,
    metrics={},
    majorities={},
    one_answer=False,
    epochs_run=1,
    stop_reason=None,
    seconds=None,
    seconds_per_epoch=None,
    trace_seconds=None,
    prefix_seconds=None,
    prefix_build_seconds=None,
    memory=None,
    trainable_parameters=None,
    total_parameters=None,
)

simulations = flags.DEFINE_integer(
    "simulations", 1000, "Number of simulations per row.", lower_bound=100
)
document = flags.DEFINE_string(
    "document",
    "",
    "Markdown file; the table replaces the text between its two marks.",
)


def make_paper(scenario: Scenario, count: int) -> claims.Paper:
    """A paper with `count` claims of a kind, each on tasks of its own."""
    sizes = {
        f"{number}.{task}": {
            "train_and_validation": round(TEXTS / FOLD_SHARE),
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
    deviations = dict(zip(("2", "all"), scenario.deviations))
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
    """Runs for all claims; see `run_frame.runs_frame` for the columns."""
    rows = []
    for task in paper.sizes:
        for number, layers in enumerate(("2", "all")):
            mean = 0.0
            if layers == "2" and "measure" not in scenario.claim:
                mean = scenario.difference
            resampled = random.normal(0, scenario.texts, predictions.RESAMPLES)
            shift = random.normal(0, scenario.texts)
            for rate, seed in itertools.product(paper.rates, range(seeds)):
                test, validation = draw_scores(scenario, layers, mean, random)
                started = seed + number / 2
                if scenario.apart:
                    started = number * seeds * 10 + seed
                record = msgspec.structs.replace(
                    RUN,
                    approach=layers,
                    folds=draw_folds(scenario, random),
                    test=test / 100,
                )
                if scenario.texts:
                    record = msgspec.structs.replace(
                        record,
                        texts=task,
                        resampled=predictions.encode(resampled),
                    )
                rows.append(
                    (task, layers, rate, seed, test + shift, validation)
                    + (started, record)
                )
    runs = pd.DataFrame(
        rows,
        columns=["task", "layers", "lr", "seed", "test", "validation"]
        + ["started", "record"],
    )
    spans = runs.groupby("task").started.transform("max")
    gains = np.where(runs.layers == "2", scenario.difference, 0.0)
    changes = gains + scenario.drift * runs.started / spans
    noise = runs.layers.map(dict(zip(("2", "all"), scenario.noise)))
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
        score=runs.test,
        environment="",
        mixed=False,
        study=runs_lib.letters_of(0),
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
    """Scores in folds, correlated since the folds' training sets overlap."""
    if not scenario.in_folds:
        return None
    share = FOLD_SHARE / (1 + FOLD_SHARE)  # Nadeau and Bengio's correlation
    luck = math.sqrt(share) * random.normal()
    of_folds = math.sqrt(1 - share) * random.normal(size=FOLDS)
    return [{"accuracy": (70 + luck + one) / 100} for one in of_folds]


def simulate(
    scenario: Scenario, seeds: int, random: np.random.Generator
) -> dict[str, float]:
    """Percent of simulations that end in each word, and in a false one.

    A family counts as false if any of its claims is.
    """
    count = simulations.value * (3 if scenario.family > 1 else 1)
    paper = make_paper(scenario, count)
    runs = make_runs(scenario, paper, seeds, random)
    tasks = run_groups.split_tasks(runs)
    tests = []
    for claim in paper.claims:
        of_claim = {task: tasks[task] for task in claim.tasks}
        tests.append(contrast.test_claim(of_claim, paper, claim, "A"))
    families = [
        verdicts.conclude(tests[begin : begin + scenario.family])
        for begin in range(0, count - scenario.family + 1, scenario.family)
    ]
    words = [_words_of(verdict) for family in families for verdict in family]
    is_false = [
        any(_words_of(verdict) & {*scenario.false} for verdict in family)
        for family in families
    ]
    names = {
        verdicts.AGREES: "agrees",
        SIZE: "size too",
        verdicts.CONTRADICTS: "contradicts",
        verdicts.INCONCLUSIVE: "inconclusive",
    }
    shares = {
        title: 100 * float(np.mean([name in some for some in words]))
        for name, title in names.items()
    }
    limit = LEVEL + 2 * math.sqrt(LEVEL * (100 - LEVEL) / len(families))
    return {
        **shares,
        "Welch": _welch(scenario, runs),
        "false": 100 * float(np.mean(is_false)),
        "at most": limit,
    }


def _words_of(verdict: verdicts.Verdict) -> set[str]:
    """The word of a verdict, and whether the size agrees too."""
    return {verdict.word, verdict.detail} & {*verdicts.WORDS, SIZE}


def _welch(scenario: Scenario, runs: pd.DataFrame) -> float:
    """Percent of claims with a significant difference by Welch's test.

    Without corrections, at 5 %; nan where the claim is on more than two groups
    of seeds.
    """
    if scenario.tasks > 1 or scenario.rates > 1 or scenario.in_folds:
        return math.nan
    values = runs.score
    if "measure" in scenario.claim:
        values = np.log(runs.seconds)
    by_task = [
        [values[members.index[members.layers == n]] for n in ("2", "all")]
        for _, members in runs.groupby("task")
    ]
    p_values = [
        scipy.stats.ttest_ind(*pair, equal_var=False).pvalue for pair in by_task
    ]
    return 100 * float(np.mean([p <= LEVEL / 100 for p in p_values]))


def tabulate() -> list[tuple[str, ...]]:
    """Makes the table: a row for each scenario and number of seeds."""
    random = np.random.default_rng(0)
    rows: list[tuple[str, ...]] = []
    work = [(one, seeds) for one in SCENARIOS for seeds in one.seeds]
    for scenario, seeds in tqdm.tqdm(work, leave=False, disable=None):
        shares = simulate(scenario, seeds, random)
        if not rows:
            rows.append(("what is true", "seeds a group", *shares))
        cells = [
            "" if math.isnan(share) else f"{share:.1f}"
            for share in shares.values()
        ]
        if shares["false"] > shares["at most"]:
            cells[-2] += " (!)"
        rows.append((scenario.name, str(seeds), *cells))
    return rows


def main(argv: Sequence[str]) -> None:
    """Simulates, and prints or writes the table."""
    del argv
    rows = tabulate()
    print(formatting.aligned(rows))
    if document.value:
        rule = ["---"] * len(rows[0])
        table = documents.as_markdown([rows[0], rule, *rows[1:]])
        text = f"Percent of {simulations.value:,} simulations.\n\n{table}"
        documents.fill(document.value, "verdicts", text)


if __name__ == "__main__":
    command_line.command(main)
