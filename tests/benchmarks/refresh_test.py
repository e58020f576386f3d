"""Pages say whether their numbers are those of today's code."""

import json
import pathlib

import pytest

from benchmarks import refresh

ROOT = pathlib.Path(__file__).parent.parent.parent
RESULTS = refresh.read_results()
OUTDATED = refresh.find_outdated(RESULTS)


@pytest.mark.parametrize("result", RESULTS, ids=lambda result: result.name)
def test_a_page_says_whose_code_made_its_numbers(result):
    """`python -m benchmarks.refresh --mark` writes the line."""
    line = refresh.describe_page(result.page, OUTDATED)
    text = (ROOT / result.page).read_text()
    begin, end = "<!-- begin: code -->", "<!-- end: code -->"
    assert text.partition(begin)[2].partition(end)[0].strip() == line


@pytest.mark.parametrize("result", RESULTS, ids=lambda result: result.name)
def test_a_page_has_the_commands_of_its_result(result):
    text = (ROOT / result.page).read_text().replace("FOLDER", ".")
    for command in result.commands:
        assert f"python -m {command}" in text, command


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package of one module, as the root of the checkout."""
    monkeypatch.setattr(refresh, "ROOT", str(tmp_path))
    folder = tmp_path / "mine" / "models"
    folder.mkdir(parents=True)
    (folder / "one.py").write_text('"""Says."""\nA = 1\n')
    return folder


@pytest.mark.parametrize(
    "source, is_same",
    [
        ('"""Says more."""\nA = 1  # one\n', True),
        ("A = 1\n", True),
        ('"""Says."""\nA = 2\n', False),
    ],
)
def test_code_is_what_computes(source, is_same, package):
    before = refresh.hash_code(["models"], "mine")
    (package / "one.py").write_text(source)
    assert (refresh.hash_code(["models"], "mine") == before) == is_same


def test_a_new_module_is_other_code(package):
    before = refresh.hash_code(["models"], "mine")
    (package / "two.py").write_text("")
    assert refresh.hash_code(["models"], "mine") != before


def test_a_result_is_made_once_by_its_code(tmp_path, monkeypatch):
    """Its commands see the data sets; what they made is of today's code."""
    (tmp_path / "experiments").mkdir()
    refreshed = tmp_path / refresh.REFRESHED
    refreshed.write_text("{}")
    (tmp_path / "data" / "glue").mkdir(parents=True)
    monkeypatch.setattr(refresh, "hash_code", lambda modules: "abc")
    monkeypatch.setattr(refresh, "ROOT", str(tmp_path))
    one = refresh.Result(
        "one", "docs/one.md", [], ["timeit -n1 -r1 import\\ this"]
    )
    broken = refresh.Result("two", "docs/one.md", [], ["timeit 1/0"])
    assert refresh.find_outdated([one, broken]) == [one, broken]
    data, out = str(tmp_path / "data"), str(tmp_path / "runs")
    refresh.make(one, data, out)
    with pytest.raises(refresh.RunError, match="two: `python -m timeit 1/0`"):
        refresh.make(broken, data, out)
    assert (tmp_path / "runs" / "one-abc" / "glue").is_dir()
    assert json.loads(refreshed.read_text())["one"]["code"] == "abc"
    assert refresh.find_outdated([one, broken]) == [broken]
    line = refresh.describe_page("docs/one.md", [])
    assert line == "The numbers on this page were made by today's code."
    line = refresh.describe_page("docs/one.md", [broken])
    assert (
        line.startswith("Made by [earlier code](reference/") and "`two`" in line
    )


def test_other_code_or_settings_are_not_resumed(tmp_path):
    path = tmp_path / "measured.json"
    code = refresh.find_code("usual_leads")
    settings = {"examples": 600}
    began = {"examples": 600, "code": code, "tasks": {}}
    assert refresh.resume(str(path), "usual_leads", settings) == began
    for made, examples, tasks in (
        (code, 600, {"sst2": 1}),
        (code, 80, {}),
        ("other", 600, {}),
        (None, 600, {}),
    ):
        measured = {"code": made, "examples": examples, "tasks": {"sst2": 1}}
        path.write_text(json.dumps(measured))
        read = refresh.resume(str(path), "usual_leads", settings)
        assert read == {**began, "tasks": tasks}


def test_a_measurement_says_itself_which_code_made_it(tmp_path, monkeypatch):
    (tmp_path / "experiments").mkdir()
    (tmp_path / refresh.REFRESHED).write_text('{"one": {"code": "abc"}}')
    monkeypatch.setattr(refresh, "hash_code", lambda modules: "abc")
    monkeypatch.setattr(refresh, "ROOT", str(tmp_path))
    one = refresh.Result("one", "docs/one.md", [], [], measured="measured.json")
    for code, outdated in (("other", [one]), ("abc", [])):
        (tmp_path / "measured.json").write_text(json.dumps({"code": code}))
        assert refresh.find_outdated([one]) == outdated


def test_an_interrupted_measurement_is_unfinished(tmp_path, monkeypatch):
    """It is of today's code, and the commands go on with it."""
    (tmp_path / "experiments").mkdir()
    refreshed = tmp_path / refresh.REFRESHED
    monkeypatch.setattr(refresh, "hash_code", lambda modules: "abc")
    monkeypatch.setattr(refresh, "ROOT", str(tmp_path))
    (tmp_path / "measured.json").write_text('{"code": "abc"}')
    one = refresh.Result("one", "docs/one.md", [], [], measured="measured.json")
    for content, code in (
        ("{}", "today's, unfinished"),
        ('{"one": {"code": "abc"}}', "today's"),
    ):
        refreshed.write_text(content)
        assert refresh.list_results([one]).splitlines()[1].endswith(code)
    assert refresh.find_unfinished([one]) == []
