"""Runs of `stacking` answer, and a table of the user's own is answered."""

import json

import numpy as np
import pytest
import tensorflow as tf

from tests.predict_test import open_predictor, serve
from tests.support import answering, quick, stacking_data
from tf_transfer.data import conll
from tf_transfer.runs import export_folder
from tf_transfer.stacking import experiment as stacking, heads
from tf_transfer.utils.errors import UserError

# One run answers traced, as a user's does; all others eagerly.
pytestmark = pytest.mark.usefixtures("one_block")


def stacked(folder, task, **changes):
    """A finished run of `stacking`: what answers, and its stored outputs."""
    settings = stacking_data.settings_of(
        folder, task, adaptation="stack_only", **changes
    )
    with quick.eagerly():
        run = stacking.run(settings).directory
    return open_predictor(run), stacking_data.arrays_of(settings)


@pytest.fixture(scope="module")
def entities(tmp_path_factory):
    """Folder of the data, what answers, and the stored outputs of a run."""
    folder = tmp_path_factory.mktemp("ner")
    return folder, *stacked(folder, "ner", head="dense")


def test_every_word_of_a_file_gets_its_tag(entities, tmp_path, eager):
    folder, predictor, stored = entities
    path, out = folder / "ner" / "eng.testb", tmp_path / "out.jsonl"
    answering.predict_file(predictor, str(path), str(out))
    tags = [conll.TAGS[n] for n in stored["test_logits"].argmax(axis=1)]
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    words = [line.split()[0] for line in path.read_text().splitlines() if line]
    assert [word for row in rows for word in row["words"]] == words
    assert [tag for row in rows for tag in row["predicted_tags"]] == tags
    with pytest.raises(UserError, match="written as .jsonl, .ndjson, .json"):
        answering.predict_file(predictor, str(path), str(tmp_path / "a.csv"))


def test_a_file_of_words_will_do(entities, tmp_path, capsys, eager):
    _, predictor, _ = entities
    path = tmp_path / "in.txt"
    path.write_text("-DOCSTART-\n\nthe\ndog\n\n\nwas\n")
    answering.predict_file(predictor, str(path))
    words = [["the", "dog"], ["was"]]
    rows = [json.loads(x) for x in capsys.readouterr().out.splitlines()]
    assert [row["words"] for row in rows] == words
    assert [row["predicted_tags"] for row in rows] == predictor.tags(words)
    path.write_text("-DOCSTART-\n")
    with pytest.raises(UserError, match="holds no sentences"):
        answering.predict_file(predictor, str(path))


def test_words_of_sentences_get_their_tags(entities, tmp_path, capsys, eager):
    _, predictor, _ = entities
    tags = predictor.tags([["the", "dog"], ["was"]])
    answering.predict_texts(predictor, ["the  dog", "was"])
    rows = [json.loads(x) for x in capsys.readouterr().out.splitlines()]
    assert [row["words"] for row in rows] == [["the", "dog"], ["was"]]
    assert [row["predicted_tags"] for row in rows] == tags
    with pytest.raises(UserError, match="--text, line 2.* has no words"):
        answering.predict_texts(predictor, ["a", " "])


@pytest.mark.slow
def test_an_exported_tagger_takes_words(entities, tmp_path):
    _, predictor, _ = entities
    sentences = [["the", "dog", "was", "here"], ["two", "cats"], ["\u0001"]]
    export_folder.export(predictor, str(tmp_path / "saved"))
    model = tf.saved_model.load(str(tmp_path / "saved"))
    padded = [words + [""] * (4 - len(words)) for words in sentences]
    served = model.signatures["serving_default"](words=tf.constant(padded))
    predicted = served["logits"].numpy().argmax(axis=2)
    with quick.eagerly():
        expected = predictor.tags(sentences)
    for tags, row in zip(expected, predicted):
        assert tags == [conll.TAGS[tag] for tag in row[: len(tags)]]
        assert not row[len(tags) :].any()


@pytest.mark.slow
@pytest.mark.parametrize(
    "task, head",
    [
        (task, head)
        for task in ("text", "pairs")
        for head in heads.HEADS[task]
        if (task, head) != ("pairs", "dense")  # it is `text`'s
    ],
)
def test_a_big_head_answers_and_is_exported(task, head, tmp_path):
    predictor, stored = stacked(tmp_path, task, head=head)
    source = stacking.Stacking(
        stacking_data.settings_of(tmp_path, task)
    ).data.source
    examples = source.read(source.task.development[0])
    logits = predictor.logits(examples)
    np.testing.assert_allclose(logits, stored["test_logits"], atol=1e-5)
    served = serve(predictor, tmp_path / "saved", examples.texts)
    np.testing.assert_allclose(served, logits, atol=1e-5)


def test_a_table_of_one_s_own_is_answered_row_by_row(tmp_path, eager):
    rows = "".join(
        f"{n},{('good film', 'cold water')[n % 2]} {n},{n % 2}\n"
        for n in range(30)
    )
    path = tmp_path / "mine.csv"
    path.write_text(f"id,text,label\n{rows}")
    predictor, _ = stacked(tmp_path, "text", data=str(path), head="dense")
    answering.predict_file(predictor, str(path), str(tmp_path / "out.csv"))
    lines = (tmp_path / "out.csv").read_text().splitlines()
    assert lines[0] == "id,text,label,predicted_label,predicted_score"
    assert [line.split(",")[0] for line in lines[1:]] == [
        str(n) for n in range(30)
    ]
