"""JSON of ours has its declared shape, or the file and the field are named."""

import json
import random

import pytest

from tf_transfer.utils import json_files

SHAPE = {
    "name": str,
    "score": (float, None),
    "phases": [{"lr": float, "epochs": int}],
    "sizes": {str: int},
    "note?": str,
    "rest": object,
}
GOOD = {
    "name": "a",
    "score": 1,
    "phases": [{"lr": 0.1, "epochs": 2, "more": 1}],
    "sizes": {"train": 3},
    "rest": [None],
}


def test_what_was_written_is_read(tmp_path):
    path = tmp_path / "a.json"
    path.write_text(json.dumps(GOOD))
    assert json_files.read(str(path), SHAPE) == GOOD


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"name": None}, "name: is None, not a text"),
        ({"score": "x" * 5000}, r"score: is 'x{39} \.\.\., not a number or"),
        ({"score": True}, "score: is True, not a number"),
        ({"phases": {}}, "phases: is {}, not a list"),
        ({"phases": [{"lr": 1}]}, "phases.0.epochs: is missing"),
        ({"phases": [{"lr": 1, "epochs": 1.5}]}, "phases.0.epochs: is 1.5"),
        ({"sizes": {"train": "3"}}, "sizes.train: is '3', not a whole number"),
        ({"note": 1}, "note: is 1"),
    ],
)
def test_another_shape_names_file_and_field(changes, message):
    text = json.dumps({**GOOD, **changes}).encode()
    with pytest.raises(json_files.Damaged, match=rf"a\.json: .*{message}"):
        json_files.parse("a.json", text, SHAPE)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"\xff",
        b'{"name": NaN}',
        b"[" * 100_000,
        b"1" * 5000,
        b"[1e999]",
    ],
)
def test_what_is_no_json_is_damaged(text):
    with pytest.raises(json_files.Damaged, match="a.json: is damaged"):
        json_files.parse("a.json", text, SHAPE)


def test_a_damaged_line_is_named(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": 1}\n{"a": 2}\n{"a": ')
    with pytest.raises(json_files.Damaged, match=r"a\.jsonl, line 3: is dam"):
        json_files.read_lines(str(path), {"a": int})


def test_two_thousand_flipped_texts_are_read_or_damaged():
    rng = random.Random(0)
    for _ in range(2000):
        text = bytearray(json.dumps(GOOD).encode())
        for _ in range(rng.randint(1, 4)):
            text[rng.randrange(len(text))] = rng.randrange(256)
        try:
            value = json_files.parse("a.json", bytes(text), SHAPE)
        except json_files.Damaged:
            continue
        assert isinstance(value["phases"][0]["epochs"], int)
