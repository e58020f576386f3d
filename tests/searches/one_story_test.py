"""Search, page, `train`, `report` and `predict` give one answer."""

import dataclasses
import html
import json
import pathlib
import re

import numpy as np
import pytest

from tests.searches import fake_runs
from tf_transfer import report, train
from tf_transfer.reports import page as page_lib, summary as summary_lib
from tf_transfer.training import run_paths

SEARCHES = 20


@pytest.fixture(
    params=[
        pytest.param(seed, marks=[pytest.mark.slow] if seed else [])
        for seed in range(SEARCHES)
    ]
)
def out(request, world, monkeypatch, tmp_path, capsys):
    """The folder of a search with drawn scores, texts and budget."""
    draw = np.random.default_rng(request.param)
    tops = {name: draw.uniform(40, 95) for name in fake_runs.TOPS}
    monkeypatch.setattr(fake_runs, "TOPS", tops)
    path = fake_runs.write_task(
        tmp_path,
        count=int(draw.choice([90, 300, 700])),
        noise=draw.uniform(0, 1),
    )
    budget = str(draw.choice(["30s", "90s", "3m", "12m"]))
    folder = tmp_path / "out"
    fake_runs.run(fake_runs.settings_of(path, folder, budget=budget))
    return folder


def test_all_say_the_same(out, capsys):
    answer = json.loads((out / ".search" / "answer.json").read_text())
    lines, rows = answer["lines"], answer["table"]

    # The first sentence has the scores of the answer's row.
    [row] = [
        row
        for row in rows
        if lines[0].startswith(f"news: {row['approach']} has ")
    ]
    assert row["validation"] in lines[0] and row["test"] in lines[0]

    page = html.unescape((out / "search.html").read_text())
    commands = ("To predict: ", "With more time: ")
    for line in lines:
        if not line.startswith(commands):
            # The first sentence is the headline, the others are below it.
            assert all(part in page for part in line.split(". ", 1)), line

    found = run_paths.find_answer(str(out))
    assert any(f"--run={found}" in line for line in lines)

    settings = json.loads((pathlib.Path(found) / "config.json").read_text())
    names = {field.name for field in dataclasses.fields(train.Settings)}
    given = {k: v for k, v in settings["settings"].items() if k in names}
    train.Train(train.Settings(**given).resolve()).train()
    said = capsys.readouterr().out
    assert all(line in said for line in lines)

    composed = report.compose(summary_lib.summarize_folder(str(out)))
    [reported] = composed.summary["searches"]
    assert reported["lines"] == lines and reported["table"] == rows
    assert not composed.summary["runs"]  # the search alone compares them
    assert lines[0] in html.unescape(page_lib.to_html(composed))
    text = page_lib.to_markdown(composed)
    for row in rows:
        assert f"| {row['approach']} | {row['validation']} |" in text
    assert re.search(r"^\| approach \|", text, re.M)
