r"""The answers of searches, compared with simple scripts.

    python -m benchmarks.search_answers --data=FOLDER
    python -m benchmarks.search_answers \
        --document=experiments/search_answers/results.md

FOLDER holds `glue`, `glue_subset`, `cs224n` and `tweets`. Each of six tasks is
searched as a user's own table, by the command, once for each number of labelled
texts and each budget. Its test score is compared with those of
`simple_scripts`: logistic regression on TF-IDF of words, on TF-IDF of
characters, and on means of the encoder's last states; with the extra `peers`,
also `plain_script`, which trains everything for three epochs at two rates, and,
on few texts, SetFit. All have the same labelled texts. With `--draws=5`, five
draws of each number of texts, which share no text, are measured in turn.

What today's code has measured already is skipped, so the same command resumes,
and another one adds tasks, numbers of texts, draws or budgets. The scripts read
none of the search's modules, so a change of these leaves their scores.
"""

import collections
import itertools
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd
from absl import flags

from benchmarks import documents, own_tables, refresh
from tf_transfer.config import command_line
from tf_transfer.searches.settings import parse_budget
from tf_transfer.training import records
from tf_transfer.training.record_types import Answer
from tf_transfer.utils import files, json_files, machine
from tf_transfer.utils.errors import UserError

NAME = "search_answers"
MODEL = "minilm"  # the encoder that the scripts read as well
MAX_LENGTH = 128  # tokens of a text


def define_flags() -> None:
    """Defines the flags of this command."""
    flags.DEFINE_string("data", "data", "Folder of the data sets.")
    flags.DEFINE_list("examples", ["80", "600", "2000"], "Labelled texts.")
    flags.DEFINE_integer("draws", 1, "Draws of each number of texts.", 1)
    flags.DEFINE_list("tasks", list(own_tables.TASKS), "Tasks to search.")
    flags.DEFINE_list("budgets", ["90s", "3m", "5m"], "Budgets of searches.")
    flags.DEFINE_string("runs", "runs/search_answers", "Root of the runs.")
    flags.DEFINE_string(
        "out", "experiments/search_answers", "Folder of measured.json."
    )
    flags.DEFINE_string("document", "", "Document to write the table into.")


