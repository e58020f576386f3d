"""The files of the hosted CI run the scripts in `.ci`, and upload nothing."""

import pathlib
import re

import pytest
import yaml

from tests.support import commands

ROOT = pathlib.Path(commands.ROOT)


def read(name):
    path = ROOT / ".github" / "workflows" / name
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def steps(workflow):
    return [s for job in workflow["jobs"].values() for s in job["steps"]]


@pytest.mark.parametrize("name", ["ci.yml", "release.yml"])
def test_every_action_has_a_complete_version(name):
    used = [step["uses"] for step in steps(read(name)) if "uses" in step]
    assert used
    for action in used:
        assert re.fullmatch(r"[\w/-]+@v\d+\.\d+\.\d+", action)


def test_the_parts_of_ci_are_all_those_of_the_script():
    [job] = read("ci.yml")["jobs"].values()
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    titles = re.findall(r'^in_fresh_clone "(.*?)"', script, re.M)
    parts = job["strategy"]["matrix"]["part"]
    assert len(titles) == len(parts) == 4
    for part in parts:
        assert len([title for title in titles if part in title]) == 1


def test_a_release_is_built_by_the_script_and_not_uploaded():
    workflow = read("release.yml")
    build, publish = workflow["jobs"]["build"], workflow["jobs"]["publish"]
    assert {"run": ".ci/release"} in build["steps"]
    assert "vars.PUBLISH == 'true'" in publish["if"]
    assert workflow["permissions"] == {"contents": "read"}
    assert publish["permissions"] == {"id-token": "write"}
    assert not [step for step in steps(workflow) if "password" in str(step)]
