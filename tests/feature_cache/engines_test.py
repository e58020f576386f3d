"""OpenVINO computes what TensorFlow does, or TensorFlow runs the pass."""

import importlib.metadata
import socket
import sys

import numpy as np
import pytest

from tests.conftest import tiny_settings
from tests.feature_cache import small
from tests.feature_cache.small import attach, entries
from tests.models import encoders
from tests.support import own_data
from tf_transfer import experiment, train
from tf_transfer.baselines import probe
from tf_transfer.feature_cache import engines
from tf_transfer.models.prefix import FrozenPrefix
from tf_transfer.runs import trained
from tf_transfer.utils import machine
from tf_transfer.utils.errors import UserError

openvino = pytest.importorskip("openvino")
TOKENS = FrozenPrefix(1, "tokens", "float16")
LINE = "TensorFlow runs the frozen blocks."


@pytest.fixture(autouse=True)
def installed(monkeypatch):
    """Other tests run without OpenVINO, since compiling takes seconds."""
    version = importlib.metadata.version("openvino")
    monkeypatch.setitem(machine.versions(), "openvino", version)


def skip_without_bfloat16(precision):
    capabilities = openvino.Core().get_property(
        "CPU", "OPTIMIZATION_CAPABILITIES"
    )
    if precision == "bfloat16" and "BF16" not in capabilities:
        pytest.skip("this processor has no bfloat16")


def measure_error(found, expected):
    """The largest relative error of the states of any text."""
    return max(
        np.linalg.norm(np.float32(one) - np.float32(other))
        / np.linalg.norm(np.float32(other))
        for one, other in zip(found.states, expected.states, strict=True)
    )


# === The same states ===


@pytest.mark.parametrize(
    "output, dtype, precision",
    [
        # Each output, and each precision, once; compiling takes a second
        ("tokens", "float16", "float32"),
        ("cls", "bfloat16", "bfloat16"),
        ("pooled_blocks", "float32", "float32"),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (
                ("tokens", "float16", "bfloat16"),
                ("cls", "bfloat16", "float32"),
                ("pooled_blocks", "float32", "bfloat16"),
            )
        ),
    ],
)
def test_its_states_are_those_of_tensorflow(output, dtype, precision, tmp_path):
    skip_without_bfloat16(precision)
    prefix = FrozenPrefix(2, output, dtype)
    expected = attach(tmp_path / "tensorflow", prefix)
    found = attach(
        tmp_path / "openvino",
        prefix,
        engine="openvino",
        engine_precision=precision,
    )
    assert found.builds == [] and found.engine == ("openvino", precision)
    assert measure_error(found, expected) < engines.BOUNDS[precision]
    # Rounded to the dtype of the cache: the files have the same size.
    [[one], [other]] = map(
        entries, (tmp_path / "tensorflow", tmp_path / "openvino")
    )
    assert one.num_bytes == pytest.approx(other.num_bytes, abs=200)


@pytest.mark.slow  # compiles with OpenVINO
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_text_hardly_depends_on_its_batch(precision, tmp_path, monkeypatch):
    skip_without_bfloat16(precision)
    options = {"engine": "openvino", "engine_precision": precision}
    again = attach(tmp_path / "again", TOKENS, **options)
    compiled, compile_blocks = [], engines._compile

    def compile_once(*arguments):  # not three times more: it takes a second
        if not compiled:
            compiled.append(compile_blocks(*arguments))
        return compiled[0]

    monkeypatch.setattr(engines, "_compile", compile_once)
    whole = attach(tmp_path / "whole", TOKENS, **options)
    few = {"train": small.split("train").take(np.arange(3))}
    attach(tmp_path / "parts", TOKENS, few, **options)
    parts = attach(tmp_path / "parts", TOKENS, **options)
    assert measure_error(parts, whole) < engines.BOUNDS[precision]
    small.assert_same_states(again, whole)


