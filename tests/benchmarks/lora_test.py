"""The benchmark of LoRA measures what it says, and its table shows it."""

import dataclasses
import json
import mmap
import os
import time

import pytest
import tensorflow as tf

from benchmarks import documents, hugging_face, lora
from tests.support import commands
from tf_transfer.models import freezing
from tf_transfer.models.cost import Shape
from tf_transfer.models.methods.lora import LoRA
from tf_transfer.utils.errors import UserError

SHAPE = Shape(blocks=3, hidden=8, heads=2, inner=32)
RESULT = {
    "settings": {
        "shape": "",
        "model": "minilm",
        "task": "rte",
        "batch_size": 16,
    },
    "versions": {"tensorflow": "2.21", "torch": "2.13"},
    "threads": 2,
    "load": 1.0,
    "examples": 256,
    "cache": {"build_seconds": 20.0, "bytes": 5e6},
    "contestants": [
        {
            "name": name,
            "parameters": 12345,
            "seconds": seconds,
            "memory": {
                "measured": 90_000_000,
                "optimizer": 30_000_000,
                "activations": 50_000_000,
            },
        }
        for name, seconds in (("a", [4.0, 6.0, 5.0]), ("b", [2.0, 2.5, 3.0]))
    ],
}


def settings(**changes):
    return lora.LoraSettings(
        **{
            "data": "sample",
            "model": "tiny",
            "max_length": 16,
            "batch_size": 4,
            "examples": 8,
            "rounds": 1,
            "trainable_layers": "1",
            **changes,
        }
    )


def activations(layers, method=freezing.FULL, cls_only=False):
    trainable = freezing.parse(layers, "", SHAPE.blocks, method)
    return lora.count_activation_bytes(SHAPE, trainable, 4, 10, cls_only)


def test_activations_are_those_of_the_paper_in_float32():
    """Its 34 sbh + 5 a s^2 b: two bytes a number there, masks of one."""
    numbers, masks = (34 - 2) / 2, 2
    scores, score_masks = (5 - 1) / 2, 1
    block = (4 * numbers + masks) * 4 * 10 * 8
    block += (4 * scores + score_masks) * 2 * 10 * 10 * 4
    assert activations("1") == block
    assert activations("3") == 3 * block
    assert activations("all") == 3 * block + 5 * 4 * 10 * 8  # embeddings


def test_lora_keeps_no_inputs_of_layers_that_do_not_train():
    spared = 4 * (8 + 8 + 32) * 4 * 10  # attention's output, feed-forward
    assert activations("2", LoRA()) == activations("2") - 2 * spared
    assert activations("2", LoRA(targets="all")) == activations("2")
    assert activations("all", LoRA()) == activations("3") - 3 * spared


def test_a_top_block_at_cls_alone_keeps_its_input_and_little_else():
    whole, short = activations("2"), activations("2", cls_only=True)
    states = 4 * 4 * 10 * 8
    assert whole / 2 + states < short < whole / 2 + 4 * states


def test_samples_see_memory_that_is_taken_for_a_while():
    before = lora.machine.own_memory()
    if before is None:
        pytest.skip("the system does not tell it")
    # A mapping of its own: an array may reuse what this process has freed.
    with (
        lora.sampled_memory() as samples,
        mmap.mmap(-1, 2**25, flags=mmap.MAP_PRIVATE) as taken,
    ):
        for page in range(0, 2**25, mmap.PAGESIZE):
            taken[page] = 1
        count = len(samples)
        while len(samples) < count + 2:  # the first may be of before
            time.sleep(0.001)
    assert max(samples) - before > 0.9 * 2**25
    assert lora.machine.own_memory() - before < 2**24


def test_a_process_of_its_own_gives_large_blocks_back(monkeypatch):
    name = "MALLOC_MMAP_THRESHOLD_"
    monkeypatch.setenv(name, "")  # and what is set is undone
    assert lora._call_in_process(os.getenv, name) == str(lora.LARGE_BLOCK)


def test_each_contestant_trains_what_its_name_says():
    ours = [contestant.settings(settings()) for contestant in lora.CONTESTANTS]
    assert [one.approach for one in ours] == [
        "last_1",
        "last_1_lora8",
        "all_lora8",
        "fine_tuning",
        "all_lora8",
        "fine_tuning",
    ]
    assert lora.CONTESTANTS[lora.REFERENCE].method == "lora"


@pytest.mark.slow
def test_all_are_measured(monkeypatch):
    monkeypatch.setattr(
        lora, "_call_in_process", lambda call, *rest: call(*rest)
    )
    result = json.loads(json.dumps(lora.measure(settings())))
    assert result["examples"] == 8 and result["cache"]["bytes"] > 0
    rows = result["contestants"]
    assert len(rows) == (6 if hugging_face.is_installed() else 4)
    full, last, every, all_ = (one["parameters"] for one in rows[:4])
    assert last < full < all_ and last < every < full
    for one in rows:
        memory = one["memory"]
        assert len(one["seconds"]) == 1 and one["seconds"][0] > 0
        assert memory["optimizer"] == 12 * one["parameters"]
        assert memory["activations"] > 0
    assert lora.make_table(result).count("\n| ") == len(rows) + 1


def test_the_table_has_times_of_the_second_row_and_theoretical_memory():
    _, _, first, second, _, caption = lora.make_table(RESULT).splitlines()
    assert first == "| a | 12,345 | 5.00 (4.00 to 6.00) | 2.0 | 90 | 30 + 50 |"
    assert second.split(" | ")[2:4] == ["2.50 (2.00 to 3.00)", "1.0"]
    assert "minilm, rte, 256 examples, batch 16, 2 threads" in caption
    assert "tensorflow 2.21, torch 2.13." in caption
    assert "20.0 s once, and 5.0 MB" in caption


def test_the_command_fills_the_document_it_is_given(tmp_path):
    (tmp_path / "lora").mkdir()
    (tmp_path / "lora/measured.json").write_text(json.dumps(RESULT))
    path = tmp_path / "methods.md"
    with open(os.path.join(commands.ROOT, "docs/guides/methods.md")) as file:
        path.write_text(file.read())
    code = commands.call(
        lora.main,
        lambda: lora.command_line.define_flags(lora.LoraSettings, "lora"),
        f"--out={tmp_path}",
        f"--document={path}",
    )
    assert code == 0 and lora.make_table(RESULT) in path.read_text()


def test_a_measurement_is_kept_below_a_folder_that_it_makes(tmp_path, capsys):
    out = str(tmp_path / "runs" / "lora")
    documents.measure_or_fill(
        lambda out: RESULT, lora.make_table, out, "", lora.MARK
    )
    with open(os.path.join(out, "measured.json")) as file:
        assert json.load(file) == RESULT
    assert lora.make_table(RESULT) in capsys.readouterr().out


def test_more_blocks_than_numbers_are_refused_before_anything_is_measured():
    with pytest.raises(UserError, match="--trainable_layers"):
        lora.measure(dataclasses.replace(settings(), trainable_layers="two"))


def test_memory_is_not_measured_where_a_gpu_computes(monkeypatch):
    monkeypatch.setattr(
        tf.config, "list_physical_devices", lambda kind=None: ["GPU:0"]
    )
    with pytest.raises(UserError, match="CUDA_VISIBLE_DEVICES="):
        lora.measure_memory(settings(), lora.CONTESTANTS[0])
