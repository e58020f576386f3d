"""Scores of any size are learned as their differences are."""

import numpy as np
import pytest

from tests.support import own_data
from tf_transfer import train
from tf_transfer.own import table_source, task_file
from tf_transfer.utils.errors import UserError

OFFSETS = (0, 1e6, 2**24, 1.7e9)


def open_scores(path, scores):
    texts = [f"{text} {n}" for n, text in enumerate(own_data.news(200)["body"])]
    columns = {"text": texts[: len(scores)], "score": scores}
    return task_file.from_flags(
        own_data.write(path, columns), "", "text", "score", "score"
    )


@pytest.mark.slow  # fits many regressions
@pytest.mark.usefixtures("one_block", "eager")
@pytest.mark.parametrize(
    "features",
    [
        pytest.param("bert", marks=pytest.mark.slow),
        pytest.param("frozen", marks=pytest.mark.slow),
        "tfidf",
    ],
)
def test_an_offset_of_the_scores_changes_no_rank(features, tmp_path):
    ranks = np.random.default_rng(0).permutation(200)
    spearman, spread = [], []
    for number, offset in enumerate(OFFSETS):
        table = tmp_path / f"{number}.csv"
        open_scores(table, [offset + float(rank) for rank in ranks])
        usual = {"max_epochs": 2, "lr": 1e-3, "trainable_layers": "1"}
        settings = train.Settings(
            data=str(table),
            text_column="text",
            label_column="score",
            kind="score",
            features=features,
            max_length=16,
            model="tiny",
            baseline=False,
            out=str(tmp_path / "runs"),
            **(usual if features == "bert" else {}),
        )
        result = train.run(settings)
        spearman.append(
            [result.scores[kind]["spearman"] for kind in ("validation", "test")]
        )
        arrays = np.load(f"{result.directory}/predictions.npz")
        labels, logits = arrays["test_labels"], arrays["test_logits"]
        assert set(labels - offset) <= set(range(200))
        spread.append(logits[:, 0] - offset)
    assert spearman == [spearman[0]] * 4 and spearman[0] != [0, 0]
    for others in spread[1:]:
        # The standard deviation is 58, and features are float32.
        np.testing.assert_allclose(others, spread[0], atol=5e-3)


@pytest.mark.parametrize("unit", [1e306, 1e-300])
def test_scores_beyond_float32_are_refused(unit, tmp_path):
    scores = [unit * number for number in range(60)]
    task = open_scores(tmp_path / "a.csv", scores)
    with pytest.raises(UserError, match="column 'score': has scores from 0 to"):
        _ = table_source.TableSource(task).task


def test_scores_of_a_table_keep_all_digits(tmp_path):
    scores = [1.7e9 + number / 16 for number in range(60)]
    task = open_scores(tmp_path / "a.csv", scores)
    source = table_source.TableSource(task)
    assert source.read_all("train").labels.tolist() == scores
