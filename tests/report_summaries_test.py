"""What a summary has of a folder, and the documents that kept ones make."""

import glob
import json
import os
import re
import types

import numpy as np
import pandas as pd
import pytest
from msgspec.structs import replace

from tests.reports import synthetic
from tests.support import commands, pages
from tests.sweeps.fakes import plan_runs
from tf_transfer import report
from tf_transfer.reports import (
    page as page_lib,
    study as study_lib,
    summary as summary_lib,
)
from tf_transfer.sweeps.states import RunStates
from tf_transfer.utils.errors import UserError

# === What is found in a folder ===


def test_machines_that_share_a_name_are_named_once(tmp_path):
    for seed, changes in enumerate(
        [{"machine": "a"}, {"machine": "b"}, {"threads": 7}]
    ):
        synthetic.write(tmp_path, [0.8], environment=changes, seed=seed)
    made = summary_lib.summarize_folder(str(tmp_path))["made"]
    assert made["machine"] == (
        "/device:CPU:0 (a processor), 2 threads, 1 at a time; "
        "/device:CPU:0 (a processor), 7 threads, 1 at a time"
    )


def test_a_run_without_a_test_score_is_left_out_among_tested_seeds(tmp_path):
    """It does not turn the others' test scores into validation scores."""
    for seed in range(3):
        for layers, score in (("all", 0.9), ("2", 0.8)):
            synthetic.write(
                tmp_path, [score], trainable_layers=layers, seed=seed
            )
    before = summary_lib.summarize_folder(str(tmp_path))
    unscored = synthetic.write(tmp_path, [0.7], tested=0, seed=3)
    after = summary_lib.summarize_folder(str(tmp_path))
    assert after["runs"] == before["runs"]
    reasons = dict(after["left_out"])
    assert reasons[os.path.relpath(unscored, tmp_path)].startswith(
        "has no test score"
    )


def test_a_folder_of_failed_runs_says_so_in_its_first_line(tmp_path):
    [run] = plan_runs(tmp_path, 1)
    run_states = RunStates(str(tmp_path), [run])
    with open(run_states.log_file(run), "w") as log:
        log.write("out of memory\n")
    run_states.record_failure(run, 1, "exit code 1")
    with pytest.raises(UserError) as raised:
        summary_lib.summarize_folder(str(tmp_path))
    first, second = str(raised.value).splitlines()
    assert first == (
        f"{tmp_path}: holds no finished run: 1 failed. Give the --out of your "
        "runs."
    )
    assert second.startswith("  failed: python -m tf_transfer.glue --")
    assert second.endswith(": exit code 1")


def test_copied_seeds_are_left_out(tmp_path):
    labels = np.array([0, 1, 1, 0])
    for seed in range(3):
        logits = np.random.default_rng(max(seed, 1)).normal(size=(4, 1))
        synthetic.write(
            tmp_path, [0.8], seed=seed, predictions=(labels, logits)
        )
    summary = summary_lib.summarize_folder(str(tmp_path))
    assert len(summary["runs"]) == 2
    [(path, reason)] = summary["left_out"]
    assert "seed=1" in path and "it is a copy" in reason
    parts = [
        {**summary, "runs": [run], "left_out": []} for run in summary["runs"]
    ]
    copied = parts[0]["runs"][0]
    key = {**copied.key, "seed": 7}
    parts[1]["runs"] = [replace(copied, path="elsewhere", key=key)]
    merged = summary_lib.merge(parts)
    assert [run.path for run in merged["runs"]] == [copied.path]
    assert "it is a copy" in dict(merged["left_out"])["elsewhere"]


ANSWER = '{"lines": ["mine: use <it>."], "table": [], "run": ""}'


def test_the_answers_of_searches_are_in_the_report(tmp_path):
    for seed in range(3):
        synthetic.write(tmp_path, [0.9], trainable_layers="2", seed=seed)
    for name, text in (("a", ANSWER), ("b", "{")):
        file = tmp_path / name / ".search/answer.json"
        file.parent.mkdir(parents=True)
        file.write_text(text)
    found = summary_lib.summarize_folder(str(tmp_path))
    path = f"{tmp_path.name}/a"
    answer = {"path": path, "lines": ["mine: use <it>."], "table": []}
    assert found["searches"] == [answer]
    assert ("b", "has a search whose answer is damaged") in found["left_out"]
    page = report.compose(found)
    assert "mine: use &lt;it&gt;." in page_lib.to_html(page)
    assert f"### Search in {path}" in page_lib.to_markdown(page)
    # A stored summary has them, and each counts once.
    file = tmp_path / "summary.json"
    file.write_text(summary_lib.to_json(found))
    both = summary_lib.merge([summary_lib.read_summary(str(file)), found])
    assert both["searches"] == found["searches"]


