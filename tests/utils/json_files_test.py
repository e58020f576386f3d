"""JSON of this package is as declared, or the file and the field are named."""

import json
import random
from typing import Any, NotRequired, TypedDict

import pytest

from tf_transfer.utils import json_files

Phase = TypedDict("Phase", {"lr": float, "epochs": int})
Content = TypedDict(
    "Content",
    {
        "name": str,
        "score": float | None,
        "phases": list[Phase],
        "sizes": dict[str, int],
        "note": NotRequired[str],
        "rest": Any,
    },
)
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
    assert json_files.read(str(path), Content) == GOOD


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"name": None}, "name: .*`str`, got `null`"),
        ({"score": "x" * 5000}, "score: .*`float | null`, got `str`"),
        ({"score": True}, "score: .*, got `bool`"),
        ({"phases": {}}, "phases: .*`array`, got `object`"),
        ({"phases": [{"lr": 1}]}, r"phases\[0\]: .*missing.*`epochs`"),
        ({"phases": [{"lr": 1, "epochs": 1.5}]}, r"phases\[0\].epochs: "),
        ({"sizes": {"train": "3"}}, r"sizes\[...\]: .*`int`, got `str`"),
        ({"note": 1}, "note: "),
    ],
)
def test_another_type_names_file_and_field(changes, message):
    text = json.dumps({**GOOD, **changes}).encode()
    with pytest.raises(json_files.Damaged, match=rf"a\.json: .*{message}"):
        json_files.parse("a.json", text, Content)


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
        json_files.parse("a.json", text, Content)


def test_a_damaged_line_is_named(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": 1}\n{"a": 2}\n{"a": ')
    with pytest.raises(json_files.Damaged, match=r"a\.jsonl, line 3: is dam"):
        json_files.read_records(str(path), TypedDict("A", {"a": int}))


def test_two_thousand_flipped_texts_are_read_or_damaged():
    rng = random.Random(0)
    for _ in range(2000):
        text = bytearray(json.dumps(GOOD).encode())
        for _ in range(rng.randint(1, 4)):
            text[rng.randrange(len(text))] = rng.randrange(256)
        try:
            value = json_files.parse("a.json", bytes(text), Content)
        except json_files.Damaged:
            continue
        assert isinstance(value["phases"][0]["epochs"], int)
