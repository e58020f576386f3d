"""Entities of any types, in every scheme and format, and what is refused."""

import json

import pytest

from tests.support import own_data
from tf_transfer.data import tagged
from tf_transfer.own import table_source, task_file
from tf_transfer.utils.errors import UserError

WORDS = [["the", "BRCA1", "gene", "in", "mice"], ["p53", "TP63"]]
IOB2 = [["O", "B-GENE", "I-GENE", "O", "B-SPECIES"], ["B-GENE", "B-GENE"]]
SCHEMES = {
    "iob2": IOB2,
    "iob1": [["O", "I-GENE", "I-GENE", "O", "I-SPECIES"], ["I-GENE", "B-GENE"]],
    "bioes": [
        ["O", "B-GENE", "E-GENE", "O", "S-SPECIES"],
        ["S-GENE", "S-GENE"],
    ],
    "bilou": [
        ["O", "B-GENE", "L-GENE", "O", "U-SPECIES"],
        ["U-GENE", "U-GENE"],
    ],
}


def write(path, tags, words=WORDS):
    """A file of the ending's format; returns its path."""
    if path.suffix in (".jsonl", ".parquet"):
        return own_data.write(path, {"words": words, "tags": tags})
    path.write_text(
        "\n".join(
            "".join(f"{w}\t{t}\n" for w, t in zip(sentence, labels))
            for sentence, labels in zip(words, tags)
        )
    )
    return str(path)


@pytest.mark.parametrize("ending", ["tsv", "conll", "jsonl", "parquet"])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_scheme_in_every_format_is_read_as_iob2(scheme, ending, tmp_path):
    path = write(tmp_path / f"genes.{ending}", SCHEMES[scheme])
    columns = tagged.read_table(path, "words", "tags").columns
    assert columns == {"words": WORDS, "tags": IOB2}
    assert tagged.types_of(columns["tags"]) == ("GENE", "SPECIES")


def message(tmp_path, tags, ending="conll", words=WORDS):
    path = write(tmp_path / f"genes.{ending}", tags, words)
    with pytest.raises(UserError) as error:
        tagged.read_table(path, "words", "tags")
    assert len(str(error.value).splitlines()) <= 2
    return str(error.value)


def test_what_is_wrong_is_named_with_its_line(tmp_path):
    bad = [["O", "gene", "O", "O", "O"], ["O", "O"]]
    assert "genes.conll, line 2: 'gene' is not a tag" in message(tmp_path, bad)
    assert "genes.jsonl, line 1: 'gene'" in message(tmp_path, bad, "jsonl")
    assert "genes.parquet, row 1: 'g" in message(tmp_path, bad, "parquet")
    short = [["O"], ["O", "O"]]
    assert "has 1 tags for 5 words" in message(tmp_path, short, "jsonl")
    open_entity = [["O", "B-X", "O", "O", "S-X"], ["O", "O"]]
    assert "line 3: 'O' breaks an entity" in message(tmp_path, open_entity)
    late = [["O", "O", "O", "O", "S-X"], ["O", "B-X"]]
    assert "line 8: 'B-X' breaks" in message(tmp_path, late)
    mixed = [["O", "B-X", "O", "I-X", "O"], ["B-X", "O"]]
    assert "line 4: begins an entity with I-X" in message(tmp_path, mixed)


def test_a_task_of_entities_has_the_types_of_its_training_files(tmp_path):
    write(tmp_path / "train.jsonl", SCHEMES["bioes"])
    write(tmp_path / "test.conll", [["O", "O", "O", "O", "O"], ["B-GENE", "O"]])
    path = own_data.write_toml(
        tmp_path / "genes.toml",
        {"kind": "entities", "train": "train.jsonl", "test": "test.conll"},
    )
    source = table_source.TableSource(task_file.read_task_file(path))
    assert source.task.metric == "f1" and source.task.is_tagging
    assert source.task.labels == (
        "O",
        "B-GENE",
        "I-GENE",
        "B-SPECIES",
        "I-SPECIES",
    )
    assert source.read("train").tags == IOB2
    assert source.read("test").words == WORDS
    write(tmp_path / "test.conll", [["O", "O", "O", "O", "O"], ["B-DRUG", "O"]])
    with pytest.raises(UserError, match="test.conll, line 7: 'DRUG' is not"):
        table_source.TableSource(task_file.read_task_file(path)).read("test")


def test_words_may_be_text_with_blanks(tmp_path):
    path = tmp_path / "a.jsonl"
    row = {"words": "one two", "tags": "O B-NUMBER"}
    path.write_text(json.dumps(row) + "\n")
    columns = tagged.read_table(str(path), "words", "tags").columns
    assert columns["words"] == [["one", "two"]]
