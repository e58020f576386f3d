"""The documents: their commands and their Python run.

Commands run with `tiny` and `sample` put in.
"""

import itertools
import os
import re
import shlex

import pytest

import tf_transfer
from benchmarks import frameworks
from tests.conftest import run_folder, tiny_settings
from tests.support import commands as commands_lib, own_data, pages, quick
from tf_transfer import (
    __main__ as tf_transfer_main,
    cache,
    predict,
    report,
    search,
    sweep,
    train,
)
from tf_transfer.config import command_line
from tf_transfer.freezing import experiment as freezing
from tf_transfer.glue import experiment as glue
from tf_transfer.methods import experiment as methods
from tf_transfer.models import tiny
from tf_transfer.multitask import experiment as multitask
from tf_transfer.reports import summary as summary_lib
from tf_transfer.stacking import experiment as stacking
from tf_transfer.sweeps import grid, subset
from tf_transfer.tweets import experiment as tweets

DOCUMENTS = (
    "README.md",
    "BUILD.md",
    "AGENTS.md",
    "CONTRIBUTING.md",
    "benchmarks/README.md",
    "experiments/prefix_cache/results.md",
    "experiments/search_answers/results.md",
    "experiments/verdicts/results.md",
    *pages.list_pages(),
)
SMALL = (
    "--model=tiny --data=sample --max_epochs=1 --max_length=16 --batch_size=8 "
    "--out=DIR"
)
BLOCKS = 2  # of `tiny`, here
PLACEHOLDERS = {
    "$task": "rte",
    "$seed": "0",
    "$run": "last_2",
    "$k": "1",
    "$SLURM_ARRAY_TASK_ID": "1",
}


def read(name):
    with open(os.path.join(commands_lib.ROOT, name), encoding="utf-8") as file:
        return file.read()


def blocks():
    return re.findall(r"^```bash\n(.*?)^```", read("README.md"), re.M | re.S)


def commands():
    """Every command line of the documents: indented, or in a `bash` block."""
    shell = {}
    for name in DOCUMENTS:
        text = read(name).replace("\\\n", " ")
        for line in re.findall(
            r"^((?: {4}.*)?python -m (?:tf_transfer|benchmarks\.fr).*"
            r"|(?:run=|\$run ).*)$",
            text,
            re.M,
        ):
            line = line.strip()
            if line.startswith("run="):
                shell["$run"] = shlex.split(line)[0].removeprefix("run=")
                continue
            if line.startswith("$run"):
                line = line.replace("$run", shell["$run"])
            yield line


def alike(line):
    """The command without what `small` replaces: one test for many lines."""
    line = re.sub(r"--out=report_\S+", "--out=report", line)
    if "tf_transfer.sweep" in line:
        line = re.sub(r"(tf_transfer.sweep) \S+", r"\1 GRID", line)
        line = re.sub(r" --(?:dry_run|out=\S+)", "", line)
        line = re.sub(r"--only=\S+", "--only=seed=0", line)
    line = re.sub(r"(tf_transfer.report) \S+", r"\1 runs", line)
    if "tf_transfer.report" in line:
        line = re.sub(r" --out=\S+", "", line)
    return re.sub(r"--document=\S+", "--document=FILE", line)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    settings = tiny_settings(
        tmp_path_factory.mktemp("trained"), max_epochs=1, task="sst2"
    )
    with quick.eagerly(BLOCKS):
        glue.run(settings)
    return settings.out, run_folder(settings)


