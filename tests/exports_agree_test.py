"""Every export reads texts as `predict` does, or is refused, or says how."""

import csv
import pathlib
import re
import types

import keras_hub
import numpy as np
import pytest
import tensorflow as tf

from tests import own_tasks_test
from tests.support import commands, own_data, quick
from tf_transfer import experiment, train
from tf_transfer.data import table_files, texts as texts_lib
from tf_transfer.data.task import Task
from tf_transfer.runs import (
    export_folder,
    input_texts,
    model_card,
    trained,
)
from tf_transfer.training import strategy
from tf_transfer.tweets import experiment as tweets
from tf_transfer.utils.errors import UserError

pytestmark = pytest.mark.usefixtures("one_block")
TWEETS = [  # keyword, text, label
    ("fire%20truck", "  Fire &amp; flood at https://t.co/Ab1 @Anna\u00a0", "1"),
    ("", "A dog &lt;3 and a cat with @Bert_2", "0"),
    ("party", "good day at the lake " * 9, "0"),
    ("%C3%A9t%C3%A9", "two men in bad water", "1"),
]
# The settings by which a row becomes ids, as docs/guides/export.md lists them.
READ = {"keyword_column", "clean", "max_length", "long_texts", "pairs"}
# By the formats of other libraries.
REFUSED = {
    "head_tail": "has --long_texts=head_tail. Give --f",
    "pairs_sbert": "other libraries have no such head",
}


def write_tweets(folder):
    """A table with keywords, and with what cleaning changes."""
    path = folder / "tweets.csv"
    rows = [
        (keyword, f"{text} {number}", label)
        for number in range(12)
        for keyword, text, label in TWEETS
    ]
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([("keyword", "text", "target"), *rows])
    return str(path)


def train_case(name, folder):
    """A finished run, and a table that it answers."""
    shared = {**own_tasks_test.SMALL, "out": str(folder / "runs")}
    shared["trainable_layers"] = "1"
    if name == "tweets":
        path = write_tweets(folder)
        settings = tweets.Settings(
            **shared, data=path, keyword_column="keyword", clean="basic"
        )
        return tweets.run(settings).directory, path
    pair = ["title", "body"] if name.startswith("pairs") else ["body"]
    path = own_data.write_task(folder, columns=own_data.news(40), texts=pair)
    long_texts = "head_tail" if name == "head_tail" else "head"
    length = {"pairs_odd": 10, "pairs_even": 9}.get(name, 8)
    settings = train.Settings(
        **{**shared, "max_length": length},
        task=path,
        long_texts=long_texts,
        pooling="cls",
        pairs="sbert" if name == "pairs_sbert" else "cross",
        baseline=False,
    )
    return train.run(settings).directory, str(folder / "news.csv")


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    """The predictor of a case, and its table; each run is trained once."""
    made = {}

    def find(name):
        if name not in made:
            with quick.eagerly():
                folder = tmp_path_factory.mktemp(name)
                directory, path = train_case(name, folder)
                made[name] = experiment.open_run(directory).predictor(), path
        return made[name]

    return find


class Recorder:
    """Settings that know which of them were asked for."""

    def __init__(self, settings):
        self._settings = settings
        self.names = set()

    def __getattr__(self, name):
        self.names.add(name)
        return getattr(self._settings, name)


def untrained(folder, **changes):
    """What answers with random weights, and a table for it."""
    path = write_tweets(folder)
    settings = tweets.Settings(
        data=path, model="tiny", max_length=16, **changes
    )
    with quick.eagerly():
        run = tweets.Tweets(settings)
        network = run.build_network(strategy.single_device())
        return trained.Result(run, "", {}, network).predictor(), path


def predict_logits(predictor, path):
    """The logits of `predict --input`."""
    settings = predictor.experiment.settings
    texts = input_texts.read_file(predictor.task, settings, path)
    with quick.eagerly():
        return predictor.logits(texts.rows)


def raw_columns(predictor, path):
    """The cells of the texts, as a program has them."""
    columns = table_files.read_table(path).columns
    return [columns[name] for name in predictor.task.texts], columns


def prepare(code, texts, columns):
    """Texts by the line of Python of a card, if it has one."""
    match = re.search(r"text = (make_text\(.*\))", code)
    if not match:
        return texts
    line = match[1].replace('"..."', "text", 1).replace('"..."', "keyword")
    names = {"make_text": texts_lib.make_text}
    rows = zip(texts[0], columns["keyword"])
    return [[eval(line, {**names, "text": t, "keyword": k}) for t, k in rows]]


def answer_saved_model(folder, texts, card):
    """Logits of the served signature, for a class with one unit or two."""
    model = tf.saved_model.load(folder)
    inputs = {f"text_{n}": tf.constant(x) for n, x in enumerate(texts, 1)}
    return model.signatures["serving_default"](**inputs)["logits"].numpy()


def answer_keras_preset(folder, texts, card):
    classifier = keras_hub.models.TextClassifier.from_preset(folder)
    inputs = texts[0] if len(texts) == 1 else tuple(texts)
    return classifier.predict(inputs, verbose=0)


