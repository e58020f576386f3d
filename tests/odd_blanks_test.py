"""Blanks of another kind, and NUL, change no token and no score."""

import os

import numpy as np
import pytest

from tests.support import own_data
from tf_transfer import train


def score(folder, replace):
    """Logits of the last block's run on a table with other blanks."""
    folder.mkdir()
    columns = own_data.news(45)
    columns = {
        "body": [replace(text) for text in columns["body"]],
        "team": columns["team"],
    }
    settings = train.Settings(
        data=own_data.write(folder / "news.csv", columns),
        text_column="body",
        label_column="team",
        model="tiny",
        trainable_layers="1",
        max_epochs=2,
        batch_size=8,
        baseline=False,
        out=str(folder / "runs"),
    )
    result = train.run(settings)
    with np.load(os.path.join(result.directory, "predictions.npz")) as arrays:
        return {name: arrays[name] for name in arrays.files}


@pytest.mark.usefixtures("eager", "one_block")
@pytest.mark.slow
def test_a_table_with_other_blanks_scores_as_with_plain_ones(tmp_path):
    plain = score(tmp_path / "plain", str)
    for number, blank in enumerate(["\u00a0", "\u3000", " \0"]):
        other = score(
            tmp_path / str(number), lambda text, b=blank: text.replace(" ", b)
        )
        assert plain.keys() == other.keys()
        for name, array in plain.items():
            np.testing.assert_array_equal(array, other[name])


@pytest.mark.slow  # trains whole runs
@pytest.mark.usefixtures("eager", "one_block")
def test_many_unknown_tokens_are_a_warning(tmp_path, caplog):
    columns = own_data.news(45)
    texts = [f"книга {text}" for text in columns["body"]]
    settings = train.Settings(
        data=own_data.write(
            tmp_path / "news.csv", {"body": texts, "team": columns["team"]}
        ),
        text_column="body",
        label_column="team",
        model="tiny",
        trainable_layers="1",
        max_epochs=1,
        baseline=False,
        out=str(tmp_path / "runs"),
    )
    text = train.Train(settings).describe()
    assert "tokens that the encoder's vocabulary lacks:" in text
    record = train.run(settings).record
    warnings = [w for w in record["warnings"] if w.startswith("train: ")]
    unknown, script = warnings
    assert "are not in the encoder's vocabulary" in unknown
    assert "of the letters are Cyrillic, and 0 of the" in script
    for warning in warnings:
        assert f"Unknown tokens: {warning}" in caplog.text