def small(line, trained, tmp_path):
    """The same command on `tiny` and `sample`, writing below `tmp_path`."""
    for placeholder, value in PLACEHOLDERS.items():
        line = line.replace(placeholder, value)
    _, _, module, *words = shlex.split(line[line.index("python -m") :])
    module = module.rpartition(".")[2]
    if module == "cache":
        return module, [*words, f"--cache_dir={tmp_path}"]
    if module == "glue":
        small = SMALL.replace("DIR", str(tmp_path)).split()
        if re.search("trainable_layers=4|last_4", line):  # more than BLOCKS
            small.append("--trainable_layers=2")
        if "--strategy=mirrored" in words:
            small.append("--cpu_devices=2")
        replaced = {word.partition("=")[0] for word in small}
        kept = [
            word for word in words if word.partition("=")[0] not in replaced
        ]
        return module, [*kept, *small]
    if module == "report":
        document = tmp_path / "results.md"
        document.write_text(f"{report.BEGIN}\n{report.END}\n")
        words = [
            f"--document={document}" if "--document" in word else word
            for word in words[1:]
        ]
        if "--archive=study.zip" in words:
            words.remove("--archive=study.zip")
            words.append(f"--archive={tmp_path / 'study.zip'}")
        if "other_machine/report/summary.json" in words:
            other = summary_lib.summarize_folder(trained[0])
            path = tmp_path / "other.json"
            path.write_text(summary_lib.to_json(other))
            words[words.index("other_machine/report/summary.json")] = str(path)
        return module, [trained[0], *words, f"--out={tmp_path}"]
    if module == "multitask" and "--tasks=a.toml,b.toml,sst2" in words:
        paths = [own_data.write_task(tmp_path, name) for name in "ab"]
        words.remove("--tasks=a.toml,b.toml,sst2")
        return module, [*words, f"--tasks={','.join(paths)},sst2"]
    if module in (
        "freezing",
        "frameworks",
        "methods",
        "multitask",
        "search",
        "stacking",
        "train",
        "tweets",
    ):
        return module, words
    if module == "sweep":  # tests/sweep_test.py runs them
        grid = tmp_path / "grid.json"
        grid.write_text(
            '{"experiment": "glue",'
            ' "flags": {"model": "tiny", "data": "sample"},'
            ' "axes": {"lr": [0.001]}}'
        )
        rest = [word for word in words[1:] if word != "--dry_run"]
        return module, [str(grid), "--dry_run", f"--out={tmp_path}", *rest]
    (tmp_path / "texts.tsv").write_text("sentence\nA film to remember.\n")
    (tmp_path / "labelled.tsv").write_text("sentence\tlabel\nA film.\t1\n")
    replaced = {
        "--run=DIR": f"--run={trained[1]}",
        "--input=labelled.tsv": f"--input={tmp_path / 'labelled.tsv'}",
        "--input=texts.tsv": f"--input={tmp_path / 'texts.tsv'}",
        "--output=answers.csv": f"--output={tmp_path / 'answers.csv'}",
        "--export=served": f"--export={tmp_path / 'served'}",
        "--export=exported": f"--export={tmp_path / 'exported'}",
    }
    return module, [replaced.get(word, word) for word in words]


def run_here(module, words):
    """Runs a command in this process, as its module would."""
    parsed = {  # their own tests run them
        "freezing": freezing.Settings,
        "frameworks": frameworks.FrameworkSettings,
        "methods": methods.Settings,
        "multitask": multitask.Settings,
        "search": search.Settings,
        "stacking": stacking.Settings,
        "train": train.Settings,
        "tweets": tweets.Settings,
    }
    if module == "predict" and "--task=sentiment" in words:  # as predict_test
        with commands_lib.flags_of(predict.Settings, *words):
            return 0
    if module == "search":  # by default named after the task, read of its file
        words = [*words, "--out=searches"]
    if module in parsed:
        command_line.parse(parsed[module], words).resolve()
        return 0
    if module in ("report", "sweep"):
        tool = {"report": report, "sweep": sweep}[module]
        named = [word for word in words if not word.startswith("--")]
        given = [word for word in words if word.startswith("--")]
        return commands_lib.call(
            lambda: tool.main([module, *named]), tool.Settings, *given
        )
    main, define = {
        "glue": (commands_lib.run_glue, commands_lib.define_glue),
        "cache": (cache.main, cache.Settings),
        "predict": (predict.main, predict.Settings),
    }[module]
    return commands_lib.call(main, define, *words)


def is_quick(line):
    """Whether it trains and exports nothing; of those that do, one is."""
    if "tf_transfer.glue" in line and "--describe" not in line:
        return line.endswith("--trainable_layers=2 --lr=1e-3")
    return "--export" not in line


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(line, marks=() if is_quick(line) else pytest.mark.slow)
        for line in sorted({alike(line) for line in commands()})
    ],
)
def test_a_documented_command_runs(line, trained, tmp_path, monkeypatch, eager):
    module, words = small(line, trained, tmp_path)
    monkeypatch.chdir(commands_lib.ROOT)
    monkeypatch.setattr(tiny, "BLOCKS", BLOCKS)
    if "--cpu_devices=2" in words:  # this process has its devices already
        code, _, err = commands_lib.finish(commands_lib.start(module, *words))
        assert code == 0, err
    else:
        assert run_here(module, words) == 0


