"""The tokenizer's files in a folder of transformers."""

import json

import pytest

from tests.models.their_folders import change, load, make_tokenizer_json
from tf_transfer.utils.errors import UserError


def test_tokenizer_json_is_enough(bert, folder):
    for name in ("vocab.txt", "tokenizer_config.json"):
        (folder / name).unlink()
    change(folder / "tokenizer.json", **make_tokenizer_json())
    text = "The Café [SEP] was m² ."
    [one], [other] = (
        load(some).tokenizer.encode([text]) for some in (bert, folder)
    )
    assert one.tolist() == other.tolist()
    assert load(bert).special == load(folder).special


@pytest.mark.parametrize("keys", [{"lowercase": False}, {}])
@pytest.mark.parametrize("config", [{"do_lower_case": True}, {}])
def test_letters_are_small_unless_the_files_say_otherwise(folder, keys, config):
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    change(folder / "tokenizer.json", **make_tokenizer_json(**keys))
    tokenizer = load(folder).tokenizer
    assert tokenizer.lowercase == (bool(config) or not keys)


def test_accents_and_cjk_follow_the_settings(folder):
    path = folder / "tokenizer_config.json"
    change(path, strip_accents=False, tokenize_chinese_chars=False)
    tokenizer = load(folder).tokenizer
    unknown = tokenizer.unknown
    encoded = tokenizer.encode(["cafe", "café", "中文", "中 文"])
    assert unknown not in encoded[0]
    assert [row.tolist() for row in encoded[1:]] == [
        [unknown],
        [unknown],
        [unknown] * 2,
    ]


@pytest.mark.parametrize("name", ["vocab.txt", "[CLS]", "many"])
def test_an_incomplete_vocabulary_is_refused(folder, name):
    path = folder / "vocab.txt"
    words = path.read_text().split("\n")
    if name == "vocab.txt":
        path.unlink()
    elif name == "many":
        path.write_text("\n".join([*words, "one more"]))
    else:
        path.write_text("\n".join(w.replace(name, "CLS") for w in words))
    problem = {
        "vocab.txt": "has no vocab.txt",
        "[CLS]": "has no \\[CLS\\]",
        "many": "smaller vocab_size",
    }
    with pytest.raises(UserError, match=problem[name]):
        load(folder)