def search(folder: str, budget: str) -> dict[str, Any]:
    """Runs a search as a user does.

    Args:
        folder: Of the task file.
        budget: `--budget`.

    Returns:
        `metric`; `score` of the answer on the test, in points; `approach` of
        the answer; `seconds` from the command's start to its end; `sentence`;
        `expected`: the score of the folds, with both ends of its interval;
        `processor`.

    Raises:
        UserError: It failed, or has no answer.
    """
    out = os.path.join(folder, budget)
    began = time.monotonic()
    done = subprocess.run(
        [
            *(sys.executable, "-m", "tf_transfer.search"),
            f"--task={os.path.join(folder, 'task.toml')}",
            f"--model={MODEL}",
            f"--max_length={MAX_LENGTH}",
            f"--budget={budget}",
            f"--out={out}",
            f"--cache_dir={os.path.join(out, 'cache')}",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    seconds = time.monotonic() - began
    answer = re.search(r"^To predict: .*--run=(\S+)", done.stdout, re.M)
    if done.returncode or answer is None:
        raise UserError(f"{folder}, {budget}: {done.stdout}\n{done.stderr}")
    result = records.RunDirectory(answer[1], None).result()
    assert result is not None
    page = os.path.join(out, ".search", "answer.json")
    sentence = json_files.read(page, Answer)["lines"][0]
    expected = re.search(r"([\d.]+) \(([\d.]+) to ([\d.]+)\)", sentence)
    return {
        "metric": result["metric"],
        "score": 100 * result["test"][result["metric"]],
        "approach": result["approach"],
        "seconds": seconds,
        "sentence": sentence,
        "expected": [*map(float, expected.groups())] if expected else None,
        "processor": machine.processor(),
    }


def measure(out: str) -> dict[str, Any]:
    """Searches all tasks; the measurement is written after each step."""
    values = flags.FLAGS
    command_line.import_tensorflow()
    path = os.path.join(out, "measured.json")
    codes = {
        "code": refresh.find_code(NAME),
        "scripts_code": refresh.hash_code(refresh.SHARED),
    }
    measured: dict[str, Any] = {
        "model": MODEL,
        "max_length": MAX_LENGTH,
        **codes,
        "cases": read_cases(path, **codes),
    }
    os.makedirs(out, exist_ok=True)
    choices = itertools.product(
        range(values.draws), map(int, values.examples), values.tasks
    )
    for draw, examples, task in choices:
        name = f"{task}, {examples:,}"
        root = os.path.join(values.runs, codes["code"])
        folder = os.path.join(root, f"{task}_{examples}")
        if draw:
            name, folder = f"{name}, draw {draw + 1}", f"{folder}_{draw + 1}"
        case = measured["cases"].setdefault(name, {"search": {}})
        parts = own_tables.write_task(task, values.data, examples, folder, draw)
        for _ in _measure_case(case, parts, folder):
            print(name, case, flush=True)
            files.write_json(path, measured)
    return measured


def read_cases(path: str, code: str, scripts_code: str) -> dict[str, Any]:
    """The cases of a file, without what other code has measured.

    Args:
        path: Of the file; there may be none.
        code: Of the search.
        scripts_code: Of the modules that the scripts read.
    """
    if not os.path.exists(path):
        return {}
    recorded = json_files.read_record(path)
    cases: dict[str, Any] = recorded["cases"]
    for case in cases.values():
        if recorded.get("code") != code:
            case["search"] = {}
        if recorded.get("scripts_code") != scripts_code:
            case.pop("others", None)
    return cases


def _measure_case(
    case: dict[str, Any], parts: Sequence[pd.DataFrame], folder: str
) -> Iterator[None]:
    """Measures what is missing of all contestants on some texts of a task.

    Args:
        case: Of these texts; it is filled.
        parts: See `own_tables.write_task`.
        folder: Of its files, and for those of the runs.

    Yields:
        After each step.
    """
    from benchmarks import simple_scripts  # imports TensorFlow

    values = flags.FLAGS
    for budget in values.budgets:
        if budget not in case["search"]:
            case["search"][budget] = answer = search(folder, budget)
            case["metric"] = answer["metric"]
            yield
    if "others" not in case:
        case["others"] = simple_scripts.fit_all(
            parts,
            case["metric"],
            MAX_LENGTH,
            folder,
            cache=os.path.join(values.runs, "cache"),
        )
        yield


def make_table(measured: dict[str, Any]) -> str:
    """Tables as Markdown, one for each number of labelled texts."""
    cases = {
        name: case
        for name, case in measured["cases"].items()
        if "others" in case and case["search"]
    }
    processors = {
        answer["processor"]
        for case in cases.values()
        for answer in case["search"].values()
    }
    # By the number of texts and by the task: a case for each draw.
    grouped: dict[int, dict[str, list[dict[str, Any]]]] = {}
    for name, case in cases.items():
        task, number, *_ = name.split(", ")
        tasks = grouped.setdefault(int(number.replace(",", "")), {})
        tasks.setdefault(task, []).append(case)
    tables = [
        f"### {examples:,} labelled texts\n\n{_make_one_table(tasks)}"
        for examples, tasks in sorted(grouped.items())
    ]
    return "\n\n".join(
        [
            f"`{measured['model']}`, texts of up to {measured['max_length']} "
            f"tokens, on {' and '.join(sorted(processors))}; test scores in "
            "points, means where there are several draws:",
            *tables,
        ]
    )


def _make_one_table(tasks: dict[str, list[dict[str, Any]]]) -> str:
    """The table of one number of labelled texts.

    Args:
        tasks: The cases of each task, one for each draw.
    """
    every = [case for cases in tasks.values() for case in cases]
    budgets = sorted({b for c in every for b in c["search"]}, key=parse_budget)
    names = [*dict.fromkeys(name for c in every for name in c["others"])]
    heads = ["task", "draws", *names]
    for budget in budgets:
        heads += [f"search, {budget}", "its answer"]
    rows = [heads, ["---"] * len(heads)]
    for task, cases in tasks.items():
        row = [task, str(len(cases))]
        for name in names:
            scores = [c["others"][name] for c in cases if name in c["others"]]
            row.append(_show_mean(scores))
        for budget in budgets:
            answers = [
                c["search"][budget] for c in cases if budget in c["search"]
            ]
            row.append(_show_mean([answer["score"] for answer in answers]))
            counts = collections.Counter(a["approach"] for a in answers)
            row.append(", ".join(_show_count(*one) for one in counts.items()))
        rows.append(row)
    for budget in budgets:
        leads = [_list_leads(tasks, budget, name) for name in names]
        for title, pick in (("mean", statistics.fmean), ("least", min)):
            row = [f"**{title} lead of {budget}**", ""]
            row += [_show_lead(pick(some)) if some else "" for some in leads]
            rows.append([*row, *[""] * (len(heads) - len(row))])
    return f"{documents.as_markdown(rows)}\n\n{_describe_coverage(every)}"


def _list_leads(
    tasks: dict[str, list[dict[str, Any]]], budget: str, name: str
) -> list[float]:
    """A search's mean lead over a script on each task that has both."""
    leads = [
        [
            case["search"][budget]["score"] - case["others"][name]
            for case in cases
            if name in case["others"] and budget in case["search"]
        ]
        for cases in tasks.values()
    ]
    return [statistics.fmean(of_task) for of_task in leads if of_task]


def _describe_coverage(cases: Sequence[dict[str, Any]]) -> str:
    """How often the interval of an answer holds its test score."""
    answers = [
        answer
        for case in cases
        for answer in case["search"].values()
        if answer["expected"]
    ]
    is_inside = [
        low <= answer["score"] <= high
        for answer in answers
        for _, low, high in [answer["expected"]]
    ]
    widths = [a["expected"][2] - a["expected"][1] for a in answers]
    return (
        f"The 95 % interval of the first sentence holds the test score in "
        f"{sum(is_inside)} of {len(is_inside)} searches; its mean width is "
        f"{statistics.fmean(widths):.1f} points."
    )


def _show_mean(scores: Sequence[float]) -> str:
    return f"{statistics.fmean(scores):.1f}" if scores else ""


def _show_lead(lead: float) -> str:
    return f"{round(lead, 1) + 0.0:+.1f}"  # no "-0.0"


def _show_count(approach: str, count: int) -> str:
    return f"{approach} ({count})" if count > 1 else approach


def main(argv: list[str]) -> None:
    """Measures and prints the table, or fills a document."""
    del argv
    values = flags.FLAGS
    documents.measure_or_fill(
        measure, make_table, values.out, values.document, NAME
    )


if __name__ == "__main__":
    define_flags()
    command_line.command(main)
