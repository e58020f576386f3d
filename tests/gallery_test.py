"""The examples of the gallery run, on small data and with `tiny`."""

import glob
import os
import re

import matplotlib
import numpy as np
import pytest

from benchmarks import gallery
from tests.readme_test import read
from tests.support import commands, own_data
from tf_transfer.data import glue
from tf_transfer.data.task import Sentences
from tf_transfer.utils.errors import RunError

TINY = '"tiny", max_epochs=1, max_length=16'
SMALL = {
    '"minilm", trainable_layers': f"{TINY}, trainable_layers",
    '"minilm", **': f"{TINY}, **",
    'model="minilm",': f"model={TINY},",
    "minilm": "tiny",
    "mpnet": "tiny",
    'features="frozen"': 'features="tfidf"',  # a probe fits many regressions
    "train_size=32": "train_size=16",
    "[2, 4, 6]": "[0, 1]",
    '("head", 1, 2, 4, "all")': '("head", "all")',
}
PRINTED = {
    "table": r"Accuracy: [01]\.\d{3}\n\['(good|bad)' '(good|bad)'\]\n",
    "encoders": "tiny",
    "blocks": r"(?s)trained +accuracy +seconds\n.*head .*all ",
    "few_labels": r"TF-IDF: .*\nprobe: .*\ncontrastive: [01]\.\d{3}\n",
    "entities": r"\{'f1': .*\}\n\[list\(\['.*'\]\)\]\n",
    "features": r"(?s)mean_test_score .*\n +0 .*\n +1 ",
}


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """A folder with small tables of the same columns."""
    folder = tmp_path_factory.mktemp("tables")
    source = glue.open_source(glue.TASKS["sst2"], "sample", "")
    columns = own_data.news(40)
    sentences = Sentences(np.arange(40), columns["words"], columns["marks"])
    gallery.write_tables(source.read("train"), sentences, str(folder))
    return folder


@pytest.fixture(autouse=True)
def here(monkeypatch, tables, tmp_path):
    """Examples read the current folder; pages are read from the checkout."""
    folder = os.path.join(commands.ROOT, gallery.FOLDER)
    monkeypatch.setattr(gallery, "FOLDER", folder)
    monkeypatch.chdir(tmp_path)
    for path in tables.iterdir():
        (tmp_path / path.name).symlink_to(path)
    matplotlib.use("agg")


@pytest.mark.parametrize("name", gallery.EXAMPLES)
@pytest.mark.filterwarnings("ignore::UserWarning")  # TF-IDF is above `tiny`
def test_an_example_runs(name, capsys, eager, one_block):
    code = gallery.read_code(name)
    for large, small in SMALL.items():
        code = code.replace(large, small)
    if name == "encoders":  # only probes are ranked
        code = code.replace('features="tfidf"', 'features="frozen"')
    exec(compile(code, name, "exec"), {"__name__": "__main__"})
    assert re.search(PRINTED[name], capsys.readouterr().out)
    assert os.path.exists(gallery.FIGURE) == (name == "blocks")


def test_each_page_is_listed_and_takes_an_output():
    pages = glob.glob(f"{gallery.FOLDER}/*.md")
    names = {os.path.basename(page).removesuffix(".md") for page in pages}
    assert names == {*gallery.EXAMPLES, "index"}
    index = read("docs/gallery/index.md")
    for name in gallery.EXAMPLES:
        assert f"({name}.md)" in index
        page = read(f"docs/gallery/{name}.md")
        assert page.count(" output -->") == 2, name
        assert not re.search("/(tmp|root|home)/", page), name


def test_the_command_shows_what_an_example_prints_and_its_figure(
    monkeypatch, tmp_path, tables
):
    code = "print('seen')\nopen('curve.svg', 'w').close()"
    (tmp_path / "own.md").write_text(f"```python\n{code}\n```\n")
    monkeypatch.setattr(gallery, "FOLDER", str(tmp_path))
    text = gallery.run_example("own", str(tables))
    assert text == (
        "It prints:\n\n```text\nseen\n```\n\n![The figure](curve.svg)"
    )
    assert (tmp_path / "curve.svg").is_file()
    (tmp_path / "own.md").write_text("```python\nwrong\n```\n")
    with pytest.raises(RunError, match="(?s)own.md: fails.*NameError"):
        gallery.run_example("own", str(tables))


def test_the_examples_are_short():
    for name in gallery.EXAMPLES:
        lines = gallery.read_code(name).splitlines()
        assert len(lines) < 30 and max(map(len, lines)) <= 80, name
