"""Texts are as long as the encoder can read, if the user gives no length."""

import dataclasses
import json

import pytest
import safetensors.numpy

import tf_transfer
from tests.models import encoders, saving
from tests.support import own_data
from tests.support.estimator_texts import make_options, TEAMS, TEXTS
from tests.support.own_runs import settings_of
from tf_transfer import experiment, search, train
from tf_transfer.config import experiments
from tf_transfer.models import loading
from tf_transfer.utils import screen

USUAL = dict.fromkeys(experiments.FOLDERS, 128) | {"train": 256}
CONFIG = {"model_type": "bert", "max_position_embeddings": 40}


def write_config(folder, **changes):
    """A folder that has the sizes of an encoder, and no weights."""
    (folder / "config.json").write_text(json.dumps({**CONFIG, **changes}))
    return str(folder)


@pytest.fixture(autouse=True)
def new_notices():
    screen.notify_once.cache_clear()


# === Settings ===


@pytest.mark.parametrize("name", USUAL)
def test_the_encoder_bounds_the_length_that_is_not_given(
    name, tmp_path, capsys
):
    cls, model = experiment.load(name).Settings, write_config(tmp_path)
    options = {"train": {"task": "sst2"}, "tweets": {"data": "texts.csv"}}

    def length_of(**given):
        return cls(**options.get(name, {}), **given).resolve().max_length

    assert length_of() == USUAL[name]
    assert length_of(model="tiny") == USUAL[name]
    assert not capsys.readouterr().err
    assert length_of(model=model) == length_of(model=model) == 40
    assert capsys.readouterr().err == (
        f"--max_length: 40 tokens, not the usual {USUAL[name]}, since {model} "
        "has no more positions.\n"
    )
    assert length_of(model=model, max_length=32) == 32
    assert length_of(model=model, max_length=100) == 100  # refused by the run
    assert not capsys.readouterr().err


def test_the_key_of_a_run_has_the_length_that_is_used(tmp_path):
    settings = train.Settings(task="sst2", model=write_config(tmp_path))
    short, usual = (
        one.resolve() for one in (settings, train.Settings(task="sst2"))
    )
    assert short.hashed()["max_length"] == 40
    assert usual.hashed()["max_length"] == 256
    given = dataclasses.replace(settings, max_length=40).resolve()
    assert given.hashed() == short.hashed()


def test_without_an_encoder_no_folder_is_read(tmp_path, capsys):
    model = write_config(tmp_path)
    settings = train.Settings(task="sst2", model=model, features="tfidf")
    assert settings.resolve().max_length == 256
    assert not capsys.readouterr().err


def test_a_search_has_the_length_of_its_encoder(tmp_path):
    model = write_config(tmp_path)
    settings = search.Settings(task="sst2", model=model, budget="1m")
    assert settings.resolve().max_length == 40
    several = dataclasses.replace(settings, models=f"tiny,{model}")
    assert several.resolve().max_length is None  # each has its own


@pytest.mark.parametrize(
    "changes, expected",
    [
        ({}, 40),
        ({"model_type": "distilbert"}, 40),
        ({"model_type": "roberta"}, 38),
        ({"model_type": "roberta", "pad_token_id": 5}, 34),
        ({"model_type": "xlm-roberta", "pad_token_id": None}, 38),
        ({"model_type": None, "config": {"max_sequence_length": 64}}, 40),
        ({"max_position_embeddings": "many"}, None),
        ({"max_position_embeddings": None}, None),
    ],
)
def test_positions_are_those_of_the_folder(tmp_path, changes, expected):
    model = write_config(tmp_path, **changes)
    assert loading.find_positions(model) == expected


def test_a_keras_preset_has_positions(tmp_path):
    config = {
        "class_name": "BertBackbone",
        "config": {"max_sequence_length": 9},
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert loading.find_positions(str(tmp_path)) == 9


def test_a_folder_that_cannot_be_read_is_reported_later(tmp_path):
    assert loading.find_positions(str(tmp_path)) is None
    (tmp_path / "config.json").write_text("{")
    assert loading.find_positions(str(tmp_path)) is None


# === Runs ===


@pytest.fixture(scope="module")
def short_encoder(tmp_path_factory):
    """A folder of transformers with `tiny`, of which 24 positions are left."""
    folder = tmp_path_factory.mktemp("models") / "short"
    saving.as_hugging_face(encoders.shared("bert"), folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(
        json.dumps({**config, "max_position_embeddings": 24})
    )
    path = folder / "model.safetensors"
    arrays = safetensors.numpy.load(path.read_bytes())
    [name] = [name for name in arrays if "position" in name]
    arrays[name] = arrays[name][:24]
    path.write_bytes(safetensors.numpy.save(arrays))
    return str(folder)


def test_a_run_reads_as_much_as_its_encoder(short_encoder, tmp_path, eager):
    options = make_options(tmp_path)
    options |= {"model": short_encoder, "max_length": None}
    texts = [text + " and more" * 30 for text in TEXTS]
    classifier = tf_transfer.TextClassifier(**options).fit(texts, TEAMS)
    run = experiment.open_run(classifier.directory_)
    assert run.experiment.settings.max_length == 24
    assert len(classifier.predict(texts[:2])) == 2
    with pytest.raises(ValueError, match="--max_length=25: .* for 24 tokens"):
        classifier.set_params(max_length=25).fit(texts, TEAMS)


@pytest.mark.slow  # fits probes
def test_each_encoder_is_ranked_at_its_own_length(
    short_encoder, tmp_path, eager
):
    path = own_data.write_task(tmp_path)
    settings = settings_of(path, tmp_path / "runs", max_length=None)
    ranking = train.rank(settings, ["tiny", short_encoder])
    lengths = {
        run.Index: experiment.open_run(run.directory).experiment.settings
        for run in ranking.runs.itertuples()
    }
    assert {n: s.max_length for n, s in lengths.items()} == {
        "tiny": 256,
        short_encoder: 24,
    }


def test_a_command_to_be_offered_has_no_length_that_is_usual(
    short_encoder, tmp_path
):
    path = own_data.write_task(tmp_path)
    settings = settings_of(
        path, tmp_path / "runs", max_length=None, model=short_encoder
    )
    run = train.Train(settings)
    assert run.settings.max_length == 24
    assert not [w for w in run.command() if w.startswith("--max_length")]
    given = train.Train(dataclasses.replace(settings, max_length=16))
    assert "--max_length=16" in given.command()
