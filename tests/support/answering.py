"""Texts and files are read and answered, as `predict.main` does it."""

from tf_transfer import predict
from tf_transfer.runs import input_texts


def predict_texts(predictor, texts, output=""):
    """Answers the values of `--text`."""
    task, settings = predictor.task, predictor.experiment.settings
    extension = predict.choose_extension(task, "", output)
    given = input_texts.read_texts(task, settings, texts)
    answers = predict.answer_texts(predictor, given)
    predict.write_answers(answers, output, extension)


def predict_file(
    predictor,
    path,
    output="",
    probabilities=False,
    label_column="",
    skip_bad_rows=False,
):
    """Answers a file, and scores the answers where a column has labels."""
    task, settings = predictor.task, predictor.experiment.settings
    extension = predict.choose_extension(task, path, output)
    given = input_texts.read_file(
        task, settings, path, "", label_column, skip_bad_rows
    )
    answers = predict.answer_texts(predictor, given, probabilities)
    predict.write_answers(answers, output, extension)
    if label_column:
        predict.write_scores(task, answers.rows, answers.logits, output)
