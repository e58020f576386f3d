"""The claims of each paper: its settings, its figures, its grids."""

import configparser
import glob
import math
import os
import sys

import pytest

from tests.support import commands
from tf_transfer.multitask import experiment as multitask
from tf_transfer.reports import claims, run_frame as runs_lib
from tf_transfer.stacking import experiment as stacking
from tf_transfer.tweets import experiment as tweets
from tf_transfer.utils.errors import UserError

FOLDER = os.path.join(commands.ROOT, "experiments")
DEFAULTS = {
    "tweets": tweets.Settings(data="train.csv"),
    "sparse tweets": tweets.Settings(data="train.csv", features="count"),
    "multitask": multitask.Settings(),
    "ner": stacking.Settings(task="ner"),
    "text": stacking.Settings(task="text"),
    "pairs": stacking.Settings(task="pairs"),
}
EXPERIMENTS = {
    "sparse tweets": "tweets",
    **dict.fromkeys(("ner", "text", "pairs"), "stacking"),
}
# What says which run it is, or changes no number that a paper could have.
OTHERS = {
    *("task", "seed", "min_delta", "test_fraction", "features"),
    *("text_column", "label_column", "head", "adaptation"),
    *("strategy", "cpu_devices", "jit_compile", "deterministic"),
}


def read(experiment):
    return claims.read_paper(claims.find_file(FOLDER, experiment))


@pytest.mark.parametrize("name", DEFAULTS)
def test_a_paper_s_settings_are_its_command_s_defaults(name):
    settings = DEFAULTS[name].resolve()
    paper = read(EXPERIMENTS.get(name, name))
    ours = {**settings.hashed(), "max_epochs": settings.max_epochs}
    theirs = {n: v for n, v in paper.settings.items() if n in ours}
    for setting, value in theirs.items():  # of several, ours is one
        assert claims.is_same(ours[setting], value), setting
    if name != "sparse tweets":
        preset = paper.encoder_of.get(name, paper.encoders[0])
        assert settings.model == preset
    if name == "multitask":  # the dev files validate
        del ours["validation_fraction"], ours["split_seed"]
    assert not set(ours) - set(paper.settings) - OTHERS


@pytest.mark.parametrize("experiment", ["tweets", "multitask", "stacking"])
def test_what_a_claim_asks_for_may_vary_in_a_study(experiment):
    paper = read(experiment)
    varied = {*runs_lib.VARIED, *paper.varied, "max_epochs"}
    for claim in paper.claims:
        for group in (claim.both, *claim.first, *claim.second):
            assert set(group) <= varied, claim.id
        assert set(claim.tasks) <= set(paper.sizes), claim.id
        assert claim.direction or claim.kind == "equal", claim.id
        assert claim.margin_from or claim.kind != "equal", claim.id


def _resolve(paper, *groups):
    return {**paper.settings, **{n: v for g in groups for n, v in g.items()}}


def test_a_difference_is_that_of_the_published_rows():
    """Each side of a claim on the multitask tables is a row of theirs."""
    paper = read("multitask")
    published = claims.read_published(FOLDER, "multitask")
    rows = [
        (_resolve(paper, row["settings"]), row["figures"])
        for table in published["tables"]
        if table["number"] != 8  # of the test set
        for row in table["rows"]
    ]
    checked = 0
    for claim in paper.claims:
        if not claim.published or claim.reading_of:  # of other epochs
            continue
        measure = "overall" if claim.measure[0] == "score" else claim.measure[0]
        column = published["metrics"].index(measure)
        figures = []
        for [group] in (claim.first, claim.second):
            wanted = _resolve(paper, claim.both, group)
            [*found] = {f[column] for s, f in rows if s == wanted}
            assert len(found) == 1, claim.id
            figures.append(found[0])
        theirs = 100 * (figures[0] - figures[1])
        assert math.isclose(claim.published, theirs, abs_tol=0.051), claim.id
        checked += 1
    assert checked == 31


@pytest.mark.parametrize(
    "lines, problem",
    [
        ('kind = "bigger"', "kind is one of"),
        ('kind = "equal"', "`equal` needs a margin"),
        ("second = {}", "`difference` needs `published` or `sign`"),
        ("sign = 1\nrelative = true", "`relative` needs `second`"),
        (
            "sign = 1\npaired = true\nsecond = [{}, {}]",
            "`paired` needs as many `first`",
        ),
    ],
)
def test_an_entry_that_is_wrong_is_refused(lines, problem, tmp_path):
    path = tmp_path / "claims.toml"
    path.write_text(
        'paper = "x"\nencoders = []\nsettings = {}\n[[claim]]\nid = "a"\n'
        f'{lines}\ntext = "so"\n'
        'source = "1"\ntasks = ["rte"]\nfirst = {}\n'
    )
    with pytest.raises(UserError, match=f"a: {problem}"):
        claims.read_paper(str(path))


# === Where settings come from ===


@pytest.mark.parametrize(
    "experiment",
    [*("glue", "tweets", "stacking", "multitask", "freezing", "methods")],
)
def test_each_setting_of_a_paper_has_an_origin(experiment):
    paper = read(experiment)
    names = {*paper.settings, *set().union(*paper.settings_of.values())}
    assert names | {"encoder"} == set(paper.origins)
    assert set(paper.origins.values()) <= set(claims.ORIGINS)
    content = claims.read_content(claims.find_file(FOLDER, experiment))
    assert len(paper.settings) == sum(map(len, content["settings"].values()))


def test_a_setting_without_an_origin_is_refused(tmp_path):
    path = tmp_path / "claims.toml"
    path.write_text('paper = "x"\nencoders = []\n[settings]\nlr = 1\n')
    with pytest.raises(UserError, match="settings: lr is in none of paper"):
        claims.read_paper(str(path))


def test_an_installed_package_finds_what_it_was_installed_with(
    monkeypatch, tmp_path
):
    folder = tmp_path / "share" / "tf_transfer" / "experiments" / "mine"
    folder.mkdir(parents=True)
    (folder / "claims.toml").write_text("")
    assert claims.find_file("nowhere", "mine") is None
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert claims.find_file("nowhere", "mine") == str(folder / "claims.toml")


def test_everything_that_reports_read_is_installed():
    parser = configparser.ConfigParser()
    parser.read(os.path.join(commands.ROOT, "setup.cfg"))
    installed = {
        path
        for patterns in parser["options.data_files"].values()
        for pattern in patterns.split()
        for path in glob.glob(pattern, root_dir=commands.ROOT)
    }
    read = ("claims.toml", "tables.toml", "published.json")
    assert installed == {
        path
        for name in read
        for path in glob.glob(f"experiments/*/{name}", root_dir=commands.ROOT)
    }
