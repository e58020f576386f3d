"""The scripts for completion, in the shells themselves."""

import re
import shutil
import subprocess
import sys

import pytest

import tf_transfer.__main__ as main
from tests.support import commands
from tf_transfer.config import command_line, completion
from tf_transfer.utils.errors import UserError

ASK = """
source "$1"
COMP_LINE=$2 COMP_POINT=${#2} COMP_WORDS=($2) COMP_CWORD=$3
_tf_transfer 2>/dev/null
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    path = tmp_path_factory.mktemp("completion") / "script"
    path.write_text(main.complete(["bash"]))
    return path


@pytest.mark.parametrize(
    "line, number, expected",
    [
        ("tf-transfer tr", 1, {"train"}),
        ("tf-transfer train --trainable", 2, {"--trainable_layers="}),
        ("tf-transfer train --det", 2, {"--deterministic"}),
        ("tf-transfer train --nodet", 2, {"--nodeterministic"}),
        ("tf-transfer train --frozen_prefix=", 4, {"live", "cached"}),
        ("tf-transfer glue --seed=1 --select=b", 6, {"best"}),
        ("tf-transfer predict --te", 2, {"--text="}),
        ("tf-transfer predict --format=k", 4, {"keras_preset"}),
        ("tf-transfer report --ma", 2, {"--margin="}),
        ("tf-transfer cache --c", 2, {"--cache_dir=", "--check", "--clear"}),
        ("tf-transfer sweep setup", 2, {""}),  # a file, by bash itself
        ("tf-transfer sweep --out=setup.c", 4, {"setup.cfg"}),
    ],
)
def test_bash_completes(line, number, expected, script):
    done = subprocess.run(
        ["bash", "-c", ASK, "bash", script, line, str(number)],
        capture_output=True,
        text=True,
        check=True,
        cwd=commands.ROOT,
    )
    assert {*done.stdout.splitlines()} == expected


@pytest.mark.parametrize("shell", completion.SHELLS)
def test_a_script_has_every_flag_of_every_command(shell, tmp_path):
    text = main.complete([shell])
    for names in main.GROUPS.values():
        for name in names:
            [line] = [
                line
                for line in text.splitlines()
                if line.lstrip().startswith(f"{name}) ")
            ]
            words = re.split('[="; ]+', line)
            for field in command_line.list_flags(main.settings_of(name)):
                assert f"--{field.name}" in words
    path = tmp_path / "script"
    path.write_text(text)
    if shutil.which(shell):
        subprocess.run([shell, "-n", path], check=True)


@pytest.mark.parametrize("words", [[], ["fish"], ["bash", "zsh"]])
def test_another_shell_is_refused(words):
    with pytest.raises(UserError, match="give bash or zsh"):
        main.complete(words)


def test_the_version_and_the_script_load_no_tensorflow():
    program = (
        "import sys; sys.argv[1:] = {}; from tf_transfer import __main__; "
        "__main__.run(); assert 'tensorflow' not in sys.modules"
    )
    for words, first in (
        (["--version"], f"tf-transfer {main.__version__}"),
        (["completion", "zsh"], "#compdef tf-transfer"),
    ):
        done = subprocess.run(
            [sys.executable, "-c", program.format(words)],
            capture_output=True,
            text=True,
            check=True,
            cwd=commands.ROOT,
        )
        assert done.stdout.splitlines()[0] == first
