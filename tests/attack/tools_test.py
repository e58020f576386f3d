"""The tools with hostile flags: an answer in two lines, no traceback."""

import contextlib
import functools

from absl import flags

from tests.attack import damage, files_test
from tests.attack.commands_test import (
    assert_two_lines,
    call,
    no_tensorflow,
    VALUES,
)
from tests.support import commands
from tf_transfer import cache, predict, report, sweep

FIXTURES = (no_tensorflow,)


def test_hostile_flags_of_predict_get_an_answer(
    attempts, rng, tmp_path, monkeypatch
):
    """On folders that are no runs."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run").mkdir()
    names = ("text", "input", "task", "output", "experiment", "run")
    for _ in range(attempts(500)):
        for file in ("config.json", "result.json"):
            (tmp_path / "run" / file).write_text(rng.choice(damage.TEXTS))
        words = ["--run=run"]
        for flag in rng.sample(names, 2):
            words.append(f"--{flag}={rng.choice(VALUES)}")
        with contextlib.suppress(UnicodeEncodeError):
            code, printed = call(predict.main, predict.Settings, *words)
            assert_two_lines(code, printed, words)


def test_one_hostile_flag_of_a_tool_gets_an_answer(
    attempts, rng, tmp_path, monkeypatch
):
    """The other flags are valid, so that some commands do their work."""
    monkeypatch.chdir(tmp_path)
    for seed in (0, 1):
        files_test.write_run(tmp_path / "runs", seed)
    grid = tmp_path / "grid.json"
    grid.write_text('{"experiment": "glue", "flags": {"model": "tiny"}}')
    cache_folder = f"--cache_dir={tmp_path / 'cache'}"
    tools = {
        "report": (report, ["report", str(tmp_path / "runs")], []),
        "sweep": (sweep, ["sweep", str(grid)], ["--dry_run"]),
        "cache": (cache, [], [cache_folder]),
    }
    for module, arguments, words in tools.values():
        main = functools.partial(module.main, *[arguments] * bool(arguments))
        code, printed = call(main, module.Settings, *words)
        assert code not in (1, 2), printed
    worked = 0
    before = {*flags.FLAGS}
    for _ in range(attempts(400)):
        name = rng.choice(sorted(tools))
        module, arguments, words = tools[name]
        with commands.flags_of(module.Settings):
            names = {*flags.FLAGS} - before - {"out", "output", "cache_dir"}
        hostile = f"--{rng.choice(sorted(names))}={rng.choice(VALUES)}"
        main = functools.partial(module.main, *[arguments] * bool(arguments))
        with contextlib.suppress(UnicodeEncodeError, flags.Error):
            code, printed = call(main, module.Settings, *words, hostile)
            assert_two_lines(code, printed, (name, hostile))
            worked += code not in (1, 2)
    assert worked
