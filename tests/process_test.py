"""The state that a command starts in: descriptors, memory, flag files."""

import codecs
import subprocess
import sys

import pytest

from tests.support import commands
from tests.support.refusals import assert_helpful
from tf_transfer import train
from tf_transfer.config import command_line
from tf_transfer.utils import files
from tf_transfer.utils.errors import UserError

# === Closed descriptors, as cron may have them ===

CHILD = """
import os, sys
names = [os.readlink(f"/proc/self/fd/{number}") for number in range(3)]
open(sys.argv[1], "w").write(" ".join(names))
"""
PARENT = """
import subprocess, sys
from tf_transfer.utils import files
files.open_standard_files()
print("read by nobody", file=sys.stderr, flush=True)
subprocess.run([sys.executable, "-c", *sys.argv[1:]], check=True)
"""


def run_in_shell(redirections, *words):
    """Runs Python's words; code, stdout and stderr."""
    command = ["sh", "-c", f'exec "$0" "$@" {redirections}', sys.executable]
    process = subprocess.run(
        [*command, *words], capture_output=True, text=True, cwd=commands.ROOT
    )
    return process.returncode, process.stdout, process.stderr


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 2), (0, 1, 2)])
def test_what_is_closed_is_the_null_device_for_children_too(closed, tmp_path):
    redirections = "</dev/zero >/dev/zero 2>/dev/zero"
    for number in closed:
        redirections += f" {number}>&-"
    path = tmp_path / "names"
    code, _, _ = run_in_shell(redirections, "-c", PARENT, CHILD, str(path))
    names = path.read_text().split()
    assert code == 0
    for number, name in enumerate(names):
        expected = "/dev/null" if number in closed else "/dev/zero"
        assert name == expected, number


@pytest.mark.parametrize("redirections", ["<&-", ">&-", "2>&-", ">&- 2>&-"])
def test_a_command_with_closed_descriptors_ends_as_usual(redirections):
    words = ["-m", "tf_transfer.predict", "--run=nowhere", "--text=a"]
    code, out, err = run_in_shell(redirections, *words)
    assert (code, out) == (2, "")
    if "2>&-" in redirections:
        assert not err
    else:
        assert_helpful(err)
    code, out, _ = run_in_shell(redirections, "-m", "tf_transfer")
    assert code == 0
    assert bool(out) == (">&-" not in redirections.replace("2>&-", ""))


# === Too little memory ===


@pytest.mark.parametrize(
    "error, reason",
    [
        (MemoryError(), "MemoryError"),
        (ImportError("lib.so: failed to map segment from"), "lib.so: failed"),
        (OSError(12, "Cannot allocate memory"), "Cannot allocate memory"),
        (RuntimeError("in user code:\n\n  std::bad_alloc"), "std::bad_alloc"),
        (RuntimeError("OOM when allocating tensor"), "OOM when"),
    ],
)
def test_too_little_memory_is_a_sentence(error, reason, capsys):
    def fail():
        raise error

    with pytest.raises(SystemExit):
        command_line.exit_on_error(command_line.explain_lack_of_memory(fail))
    message = capsys.readouterr().err
    assert message.startswith("error: not enough memory (")
    assert reason in message and "ulimit -v" in message
    assert len(message.splitlines()) == 1


def test_other_errors_are_no_lack_of_memory():
    def fail():
        raise ImportError("no such module")

    with pytest.raises(ImportError):
        command_line.explain_lack_of_memory(fail)()


def test_a_limit_that_tensorflow_does_not_fit_in(tmp_path):
    words = "--data=sample --task=rte --model=tiny --max_epochs=1".split()
    command = [sys.executable, "-m", "tf_transfer.glue", *words]
    process = subprocess.run(
        ["sh", "-c", 'ulimit -v 300000; exec "$@"', "sh", *command]
        + [f"--out={tmp_path}"],
        capture_output=True,
        text=True,
        cwd=commands.ROOT,
    )
    assert process.returncode == 1
    assert process.stderr.startswith("error: not enough memory (")
    assert len(process.stderr.splitlines()) == 1


def test_a_small_file_is_read_in_little_memory(tmp_path):
    path = tmp_path / "small"
    path.write_bytes(b"12")
    program = """
import resource, sys
from tf_transfer.utils import files
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
print(files.read_bytes(sys.argv[1], 1 << 31))
"""
    _, out, err = run_in_shell("", "-c", program, str(path))
    assert out == "b'12'\n", err
    with pytest.raises(files.NotAFile):
        files.read_bytes(str(path), most=1)


# === Flag files ===


@pytest.mark.parametrize("start", [b"", codecs.BOM_UTF8])
def test_a_byte_order_mark_is_no_part_of_a_flag(start, tmp_path):
    inner, outer = tmp_path / "inner.flags", tmp_path / "outer.flags"
    inner.write_bytes(start + b"--model=tiny\r\n")
    outer.write_bytes(start + b"# ours\n\n  --task=x\n")
    with open(outer, "a") as file:
        file.write(f"--flagfile={inner}\n// the end\n")
    expected = ["--seed=1", "--task=x", "--model=tiny", "--lr=1"]
    for words in ([f"--flagfile={outer}"], ["-flagfile", str(outer)]):
        words = ["--seed=1", *words, "--lr=1"]
        assert command_line.read_flag_files(words) == expected
    settings = command_line.parse(train.Settings, [f"--flagfile={outer}"])
    assert (settings.task, settings.model) == ("x", "tiny")


def test_a_command_reads_a_flag_file_with_a_byte_order_mark(tmp_path):
    path = tmp_path / "my.flags"
    path.write_bytes(codecs.BOM_UTF8 + b"--run=nowhere\n--text=a\n")
    words = ["-m", "tf_transfer.predict", f"--flagfile={path}"]
    _, _, err = run_in_shell("", *words)
    assert "nowhere" in err and "\ufeff" not in err
    path.write_bytes("--run=a".encode("utf-16"))
    with pytest.raises(UserError, match="Not text in UTF-8"):
        command_line.read_flag_files(words[2:])
