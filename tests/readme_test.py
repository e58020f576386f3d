"""The commands in the documents run, with `tiny` and `sample` put in."""

import os
import re
import shlex

import pytest

from tests import commands as commands_lib
from tests.conftest import run_folder
from tests.conftest import tiny_settings
from tf_transfer import benchmark
from tf_transfer import cache
from tf_transfer import ensemble
from tf_transfer import freezing
from tf_transfer import glue
from tf_transfer import multitask
from tf_transfer import predict
from tf_transfer import report
from tf_transfer import stacking
from tf_transfer import sweep
from tf_transfer import tweets
from tf_transfer.config import command_line

DOCUMENTS = (
    "README.md",
    "BUILD.md",
    "experiments/glue/README.md",
    "experiments/prefix_cache/README.md",
    "experiments/freezing/README.md",
    "experiments/multitask/README.md",
    "experiments/stacking/README.md",
    "experiments/tweets/README.md",
)
SMALL = "--model=tiny --data=sample --max_epochs=1 --max_length=16 --out=DIR"
PLACEHOLDERS = {"$task": "rte", "$seed": "0", "$run": "last_2", "$k": "1"}


def read(name):
    with open(os.path.join(commands_lib.ROOT, name), encoding="utf-8") as file:
        return file.read()


def blocks():
    return re.findall(r"^```bash\n(.*?)^```", read("README.md"), re.M | re.S)


def commands():
    """Every `python -m` line of README, BUILD and the experiments."""
    shell = {}
    for name in DOCUMENTS:
        text = read(name).replace("\\\n", " ")
        for line in re.findall(
            r"^(.*python -m tf_transfer.*|\$run .*)$", text, re.M
        ):
            line = line.strip()
            if line.startswith("run="):
                shell["$run"] = shlex.split(line)[0].removeprefix("run=")
                continue
            if line.startswith("$run"):
                line = line.replace("$run", shell["$run"])
            yield line


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    settings = tiny_settings(
        tmp_path_factory.mktemp("trained"), max_epochs=1, task="sst2"
    )
    glue.run(settings)
    return settings.out, run_folder(settings)


def small(line, trained, tmp_path):
    """The same command on `tiny` and `sample`, writing below `tmp_path`."""
    for placeholder, value in PLACEHOLDERS.items():
        line = line.replace(placeholder, value)
    _, _, module, *words = shlex.split(line[line.index("python -m") :])
    module = module.removeprefix("tf_transfer.")
    if module == "cache":
        return module, [*words, f"--cache_dir={tmp_path}"]
    if module == "glue":
        small = SMALL.replace("DIR", str(tmp_path)).split()
        if re.search("trainable_layers=4|last_4", line):  # `tiny` has 3
            small.append("--trainable_layers=2")
        if "--strategy=mirrored" in words:
            small.append("--cpu_devices=2")
        words = [w for w in words if w != "--strategy=multi_worker"]
        return module, [*words, *small]
    if module == "report":
        document = tmp_path / "README.md"
        document.write_text(f"{report.BEGIN}\n{report.END}\n")
        words = [
            f"--document={document}" if "--document" in word else word
            for word in words[1:]
        ]
        return module, [trained[0], f"--out={tmp_path}", *words]
    if module in (
        "freezing",
        "benchmark",
        "ensemble",
        "multitask",
        "stacking",
        "tweets",
    ):
        return module, words
    if module == "sweep":  # tests/sweep_test.py runs them
        grid = tmp_path / "grid.json"
        grid.write_text(
            '{"module": "glue", "flags": {"model": "tiny", "data": "sample"}}'
        )
        rest = [word for word in words[1:] if word != "--dry_run"]
        return module, [str(grid), "--dry_run", f"--out={tmp_path}", *rest]
    (tmp_path / "texts.tsv").write_text("sentence\nA film to remember.\n")
    replaced = {
        "--run=DIR": f"--run={trained[1]}",
        "--input=texts.tsv": f"--input={tmp_path / 'texts.tsv'}",
        "--output=answers.tsv": f"--output={tmp_path / 'answers.tsv'}",
        "--export=saved_model": f"--export={tmp_path / 'saved_model'}",
    }
    return module, [replaced.get(word, word) for word in words]


def run_here(module, words):
    """Runs a command in this process, as its module would."""
    parsed = {  # their own tests run them
        "freezing": freezing.FreezingSettings,
        "benchmark": benchmark.BenchmarkSettings,
        "multitask": multitask.MultitaskSettings,
        "stacking": stacking.StackingSettings,
        "tweets": tweets.TweetsSettings,
    }
    if "--cs224n" in words:  # tests/predict_test.py does
        with commands_lib.flags_of(predict.define_flags, *words):
            return 0
    if module == "ensemble":  # tests/ensemble_test.py does
        with commands_lib.flags_of(ensemble.define_flags, *words):
            return 0
    if module in parsed:
        command_line.parse(parsed[module], words).resolve()
        return 0
    if module in ("report", "sweep"):
        tool = {"report": report, "sweep": sweep}[module]
        return commands_lib.call(
            lambda: tool.main([module, words[0]]), tool.define_flags, *words[1:]
        )
    main, define = {
        "glue": (glue.main, commands_lib.define_glue),
        "cache": (cache.main, cache.define_flags),
        "predict": (predict.main, predict.define_flags),
    }[module]
    return commands_lib.call(main, define, *words)


@pytest.mark.parametrize("line", sorted(set(commands())))
def test_a_documented_command_runs(line, trained, tmp_path, monkeypatch):
    module, words = small(line, trained, tmp_path)
    monkeypatch.chdir(commands_lib.ROOT)
    if "--cpu_devices=2" in words:  # this process has its devices already
        code, _, err = commands_lib.finish(commands_lib.start(module, *words))
        assert code == 0, err
    else:
        assert run_here(module, words) == 0


def test_the_quick_start_has_two_blocks_and_the_second_runs_pytest():
    main, test = blocks()
    assert "tf_transfer.glue" in main and "tf_transfer.report" in main
    assert test.strip().splitlines()[-1] == "pytest"


def test_every_flag_and_module_that_the_documents_name_exists():
    import dataclasses

    known = {
        field.name
        for cls in (
            glue.GlueSettings,
            freezing.FreezingSettings,
            multitask.MultitaskSettings,
            stacking.StackingSettings,
            tweets.TweetsSettings,
        )
        for field in dataclasses.fields(cls)
    }
    known |= {"examples", "rounds", "shape", "profile", "check", "clear"}
    known |= {"dry_run", "jobs", "only", "limit", "retry_failed", "document"}
    known |= {
        "run",
        "text",
        "input",
        "output",
        "glue_test",
        "export",
        "flagfile",
        "help",
        "logdir",
        "run_slow",
        "cs224n",
    }
    for name in DOCUMENTS:
        text = read(name)
        named = set(re.findall(r"--([a-z][a-z_0-9]*[a-z0-9])", text))
        assert named <= known | {"no-deps", "no", "use"}, name
        for module in re.findall(r"-m (tf_transfer\.\w+)", text):
            path = module.replace(".", "/") + ".py"
            assert os.path.isfile(os.path.join(commands_lib.ROOT, path)), module
