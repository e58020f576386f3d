"""A trained run answers: texts, files, and exported."""

import json
import os
import shutil

import numpy as np
import pytest
import tensorflow as tf

from tests.conftest import tiny_settings
from tests.support import answering, commands, cs224n_runs, quick
from tf_transfer import experiment, predict
from tf_transfer.data import cs224n, glue as glue_data, metrics, table_files
from tf_transfer.data.task import Examples
from tf_transfer.glue import experiment as glue
from tf_transfer.multitask import experiment as multitask
from tf_transfer.runs import export_folder, trained
from tf_transfer.training import strategy
from tf_transfer.utils.errors import UserError

# One run answers traced, as a user's does; all others eagerly.
pytestmark = pytest.mark.usefixtures("one_block")


def open_predictor(directory, task=""):
    """What answers with a run that is loaded again."""
    with quick.eagerly():
        return experiment.open_run(str(directory)).predictor(task)


def untrained(task):
    """What answers for a task of GLUE with random weights."""
    with quick.eagerly():
        run = glue.Glue(tiny_settings("nowhere", task=task))
        network = run.build_network(strategy.single_device())
        return trained.Result(run, "", {}, network).predictor()


@pytest.fixture(scope="module")
def rte_run(tmp_path_factory):
    """The directory of a run."""
    settings = tiny_settings(
        tmp_path_factory.mktemp("rte"), max_epochs=1, trainable_layers="1"
    )
    with quick.eagerly():
        return glue.run(settings).directory


@pytest.fixture(scope="module")
def rte(rte_run):
    """What answers with it."""
    return open_predictor(rte_run)


def sample(task, split):
    """Examples that ship with the package."""
    return glue_data.open_source(glue_data.TASKS[task], "sample", "").read(
        split
    )


def test_a_loaded_run_gives_the_logits_that_it_stored(rte, rte_run):
    stored = np.load(os.path.join(rte_run, "predictions.npz"))
    logits = rte.logits(sample("rte", "dev"))
    np.testing.assert_allclose(logits, stored["test_logits"], atol=1e-5)


def test_a_pair_of_texts_gets_a_label_and_its_probability(rte, capsys):
    answering.predict_texts(rte, ["It rains.", "It is wet."])
    header, line = capsys.readouterr().out.splitlines()
    assert header == "sentence1,sentence2,predicted_label,predicted_score"
    *_, word, score = line.split(",")
    examples = Examples(np.arange(1), [["It rains."], ["It is wet."]], None)
    yes = 1 / (1 + np.exp(-rte.logits(examples)[0, 0]))
    assert word == ("not_entailment" if yes > 0.5 else "entailment")
    assert float(score) == pytest.approx(max(yes, 1 - yes), abs=1e-4)


def test_the_answer_for_a_text_goes_to_a_file_too(rte, tmp_path, capsys):
    path = tmp_path / "answer.csv"
    answering.predict_texts(rte, ["It rains.", "It is wet."])
    shown = capsys.readouterr().out
    answering.predict_texts(rte, ["It rains.", "It is wet."], str(path))
    assert capsys.readouterr().out == f"1 row with answers: {path}\n"
    assert path.read_text() == shown


@pytest.mark.parametrize(
    "words, said",
    [
        (["--text=a", "--input=b"], "Give one of --text, --input"),
        (["--text=a\udcff"], "--text: is not in the encoding"),
        (["--export=a", "--output=b"], "--output=b: --export=a is where"),
        (["--text=a", "--label_column=b"], "--label_column=b: is a column"),
    ],
)
def test_flags_that_do_not_go_together_are_named(words, said, capsys):
    words = ["--run=none", *words]
    assert commands.call(predict.main, predict.Settings, *words) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("texts", [["one"], ["one", "two", "three"]])
def test_a_wrong_number_of_texts_is_named(rte, texts):
    with pytest.raises(UserError, match="--text: task rte takes 2"):
        answering.predict_texts(rte, texts)


def test_every_row_of_a_file_is_answered_in_its_order(rte, tmp_path):
    examples = sample("rte", "dev")
    path = tmp_path / "in.tsv"
    rows = zip(*examples.texts)
    path.write_text(
        "sentence2\tsentence1\n"
        + "".join(f"{second}\t{first}\n" for first, second in rows)
    )
    answering.predict_file(rte, str(path), str(tmp_path / "out.csv"))
    columns = table_files.read_table(str(tmp_path / "out.csv")).columns
    answered = ["predicted_label", "predicted_score"]
    assert [*columns] == ["sentence2", "sentence1", *answered]
    words = [word for word, _ in rte.answers(rte.logits(examples))]
    assert columns["predicted_label"] == words
    assert columns["sentence1"] == examples.texts[0]