@pytest.mark.parametrize("family", encoders.FAMILIES)
def test_it_runs_both_families_and_every_cut_in_one_pass(family, tmp_path):
    encoder = encoders.shared(family)
    batch = encoders.batch_of(encoder, encoders.PAIRS)
    dataset = small.tf.data.Dataset.from_tensors(batch)
    prefixes = [FrozenPrefix(cut, "tokens", "float32") for cut in (2, 0, 1)]
    [found] = engines.run_openvino(encoder, prefixes, dataset, "float32")
    [expected] = engines.run_tensorflow(
        encoder, prefixes, dataset, "float32", small.OneDevice()
    )
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


@pytest.mark.slow  # compiles with OpenVINO
def test_the_precision_of_a_network_does_not_change_a_pass(tmp_path):
    options = {"engine": "openvino", "engine_precision": "float32"}
    half = small.encoder(precision="mixed_bfloat16")
    built = attach(tmp_path, TOKENS, **options)
    attach(tmp_path, TOKENS, encoder_used=half, **options)
    assert len(entries(tmp_path)) == 1  # the other one found all
    for engine in ("openvino", "tensorflow"):
        options["engine"] = engine
        found = attach(tmp_path / engine, TOKENS, encoder_used=half, **options)
        assert measure_error(found, built) < engines.BOUNDS["float32"]


def test_it_keeps_its_weights_when_the_encoder_trains():
    encoder = small.encoder(blocks=1)
    batch = encoders.batch_of(encoder, encoders.PAIRS)
    batch = {name: np.asarray(values) for name, values in batch.items()}
    compute = engines.compile_openvino(
        lambda b: [encoder.embed(b["ids"], b["segments"], False)],
        batch,
        "float32",
    )
    before = compute(batch)[0].copy()
    weight = encoder.token_table
    value = weight.numpy()
    weight.assign(value + 1.0)
    try:
        np.testing.assert_array_equal(compute(batch)[0], before)
    finally:
        weight.assign(value)


def test_a_value_that_does_not_fit_is_an_error(tmp_path):
    class Overflowing(FrozenPrefix):
        def select(self, states, mask):
            return 1e5 * super().select(states, mask)

    prefix = Overflowing(1, "tokens", "float16")
    with pytest.raises(UserError, match="too large for float16"):
        attach(tmp_path, prefix, engine="openvino")


# === What makes it unusable ===


def attach_without(folder, capsys, reason):
    """Attaches as a run does, and checks that TensorFlow did the pass."""
    found = attach(folder, TOKENS, engine="openvino")
    printed = capsys.readouterr().out
    assert f"{reason}" in printed and printed.count(LINE) == 1
    assert found.builds and found.engine == ("tensorflow", "float32")
    # A run that asks for TensorFlow reads the same entry.
    assert attach(folder, TOKENS).builds == []


def test_a_broken_installation_is_reported(tmp_path, monkeypatch, capsys):
    def fail(name):
        raise ImportError("libopenvino.so: cannot open shared object file")

    monkeypatch.setattr(engines.importlib, "import_module", fail)
    attach_without(tmp_path, capsys, "libopenvino.so: cannot open")


def test_blocks_that_do_not_convert_are_reported(tmp_path, monkeypatch, capsys):
    def fail(function, **options):
        raise RuntimeError("No conversion rule\nwith a long list")

    monkeypatch.setattr(openvino, "convert_model", fail)
    attach_without(tmp_path, capsys, "OpenVINO fails (No conversion rule).")