def answer_hugging_face(folder, texts, card):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(
        folder
    ).eval()
    with torch.no_grad():
        if encode := re.search("(?s)\\nroom = .*?return.*?\\n", card):
            names = {"tokenizer": tokenizer, "torch": torch}
            names["backend"] = tokenizer.backend_tokenizer
            exec(encode[0], names)
            batches = [names["encode"](*pair) for pair in zip(*texts)]
            return np.concatenate([model(**x).logits for x in batches])
        batch = tokenizer(
            *texts, return_tensors="pt", padding=True, truncation=True
        )
        return model(**batch).logits.numpy()


def test_the_settings_that_are_read_are_known(tmp_path, eager):
    """A new one is to be in exports, refused or in the card."""
    predictor, path = untrained(tmp_path, keyword_column="keyword")
    run, task = predictor.experiment, predictor.task
    recorder = Recorder(run.settings)
    rows = input_texts.read_file(task, recorder, path, "utf-8").rows
    run.settings = run.data.settings = recorder
    run.data.encode(rows, task, predictor.network.encoder, "texts")
    predictor.text_model()
    assert recorder.names == READ


def test_the_document_has_every_setting_that_is_read():
    document = pathlib.Path(
        commands.ROOT, "docs", "guides", "export.md"
    ).read_text()
    table = document.partition("| the run reads |")[2].partition("\n\n")[0]
    assert all(f"`--{name}" in table for name in READ)


@pytest.mark.parametrize(
    "changes",
    [
        {"keyword_column": "keyword"},
        {"clean": "basic"},
        {"keyword_column": "keyword", "clean": "basic"},
        {"long_texts": "head_tail"},
        {},
    ],
)
@pytest.mark.parametrize("form", export_folder.FORMATS)
def test_the_python_of_the_card_prepares_texts(changes, form, tmp_path, eager):
    """Its texts are what the graph of the SavedModel needs."""
    predictor, path = untrained(tmp_path, **changes)
    texts, columns = raw_columns(predictor, path)
    code = model_card._prepare_texts(predictor, model_card.USES[form])
    prepared = prepare(code, texts, columns)
    settings = predictor.experiment.settings
    rows = input_texts.read_file(predictor.task, settings, path).rows
    assert prepared == rows.texts
    needs = {"keyword_column", "clean"} & {*changes}
    flags = [f"--{name}={value}" for name, value in changes.items()]
    assert model_card.list_preparation(settings) == flags * bool(needs)
    if form == "saved_model":
        served = predictor.text_model().logits(tf.constant(prepared[0]))
        expected = predictor.logits(rows)
        np.testing.assert_allclose(served, expected, atol=1e-6)


@pytest.mark.parametrize("form", ["hugging_face", "keras_preset"])
def test_entities_are_exported_to_a_saved_model_alone(form, tmp_path):
    labels = ("O", "B-X", "I-X")
    task = Task("t", "", ("words",), "tags", labels, "f1", kind="entities")
    settings = types.SimpleNamespace(max_length=9, is_sparse=False)
    data = types.SimpleNamespace(fitted_probe=None)
    run = types.SimpleNamespace(settings=settings, data=data)
    predictor = types.SimpleNamespace(task=task, experiment=run)
    with pytest.raises(UserError, match="and this run labels words"):
        export_folder.export(predictor, str(tmp_path), form)
    cut = model_card._describe_cut(predictor)
    assert cut.startswith("Words behind the first 9 tokens of a sentence get")


def test_a_text_by_itself_has_no_keyword(capsys):
    task = Task("t", "", ("text",), "label", ("a", "b"), "accuracy")
    settings = types.SimpleNamespace(keyword_column="word", clean="none")
    input_texts.read_texts(task, settings, ["a"])
    assert "--text: is read without the keyword" in capsys.readouterr().err
    settings.keyword_column = ""
    input_texts.read_texts(task, settings, ["a"])
    assert not capsys.readouterr().err


@pytest.mark.parametrize("name", ["[1]", "a*", "why?", "back\\slash", "["])
def test_a_path_that_tensorflow_matches_is_refused(
    name, tmp_path, eager, monkeypatch
):
    predictor, _ = untrained(tmp_path)
    folder = tmp_path / name / "out"
    with pytest.raises(UserError, match="TensorFlow takes for a pattern"):
        export_folder.export(predictor, str(folder))
    (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / name)
    with pytest.raises(UserError, match="--export=out: its path"):
        export_folder.export(predictor, "out")
    assert not folder.exists()


@pytest.mark.slow  # exports, and loads in another library
@pytest.mark.parametrize("form", export_folder.FORMATS)
@pytest.mark.parametrize(
    "name",
    ["tweets", "head", "head_tail", "pairs_odd", "pairs_even", "pairs_sbert"],
)
def test_an_export_answers_as_predict_does(name, form, cases, tmp_path, capsys):
    predictor, path = cases(name)
    folder = str(tmp_path / "out")
    if name in REFUSED and form != "saved_model":
        with pytest.raises(UserError, match=REFUSED[name]):
            export_folder.export(predictor, folder, form)
        return
    export_folder.export(predictor, folder, form)
    says = "--keyword_column=keyword and --clean=basic: not in the exported"
    assert (says in capsys.readouterr().out) == (name == "tweets")
    card = (tmp_path / "out" / "README.md").read_text()
    texts, columns = raw_columns(predictor, path)
    texts = prepare(card, texts, columns)
    found = globals()[f"answer_{form}"](folder, texts, card)
    expected = predict_logits(predictor, path)
    np.testing.assert_allclose(found, expected, atol=1e-4)