def test_answers_are_scored_where_a_column_has_the_right_ones(
    rte, tmp_path, capsys
):
    examples, labels = sample("rte", "dev"), rte.task.labels
    path, output = tmp_path / "texts.tsv", tmp_path / "answers.csv"
    rows = [
        (*texts, labels[label])
        for *texts, label in zip(*examples.texts, examples.labels)
    ]
    names = (*rte.task.texts, "gold")
    path.write_text("".join("\t".join(r) + "\n" for r in [names, *rows]))
    answering.predict_file(rte, str(path), str(output), label_column="gold")
    accuracy = metrics.accuracy(examples.labels, rte.logits(examples))
    printed = capsys.readouterr().err
    assert f"{len(rows)} rows: accuracy {accuracy:.4f}" in printed
    written = json.loads((tmp_path / "answers.csv.errors.json").read_text())
    assert written["scores"]["accuracy"] == accuracy
    counts = np.array(written["confusion"]["counts"])
    assert np.trace(counts) / counts.sum() == pytest.approx(accuracy)
    path.write_text("\t".join(names) + "\na\tb\tmaybe\n")
    with pytest.raises(UserError, match="line 2.*'maybe' is not one"):
        answering.predict_file(rte, str(path), label_column="gold")
    with pytest.raises(UserError, match="silver"):
        answering.predict_file(rte, str(path), label_column="silver")


def test_answers_replace_no_earlier_ones(rte, tmp_path):
    names = [*rte.task.texts, "predicted_label"]
    path = tmp_path / "answered.jsonl"
    path.write_text(json.dumps(dict(zip(names, "abc"))))
    with pytest.raises(UserError, match="column 'predicted_label' already"):
        answering.predict_file(rte, str(path), str(tmp_path / "out.csv"))


def test_a_file_without_the_column_is_refused(rte, tmp_path):
    path = tmp_path / "in.tsv"
    path.write_text("premise\tsentence2\na\tb\n")
    with pytest.raises(UserError, match="no column 'sentence1'"):
        answering.predict_file(rte, str(path))
    with pytest.raises(UserError, match="no such file"):
        answering.predict_file(rte, str(tmp_path / "missing.tsv"))


@pytest.mark.parametrize("name", ["out.tsv", "out.parquet", "out.xlsx"])
def test_answers_are_csv_or_json_lines(rte, tmp_path, name):
    with pytest.raises(UserError, match=f"{name}: the answers are written as"):
        answering.predict_texts(rte, ["a", "b"], str(tmp_path / name))


def test_a_hidden_test_set_of_glue_is_answered(rte, tmp_path):
    path = os.path.join(glue_data.SAMPLE, "RTE", "test.tsv")
    answering.predict_file(rte, path, str(tmp_path / "RTE.csv"))
    columns = table_files.read_table(str(tmp_path / "RTE.csv")).columns
    assert columns["index"] == [*map(str, range(8))]
    assert {*columns["predicted_label"]} <= {"entailment", "not_entailment"}


def test_similarities_stay_between_0_and_5(eager):
    stsb = untrained("stsb")
    stsb.network.heads["stsb"].dense.bias.assign([40.0])
    assert stsb.answer(["a dog"], ["a cat"]) == [("5", 5.0)]


def test_the_labels_of_every_task_are_glue_s():
    for task in glue_data.TASKS.values():
        words = task.labels
        expected = {
            "mnli": ("entailment", "neutral", "contradiction"),
            "qnli": ("entailment", "not_entailment"),
            "rte": ("entailment", "not_entailment"),
            "stsb": None,
        }.get(task.name, ("0", "1"))
        assert words == expected


def serve(predictor, folder, columns):
    """Logits of an exported model, from the strings themselves."""
    export_folder.export(predictor, str(folder))
    model = tf.saved_model.load(str(folder))
    texts = {
        f"text_{number}": tf.constant(column)
        for number, column in enumerate(columns, 1)
    }
    return model.signatures["serving_default"](**texts)["logits"].numpy()


@pytest.mark.slow  # traces and saves a model
def test_an_exported_model_takes_raw_strings(rte, tmp_path):
    examples = sample("rte", "dev")  # some are longer than max_length
    served = serve(rte, tmp_path / "saved", examples.texts)
    logits = rte.logits(examples)
    np.testing.assert_allclose(served, logits, atol=1e-5)
    assert np.array_equal(metrics.decide(served), metrics.decide(logits))