def test_what_a_sweep_is_held_to_stands_in_its_grid(monkeypatch):
    monkeypatch.chdir(commands_lib.ROOT)
    for line in commands():
        named = re.search(r"tf_transfer.sweep (experiments/\S+)", line)
        only = re.search(r"--only=(\S+)", line)
        if named is None or only is None:
            continue
        runs = grid.expand_all(named[1], "runs")
        assert subset.select_runs(named[1], runs, only[1].split(",")), line


def test_files_that_commands_name_exist():
    for line in commands():
        for path in re.findall(r"(?:experiments|flags)/\S+\.\w+", line):
            assert os.path.isfile(os.path.join(commands_lib.ROOT, path)), line


def test_the_quick_start_has_two_blocks_and_the_second_runs_pytest():
    main, test = blocks()
    assert "tf_transfer.sweep" in main and "tf_transfer.report" in main
    assert test.strip().splitlines()[-1] == "pytest"


def test_every_flag_and_module_that_the_documents_name_exists():
    groups = tf_transfer_main.GROUPS.values()
    defined = {
        field.name
        for command in itertools.chain(*groups)
        for field in command_line.list_flags(
            tf_transfer_main.settings_of(command)
        )
    }
    defined |= {"flagfile", "help", "version"}
    # Of benchmarks, of pytest here, and of Ray and TensorBoard.
    defined |= {
        "baselines",
        "budgets",
        "draws",
        "epochs",
        "examples",
        "probe_texts",
    }
    defined |= {"conll", "list", "mark", "profile", "rounds", "search", "shape"}
    defined |= {"share", "tables"}
    defined |= {"attack", "attack_seed", "fault", "faults", "gpu"}
    defined |= {"run_slow", "only_slow", "address", "head", "logdir"}
    for name in DOCUMENTS:
        text = read(name)
        named = set(re.findall(r"--([a-z][a-z_0-9]*[a-z0-9])", text))
        # Of pip's, uv's and hf's, the part before a hyphen; and MkDocs's.
        others = {"no", "use", "resolution", "extra", "local", "strict"}
        others |= {"generate", "python", "custom", "directory"}
        assert not named - defined - others, name
        for module in re.findall(r"-m ((?:tf_transfer|benchmarks)\.\w+)", text):
            path = os.path.join(commands_lib.ROOT, module.replace(".", "/"))
            files = (f"{path}.py", f"{path}/__main__.py")
            assert any(map(os.path.isfile, files)), module


@pytest.mark.slow
def test_the_python_of_the_documents_runs(tmp_path, eager, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "mlruns").as_uri())
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    blocks = re.findall(
        r"^```python\n(.*?)^```", read("docs/guides/python.md"), re.M | re.S
    )
    small = {
        "model": "tiny",
        "data": "sample",
        "max_epochs": 1,
        "max_length": 16,
    }
    small |= {"batch_size": 8, "out": str(tmp_path)}
    source = re.sub(
        r"glue\.Settings\((.*?)\)",
        r"glue.Settings(\1, **small)",
        "".join(blocks),
    )
    source = source.replace('budget="1m"', 'budget="10m"')  # on a busy machine
    names = {"small": small}
    monkeypatch.chdir(tmp_path)  # a search writes to the current folder
    exec(source, names)
    [logged] = mlflow.search_runs(output_format="list")
    assert logged.info.run_name == names["result"].directory
    assert logged.data.params["trainable_layers"] == "all"
    metric = names["result"].record["metric"]
    score = names["result"].scores["validation"][metric]
    assert logged.data.metrics[f"validation.{metric}"] == score


def test_the_grids_of_the_documents_are_some(tmp_path, monkeypatch):
    """Six pairs of blocks and rate; a search of those of two tasks."""
    texts = re.findall(
        r"^```json\n(.*?)^```", read("docs/guides/sweeps.md"), re.M | re.S
    )
    monkeypatch.chdir(tmp_path)
    for name in ("tickets", "reviews"):
        own_data.write_task(tmp_path, name)
    counts = []
    for text in texts:
        (tmp_path / "mine.json").write_text(text)
        runs = grid.expand_all("mine.json", str(tmp_path))
        assert all(run.directory.key for run in runs)
        counts.append((len(runs), sum(bool(run.searched) for run in runs)))
    assert counts == [(6 * 3, 0), (12 * 3, 12 * 2)]


def test_the_citation_names_this_version():
    lines = read("CITATION.cff").splitlines()
    assert f"version: {tf_transfer.__version__}" in lines
