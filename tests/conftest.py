"""Shared by all tests: tiny runs, offline, in a few seconds."""

import contextlib
import dataclasses
import gc
import os
import random
import shutil
import sys
import types

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import pytest

gc.disable()  # until all is imported: it takes a fifth of the import
# OpenVINO, imported by itself, starts a process for each statistic it sends.
sys.modules["openvino_telemetry"] = types.ModuleType("openvino_telemetry")

SHARED = os.path.join(
    os.path.dirname(__file__), os.pardir, os.pardir, "shared", "data"
)


MEMORY = "/dev/shm"  # a disk in the machine's memory
LEAST_MEMORY = 1 << 32  # bytes, free, of which the tests need a few hundred MB
# Kept by `running_eagerly`: of tokenizers that are alike the first one, whose
# program is traced, and the ids of texts.
TOKENIZERS, IDS = {}, {}
OPTIONS = (  # of a tokenizer
    *("vocabulary", "added", "merges", "adds_space"),
    *("lowercase", "strips_accents", "splits_chinese", "longest"),
)


def pytest_addoption(parser):
    parser.addoption("--run_slow", action="store_true", help="run slow tests")
    parser.addoption(
        "--only_slow", action="store_true", help="run slow tests alone"
    )
    parser.addoption(
        "--attack",
        action="store_true",
        help="run tests/attack alone, with ten times as many cases",
    )
    parser.addoption(
        "--faults",
        action="store_true",
        help="run tests/faults alone, through all points: a twentieth else",
    )
    parser.addoption("--fault", help="the point of tests/faults to replay")
    parser.addoption(
        "--gpu", action="store_true", help="run the tests of a GPU alone, on it"
    )
    parser.addoption(
        "--attack_seed", type=int, default=0, help="draw other cases"
    )


def runs_slow(config):
    """Whether slow tests run."""
    options = "--run_slow", "--only_slow", "--attack", "--faults", "--fault"
    return any(map(config.getoption, options))


def pytest_configure(config):
    """Of two workers on two cores, each has one; slow tests have them all.

    Only tests of a GPU see one.
    """
    if not config.getoption("--gpu"):
        os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    if config.getoption("--faults") or not runs_slow(config):
        for name in ("TF_NUM_INTRAOP", "OMP_NUM", "OPENBLAS_NUM"):
            os.environ.setdefault(f"{name}_THREADS", "1")
    # All that is written is synced, which a disk takes longer for than most
    # tests compute.
    has_memory = os.access(MEMORY, os.W_OK)
    if has_memory and shutil.disk_usage(MEMORY).free > LEAST_MEMORY:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", MEMORY)