def test_an_export_overwrites_nothing(rte, tmp_path):
    (tmp_path / "mine.txt").write_text("keep")
    with pytest.raises(UserError, match="is not empty"):
        export_folder.export(rte, str(tmp_path))


def test_a_run_that_is_not_finished_is_refused(rte_run, tmp_path):
    copy = shutil.copytree(rte_run, tmp_path / "copy")
    os.remove(copy / "result.json")
    with pytest.raises(UserError, match="has no result.json"):
        experiment.open_run(str(copy))
    with pytest.raises(UserError, match="has no config.json"):
        experiment.open_run(str(tmp_path))


def test_a_run_with_a_retired_setting_is_refused(rte_run, tmp_path):
    copy = shutil.copytree(rte_run, tmp_path / "copy")
    config = json.loads((copy / "config.json").read_text())
    config["settings"]["method"] = "adapter"
    (copy / "config.json").write_text(json.dumps(config))
    with pytest.raises(UserError, match="--method=adapter, which is retired"):
        experiment.open_run(str(copy))


def test_damaged_weights_are_refused(rte_run, tmp_path):
    copy = shutil.copytree(rte_run, tmp_path / "copy")
    [weights] = (copy / "model").iterdir()
    weights.write_bytes(weights.read_bytes()[:100])
    with pytest.raises(UserError, match="is damaged"):
        experiment.open_run(str(copy)).predictor()


@pytest.mark.parametrize("name", ["config.json", "result.json"])
@pytest.mark.parametrize(
    "content", ["{}", "[]", "", "\x00", "null", '{"key": 1}']
)
def test_a_record_of_another_shape_is_refused(name, content, rte_run, tmp_path):
    copy = shutil.copytree(rte_run, tmp_path / "copy")
    (copy / name).write_text(content)
    with pytest.raises(UserError, match=f"{name}: is damaged"):
        experiment.open_run(str(copy))


def test_weights_that_the_run_did_not_select_are_refused(rte_run, tmp_path):
    """One flipped bit; and those of another run, with its result."""
    copy = shutil.copytree(rte_run, tmp_path / "copy")
    [weights] = (copy / "model").iterdir()
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    with pytest.raises(UserError, match="is not as this run wrote it") as error:
        experiment.open_run(str(copy)).predictor()
    assert len(str(error.value).splitlines()) == 2
    shutil.copy(os.path.join(rte_run, "model", weights.name), weights)
    config = json.loads((copy / "config.json").read_text())
    config["key"]["seed"] = 7
    (copy / "config.json").write_text(json.dumps(config))
    with pytest.raises(UserError, match="result.json: is damaged .is another"):
        experiment.open_run(str(copy)).predictor()


def test_outputs_that_are_not_finite_are_an_error(rte):
    head = rte.network.heads["rte"].weights[0]
    before = head.numpy()
    head.assign(before * np.nan)
    try:
        with pytest.raises(UserError, match="is not finite"):
            rte.answer(["a dog"], ["a cat"])
    finally:
        head.assign(before)


# === Runs with several tasks ===


@pytest.fixture(scope="module")
def three_tasks(tmp_path_factory):
    """Folder of the data, and the directory of a run."""
    folder = tmp_path_factory.mktemp("three")
    cs224n_runs.write_all(folder)
    settings = cs224n_runs.settings_of(
        folder, train="head", max_epochs=1, pooling="cls_for_sentiment"
    )
    with quick.eagerly():
        run = multitask.run(settings).directory
    return folder, run


@pytest.mark.slow  # trains whole runs
def test_the_named_task_answers(three_tasks, capsys, eager):
    folder, run = three_tasks
    with pytest.raises(UserError, match="--task=: this run has sentiment, "):
        open_predictor(run)
    with pytest.raises(UserError, match="--task=mood"):
        open_predictor(run, "mood")
    stored = np.load(os.path.join(run, "predictions.npz"))
    for name in cs224n.TASKS:
        predictor = open_predictor(run, name)
        source = cs224n.open_project(str(folder), name)
        np.testing.assert_allclose(
            predictor.logits(source.read("dev")),
            stored[f"validation_{name}_logits"],
            atol=1e-5,
        )
    predictor = open_predictor(run, "paraphrase")
    answering.predict_texts(predictor, ["two cats", "good film"])
    assert capsys.readouterr().out.splitlines()[1].split(",")[2] in "01"
