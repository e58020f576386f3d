"""Texts and files are read and answered, as `predict.main` does it."""

from tf_transfer import predict


def predict_texts(predictor, texts, output=None):
    """Answers the values of `--text`."""
    task, settings = predictor.task, predictor.experiment.settings
    extension = predict.choose_extension(task, "", output)
    given = predict.read_texts(task, settings, texts)
    predict.write_answers(predictor, given, output, extension)


def predict_file(
    predictor,
    path,
    output=None,
    probabilities=False,
    label_column="",
):
    """Answers a file, and scores the answers where a column has labels."""
    task, settings = predictor.task, predictor.experiment.settings
    extension = predict.choose_extension(task, path, output)
    given = predict.read_file(task, settings, path, "", label_column)
    logits = predict.write_answers(
        predictor, given, output, extension, probabilities
    )
    if label_column:
        predict.write_scores(task, given.rows, logits, output)
