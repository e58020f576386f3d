"""The notebook of the documents: its cells run, its outputs are presentable."""

import json
import os
import re

import pytest

from tests.support import commands


@pytest.fixture(scope="module")
def cells():
    path = os.path.join(commands.ROOT, "docs/gallery/own_task.ipynb")
    with open(path, encoding="utf-8") as file:
        notebook = json.load(file)
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


@pytest.mark.slow
@pytest.mark.usefixtures("eager")
def test_the_cells_run_from_a_data_frame_to_an_export(
    cells, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    source = "\n".join("".join(cell["source"]) for cell in cells)
    small = source.replace('"minilm", "rotten_tomatoes"', '"tiny", "sample"')
    assert small != source
    names = {}
    exec(small, names)
    assert len(names["frame"]) == 32
    assert names["profile"]["block"].tolist() == [0, 1, 2, 3]
    assert (tmp_path / "exported" / "README.md").is_file()


def test_the_stored_outputs_have_no_errors_and_no_paths(cells):
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert len(outputs) >= 5
    kinds = {output["output_type"] for output in outputs}
    assert kinds <= {"stream", "execute_result", "display_data"}
    assert not re.search("/(tmp|root|home)/", json.dumps(outputs))