@pytest.fixture(scope="session", autouse=True)
def alike_on_every_machine(tmp_path_factory):
    """Runs of a test know of no others, and have no OpenVINO.

    Whether times are compared depends on the other runs of a machine, and
    OpenVINO compiles for seconds. `tests/feature_cache/engines_test.py` has it,
    as has whatever a test starts in another process.
    """
    from tf_transfer.utils import machine

    proc = str(tmp_path_factory.mktemp("proc"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(machine.versions(), "openvino", None)
        patch.setattr(machine.concurrent_runs, "__defaults__", (proc,))
        yield


def pytest_collection_modifyitems(config, items):
    slow = pytest.mark.skip(reason="slow: give --run_slow")
    gpu = pytest.mark.skip(reason="needs a GPU: give --gpu")
    shared = pytest.mark.skip(reason="needs the data beside the checkout")
    attack = os.path.join(os.path.dirname(__file__), "attack")
    for item in items:
        if str(item.path).startswith(attack):
            item.add_marker("slow")
    if config.getoption("--attack"):
        items[:] = [i for i in items if str(i.path).startswith(attack)]
    fault = config.getoption("--fault")
    if config.getoption("--faults") or fault:
        faults = os.path.join(os.path.dirname(__file__), "faults")
        items[:] = [i for i in items if str(i.path).startswith(faults)]
    if fault:
        scenario = fault.rsplit(":", 2)[0]
        items[:] = [i for i in items if i.name.endswith(f"[{scenario}]")]
    if config.getoption("--only_slow"):
        items[:] = [item for item in items if "slow" in item.keywords]
    if config.getoption("--gpu"):
        items[:] = [item for item in items if "gpu" in item.keywords]
    for item in items:
        if "gpu" in item.keywords and not config.getoption("--gpu"):
            item.add_marker(gpu)
        if "slow" in item.keywords and not runs_slow(config):
            item.add_marker(slow)
        if "shared" in item.keywords and not os.path.isdir(SHARED):
            item.add_marker(shared)


def pytest_collection_finish():
    """Every run collects garbage, but need not search what is loaded by now."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture
def shared_data():
    """Folder of the real data sets."""
    return SHARED


@pytest.fixture(autouse=True)
def no_user_cache(monkeypatch, tmp_path):
    """No test reads or writes the user's cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def attempts(request):
    """Function from the cases of `--attack` to those of this session."""
    share = 1 if request.config.getoption("--attack") else 10
    return lambda count: max(1, count // share)


@pytest.fixture
def rng(request):
    """Draws the cases of a test of `tests/attack`."""
    seed = request.config.getoption("--attack_seed")
    return random.Random(f"{request.node.name} {seed}")


def tiny_settings(out, **changes):
    """GLUE settings of a run that takes seconds."""
    from tf_transfer.glue import experiment as glue

    settings = glue.Settings(
        task="rte",
        data="sample",
        model="tiny",
        batch_size=8,
        max_epochs=2,
        max_length=32,
        lr=1e-3,
        out=str(out),
    )
    return dataclasses.replace(settings, **changes)


@pytest.fixture
def tiny_run(tmp_path):
    """Runs GLUE on `tiny` and `sample`; returns the result and its folder."""
    from tf_transfer.glue import experiment as glue

    def run(**changes):
        settings = tiny_settings(
            changes.pop("out", tmp_path / "runs"), **changes
        )
        return glue.run(settings).record, run_folder(settings)

    return run


def run_folder(settings):
    """The newest run directory of these settings' task and approach."""
    parent = os.path.join(
        settings.out, "glue", settings.task, settings.approach
    )
    folders = [os.path.join(parent, name) for name in os.listdir(parent)]
    return max(folders, key=lambda f: os.stat(f).st_mtime_ns)


@pytest.fixture
def one_block(monkeypatch):
    """A smaller `tiny`: most of the time of a run goes into tracing it."""
    from tf_transfer.models import tiny

    monkeypatch.setattr(tiny, "BLOCKS", 1)


@pytest.fixture
def eager(monkeypatch):
    """Runs eagerly: most of the time of a tiny run goes into tracing it."""
    with running_eagerly(monkeypatch):
        yield


@contextlib.contextmanager
def running_eagerly(monkeypatch):
    """Inside, no step is traced, and no tokenizer for texts known already.

    A probe chooses by fewer fits; `tests/baselines` has all of them.

    Args:
        monkeypatch: undoes it.
    """
    import tensorflow as tf

    from tf_transfer.baselines import probe
    from tf_transfer.models.tokenizer import BytePairs, Tokenizer

    encode = Tokenizer.encode

    def encode_once(self, texts):
        kind = hash(tuple(repr(getattr(self, name, "")) for name in OPTIONS))
        new = [t for t in dict.fromkeys(texts) if (kind, t) not in IDS]
        if new:
            tf.config.run_functions_eagerly(False)  # RoBERTa's needs a graph
            ids = encode(TOKENIZERS.setdefault(kind, self), new)
            tf.config.run_functions_eagerly(True)
            IDS.update({(kind, t): i for t, i in zip(new, ids)})
        return [IDS[kind, text] for text in texts]

    monkeypatch.setattr(Tokenizer, "encode", encode_once)
    monkeypatch.setattr(BytePairs, "EAGER_CALLS", Tokenizer.EAGER_CALLS)
    monkeypatch.setattr(probe, "REPEATS", 1)
    monkeypatch.setattr(probe, "STRENGTHS", (1e-3, 0.1))
    monkeypatch.setattr(probe, "FINALISTS", 1)
    tf.config.run_functions_eagerly(True)
    try:
        yield
    finally:
        tf.config.run_functions_eagerly(False)


@pytest.fixture(scope="session")
def forks():
    """The process that forks, with TensorFlow loaded; see `support.forks`."""
    from tests.support import forks as forks_lib

    with forks_lib.Forks() as server:
        yield server


@pytest.fixture(scope="session")
def light_forks():
    """A process without TensorFlow that forks."""
    from tests.support import forks as forks_lib

    with forks_lib.Forks(loads=False) as server:
        yield server