def test_states_that_differ_are_not_used(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(engines.BOUNDS, "float32", 0.0)
    attach_without(tmp_path, capsys, "differ from TensorFlow's by")


def test_a_processor_without_bfloat16_is_reported(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(
        openvino.Core, "get_property", lambda *arguments: ["FP32"]
    )
    found = attach(
        tmp_path, TOKENS, engine="openvino", engine_precision="bfloat16"
    )
    assert "this processor has no bfloat16" in capsys.readouterr().out
    assert found.engine == ("tensorflow", "float32")


def test_nothing_is_sent(tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "openvino_telemetry")
    tried = []

    def refuse(*arguments, **options):
        tried.append(arguments)
        raise OSError("no network")

    for name in ("getaddrinfo", "create_connection"):
        monkeypatch.setattr(socket, name, refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    attach(tmp_path, TOKENS, engine="openvino")
    assert tried == []
    assert not hasattr(sys.modules["openvino_telemetry"], "Telemetry")


# === What the settings ask for ===


def settings_of(tmp_path, **changes):
    changes = {"frozen_prefix": "cached", "trainable_layers": "1", **changes}
    return tiny_settings(tmp_path, **changes).resolve()


@pytest.mark.parametrize(
    "version, features, changes, expected",
    [
        (None, "avx512_bf16", {}, ("tensorflow", "float32")),
        ("1", "avx2", {}, ("openvino", "float32")),
        ("1", "avx2 avx512_bf16", {}, ("openvino", "bfloat16")),
        (
            "1",
            "avx2",
            {"precision": "mixed_bfloat16"},
            ("openvino", "float32"),
        ),
        (
            None,
            "avx2",
            {"precision": "mixed_bfloat16"},
            ("tensorflow", "bfloat16"),
        ),
        (
            "1",
            "amx_bf16",
            {"prefix_engine": "tensorflow"},
            ("tensorflow", "float32"),
        ),
        (
            "1",
            "amx_bf16",
            {"prefix_precision": "float32"},
            ("openvino", "float32"),
        ),
        (
            "1",
            "avx2",
            {"prefix_precision": "bfloat16"},
            ("openvino", "bfloat16"),
        ),
    ],
)
def test_auto_follows_installation_and_processor(
    version, features, changes, expected, tmp_path, monkeypatch
):
    monkeypatch.setitem(machine.versions(), "openvino", version)
    path = tmp_path / "cpuinfo"
    path.write_text(f"processor : 0\nflags : fpu {features}\n")
    has_bfloat16 = machine.has_bfloat16(str(path))
    monkeypatch.setattr(machine, "has_bfloat16", lambda: has_bfloat16)
    settings = settings_of(tmp_path, **changes)
    assert (settings.pass_engine, settings.pass_precision) == expected
    hashed = settings.hashed()
    assert (hashed["prefix_engine"], hashed["prefix_precision"]) == expected


def test_a_live_run_has_no_engine(tmp_path):
    hashed = settings_of(tmp_path, frozen_prefix="live").hashed()
    assert not {"prefix_engine", "prefix_precision"} & {*hashed}


@pytest.mark.slow  # compiles with OpenVINO
def test_a_probe_predicts_by_its_engine_and_without_it(tmp_path, monkeypatch):
    """The logits are those that the run stored."""
    monkeypatch.setattr(trained, "FEWEST_COMPILED", 1)
    # How the probe chooses does not matter here.
    monkeypatch.setattr(probe, "REPEATS", 1)
    monkeypatch.setattr(probe, "STRENGTHS", (1e-3, 0.1))
    # As many as a probe needs to read words too.
    path = own_data.write_task(tmp_path, "news", own_data.news(150))
    result = train.run(
        train.Settings(
            task=path,
            model="tiny",
            features="frozen",
            max_length=24,
            cache_dtype="float32",
            cache_dir=str(tmp_path / "cache"),
            prefix_engine="openvino",
            prefix_precision="float32",
            out=str(tmp_path / "runs"),
        )
    )
    assert result.record["prefix_engine"] == "openvino float32"
    texts = ["match goal team", "bank rate", "rocket moon star orbit"]
    compiled = []
    compile_openvino = engines.compile_openvino

    def compile_once(*arguments):
        compiled.append(arguments)
        return compile_openvino(*arguments)

    monkeypatch.setattr(engines, "compile_openvino", compile_once)
    answers = experiment.open_run(result.directory).predictor().answer(texts)
    assert len(compiled) == 1
    monkeypatch.setitem(machine.versions(), "openvino", None)
    again = experiment.open_run(result.directory).predictor().answer(texts)
    assert len(compiled) == 1
    for (label, score), (other, expected) in zip(answers, again, strict=True):
        assert label == other and score == pytest.approx(expected, abs=1e-5)


def test_without_openvino_its_flag_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setitem(machine.versions(), "openvino", None)
    with pytest.raises(UserError, match="--prefix_engine=openvino: .*pip"):
        settings_of(tmp_path, prefix_engine="openvino")
