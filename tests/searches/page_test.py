"""The page of a search: the answer first, its errors, and safe to open."""

import html
import re
import types

import pytest

from tests.searches import fake_runs
from tf_transfer.searches import answer as answer_lib, controller

MARKUP = ' <script>alert(1)</script> <b title="x">=1+1</b>'


@pytest.fixture(scope="module")
def searched(tmp_path_factory):
    """A search on texts with markup."""
    folder, said = tmp_path_factory.mktemp("search"), []
    path = fake_runs.write_task(folder, ending=MARKUP)
    with pytest.MonkeyPatch.context() as patch:
        fake_runs.put_in(patch, fake_runs.World())
        patch.setattr("builtins.print", lambda *a, **k: said.append(a[0]))
        settings = fake_runs.settings_of(path, folder / "out")
        controller.Search(settings, 0.0).run()
    file = folder / "out" / answer_lib.FILE
    return types.SimpleNamespace(
        file=file, page=file.read_text(), answer=said[-1].strip().splitlines()
    )


def test_the_answer_and_its_commands_come_first(searched):
    text = html.unescape(searched.page)
    first, *others = searched.answer
    predict, more = (
        next(x for x in others if x.startswith(name)).partition(": ")[2]
        for name in (answer_lib.PREDICT, answer_lib.MORE)
    )
    order = [
        f'<p class="headline">{first.partition(". ")[0].rstrip(".")}',
        "<h2>Approaches</h2>",
        f'<code class="command">{predict}</code> <button',
        f'<code class="command">{more}</code>',
        "<h2>Errors</h2>",
    ]
    where = [text.find(piece) for piece in order]
    assert -1 not in where and where == sorted(where)


def test_its_errors_are_those_of_the_answer_by_split(searched):
    confusions = re.search(
        r"Most often: \d+ of \d+ '\w+' are answered",
        " ".join(searched.answer),
    )
    assert confusions
    assert "The answer: errors on test, by label" in searched.page
    assert "The answer: errors on test, the worst texts" in searched.page


def test_the_approaches_are_next_to_the_baselines(searched):
    table = searched.page.partition('id="approaches"')[2].partition("</table>")[
        0
    ]
    rows = [
        re.findall(r"<td[^>]*>(.*?)</td>", row)
        for row in re.findall(r"<tr>(.*?)</tr>", table)
    ]
    names = [row[0] for row in rows if row]
    assert names[0] in searched.answer[0]
    assert {"the TF-IDF baseline", "the probe"} < {*names}
    assert re.fullmatch(r"\d+\.\d <small>\(.* to .*\)</small>", rows[1][1])
    assert re.fullmatch(r"\d+\.\d <small>\(.* to .*\)</small>", rows[1][2])


def test_markup_of_a_text_is_text(searched):
    assert MARKUP not in searched.page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in searched.page
    assert searched.page.count("<script") == 1
    assert "default-src &#39;none&#39;" in searched.page or (
        "default-src 'none'" in searched.page
    )


def test_a_text_is_no_command_of_a_shell(tmp_path, monkeypatch, capsys):
    """A folder of runs may have a blank."""
    fake_runs.put_in(monkeypatch, fake_runs.World())
    path = fake_runs.write_task(tmp_path)
    settings = fake_runs.settings_of(path, tmp_path / "my runs", budget="3m")
    controller.Search(settings, 0.0).run()
    said = capsys.readouterr().out
    assert f"predict '--run={tmp_path}/my runs/" in said
