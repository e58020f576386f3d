"""The languages of an encoder are known without loading it."""

import json

import pytest

from tests.support import own_data
from tests.support.languages import SENTENCES
from tf_transfer import train
from tf_transfer.data import languages
from tf_transfer.models import vocabulary

GERMAN = sorted(languages.WORDS["German"])


@pytest.mark.parametrize(
    "model, known",
    [
        ("minilm", {"English"}),
        ("mpnet", {"English"}),
        ("bert_base_en_uncased", {"English"}),
        ("roberta_large_en", {"English"}),
        ("bert_base_multi", None),
        ("bert_base_zh", None),
        ("tiny", None),
    ],
)
def test_presets_are_known_by_name(model, known):
    assert vocabulary.find_languages(model) == known


@pytest.mark.parametrize(
    "name, content",
    [
        ("vocab.txt", "\n".join(["[PAD]", "[UNK]", *GERMAN, "##en"])),
        ("vocab.json", json.dumps({f"Ġ{w}": n for n, w in enumerate(GERMAN)})),
        (
            "tokenizer.json",
            json.dumps({"model": {"vocab": [[f"▁{w}", -1.5] for w in GERMAN]}}),
        ),
        (
            "tokenizer.json",
            json.dumps({"model": {"vocab": dict.fromkeys(GERMAN, 0)}}),
        ),
        ("vocab.txt", "a\nb"),
        ("vocab.json", "damaged"),
        ("model.safetensors", ""),
    ],
)
def test_folders_are_known_by_their_vocabulary(name, content, tmp_path):
    (tmp_path / name).write_text(content)
    known = {"German"} if "nicht" in content else None
    assert vocabulary.find_languages(str(tmp_path)) == known


@pytest.fixture
def make_data(tmp_path):
    """Returns the texts of a run of an encoder with German words."""
    folder = tmp_path / "encoder"
    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join(GERMAN))

    def make(language, **settings):
        sentences = SENTENCES[language].split(". ")
        columns = own_data.news(len(sentences) * 6)
        columns["body"] = [
            f"{text} {n}" for n in range(6) for text in sentences
        ]
        path = own_data.write_task(tmp_path, columns=columns)
        options = {"task": path, "model": str(folder), **settings}
        return train.Train(train.Settings(**options)).data

    return make


def test_a_run_reports_texts_that_its_encoder_does_not_read(make_data, capsys):
    data = make_data("French")
    _ = data.examples
    printed = capsys.readouterr()
    assert (printed.out + printed.err).count("the texts are French") == 1
    assert "and the encoder reads German. Give --model=FOLDER" in printed.out
    assert "such as distilbert-base-multilingual-cased" in printed.out
    assert "the texts are French" in data.describe_data(data.task)


@pytest.mark.parametrize(
    "language, settings", [("German", {}), ("French", {"features": "tfidf"})]
)
def test_a_run_that_reads_its_texts_does_not(
    language, settings, make_data, capsys
):
    if settings:
        settings["model"] = train.Settings(task="x").model
    data = make_data(language, **settings)
    _ = data.examples
    assert "the texts are" not in capsys.readouterr().out