def test_pipes_and_other_files_in_run_folders_are_passed_over(tmp_path):
    good = synthetic.write(tmp_path, [0.6, 0.7])
    bad = synthetic.write(tmp_path, [0.6, 0.7], seed=1)
    os.remove(os.path.join(bad, "result.json"))
    os.mkfifo(os.path.join(bad, "result.json"))
    (tmp_path / "glue" / "notes.txt").write_text("mine")
    os.mkfifo(tmp_path / "glue" / "pipe")
    found = summary_lib.summarize_folder(str(tmp_path))
    assert [run.path for run in found["runs"]] == [
        os.path.relpath(good, tmp_path)
    ]
    path = os.path.relpath(bad, tmp_path)
    assert (path, "result.json: is no file") in found["left_out"]


def test_scores_of_a_search_are_called_validation_scores(tmp_path):
    for seed in range(3):
        synthetic.write(tmp_path, [0.7], tested=0, seed=seed)
    summary = summary_lib.summarize_folder(str(tmp_path))
    assert len(summary["runs"]) == 3 and not summary["left_out"]
    [study] = study_lib.collect(summary)
    table = page_lib.make_section(study).table.frame
    assert [*table.columns] == [
        *("approach", "validation", "time, s", "seeds"),
    ]


# === The documents of this repository ===

GENERATED = [
    page
    for page in pages.list_pages()  # benchmarks have marks, too
    if report.folder_of(open(os.path.join(commands.ROOT, page)).read())
]


def test_there_are_generated_documents():
    assert "docs/papers/glue.md" in GENERATED


# The summaries with the most runs.
LARGE = (
    "docs/papers/glue.md",
    "docs/papers/methods.md",
    "docs/papers/tweets.md",
)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] * (name in LARGE))
        for name in GENERATED
    ],
)
def test_a_generated_document_is_not_stale(name):
    path = os.path.join(commands.ROOT, name)
    text = open(path).read()
    folder = os.path.join(os.path.dirname(path), report.folder_of(text))
    summary = summary_lib.read_summary(os.path.join(folder, "summary.json"))
    page = report.compose(summary, os.path.join(commands.ROOT, "experiments"))
    assert report.fill_in(text, page) == text
    assert page.sections and page.sections[0].advice
    shown = page_lib.to_html(page)
    shown = re.sub(r"base64,\S+|[a-z]*nan[a-z]+", "", shown)
    assert "nan" not in shown[shown.index("<main>") :]
    [runs] = [table.frame for table in page.tables if table.name == "runs"]
    assert {*runs["run"]} == {record.path for record in summary["runs"]}
    for figure in page.shown_figures:
        assert os.path.exists(os.path.join(folder, f"{figure.name}.png"))


def test_the_summaries_that_are_kept_name_no_folder_of_a_machine():
    for name in glob.glob(
        os.path.join(commands.ROOT, "experiments", "*", "summary.json")
    ):
        text = json.dumps(json.load(open(name)))
        assert "/work" not in text and "/tmp" not in text
        assert "/root" not in text and "/home" not in text


def test_studies_of_one_title_are_all_printed(capsys):
    frame = pd.DataFrame({"approach": ["everything"]})
    sections = [
        types.SimpleNamespace(
            study=types.SimpleNamespace(title="glue", rows=[]),
            advice=sentence,
            table=types.SimpleNamespace(frame=frame),
        )
        for sentence in ("The first.", "The second.")
    ]
    page = types.SimpleNamespace(sections=sections, summary={"searches": []})
    report._print_advice(page)
    assert capsys.readouterr().out == (
        "\nglue\nThe first.\napproach\neverything\n"
        "\nglue\nThe second.\napproach\neverything\n"
    )


@pytest.mark.parametrize("is_compared", [False, True])
@pytest.mark.parametrize("is_timed", [False, True])
def test_missing_times_are_explained(is_compared, is_timed, capsys):
    row = types.SimpleNamespace(
        difference=types.SimpleNamespace(is_known=is_compared),
        time=types.SimpleNamespace(is_known=is_timed),
    )
    section = types.SimpleNamespace(
        study=types.SimpleNamespace(title="glue", rows=[row]),
        advice="The first.",
        table=types.SimpleNamespace(frame=pd.DataFrame({"approach": ["last"]})),
    )
    summary = {"searches": []}
    report._print_advice(
        types.SimpleNamespace(sections=[section], summary=summary)
    )
    is_said = "No times" in capsys.readouterr().out
    assert is_said == (is_compared and not is_timed)
