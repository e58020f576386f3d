"""The tables of whole searches, from made-up measurements."""

import json

import pytest

from benchmarks import own_tables, search_answers


def make_case(score, loop, approach="last_2", width=4.0):
    """What is measured of a draw: a search and two scripts."""
    answer = {
        "score": score,
        "approach": approach,
        "expected": [80.0, 80.0 - width / 2, 80.0 + width / 2],
        "processor": "CPU",
    }
    return {"search": {"90s": answer}, "others": {"words": 60.0, "loop": loop}}


@pytest.fixture(scope="module")
def text():
    """The tables of two tasks; one has two draws of 80 texts."""
    cases = {
        "cola, 2,000": make_case(70.0, 71.0),
        "sst2, 80": make_case(81.0, 80.0),
        "sst2, 80, draw 2": make_case(83.0, 80.0, "probe"),
        "cola, 80": make_case(70.0, 71.0),
        # Not measured to their end.
        "mrpc, 80": {"search": {}},
        "qqp, 80": {**make_case(70.0, 71.0), "search": {}},
    }
    return search_answers.make_table(
        {"model": "minilm", "max_length": 9, "cases": cases}
    )


def test_each_number_of_texts_has_a_table(text):
    heads = [line for line in text.splitlines() if line.startswith("#")]
    assert heads == ["### 80 labelled texts", "### 2,000 labelled texts"]


def test_a_row_has_the_mean_of_the_draws(text):
    row = "| sst2 | 2 | 60.0 | 80.0 | 82.0 | last_2, probe |"
    assert row in text.splitlines()


def test_leads_are_means_over_tasks_of_means_over_draws(text):
    """Over the loop: +2.0 of two draws, and -1.0."""
    lines = text.splitlines()
    assert "| **mean lead of 90s** |  | +16.0 | +0.5 |  |  |" in lines
    assert "| **least lead of 90s** |  | +10.0 | -1.0 |  |  |" in lines


def test_coverage_counts_the_searches_of_each_table(text):
    few, many = text.split("### 2,000")
    assert "in 1 of 3 searches; its mean width is 4.0 points" in few
    assert "in 0 of 1 searches" in many


@pytest.mark.parametrize(
    "codes, kept",
    [
        (("a", "b"), {"search", "others"}),
        (("c", "b"), {"others"}),
        (("a", "c"), {"search"}),
    ],
)
def test_what_other_code_has_measured_is_left_out(tmp_path, codes, kept):
    path = tmp_path / "measured.json"
    content = {
        "code": "a",
        "scripts_code": "b",
        "cases": {"sst2, 80": make_case(70.0, 71.0)},
    }
    path.write_text(json.dumps(content))
    [case] = search_answers.read_cases(str(path), *codes).values()
    assert {name for name, content in case.items() if content} == kept


def test_draws_share_no_labelled_text(tmp_path):
    folder = tmp_path / "cs224n"
    folder.mkdir()
    for name, count in (("train", 40), ("dev", 9)):
        lines = [f"{name} {n}\t{n % 2}" for n in range(count)]
        (folder / f"ids-sst-{name}.csv").write_text(
            "\n".join(["sentence\tsentiment", *lines])
        )
    (train, test), (other, same) = (
        own_tables.write_task("sentiment", str(tmp_path), 20, folder, draw)
        for draw in (0, 1)
    )
    assert not {*train["text0"]} & {*other["text0"]}
    assert sorted(test["text0"]) == sorted(same["text0"])
    assert len(train) == len(other) == 20
