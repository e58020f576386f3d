"""The comparison of contrastive training and the probe pairs its scores."""

import numpy as np
import pandas as pd
import pytest

from benchmarks import contrastive, contrastive_tasks


def make_case(task, draw, probe, trained):
    return {
        "task": task,
        "size": 8,
        "draw": draw,
        "probe": probe,
        "contrastive": trained,
    }


def test_differences_are_averaged_within_tasks_and_then_over_them():
    cases = [
        make_case("sst2", 0, 60.0, 64.0),
        make_case("sst2", 1, 62.0, 66.0),
        make_case("tweets", 0, 70.0, 70.0),
        make_case("tweets", 1, 70.0, 72.0),
    ]
    table = contrastive.make_table(cases)
    assert "2 draws" in table
    # +4 and +1: mean 2.5, deviation 2.12, by the root of 2.
    assert "| 8 | mean | 65.5 | 68.0 | +2.5 ± 1.5 |" in table
    assert "| 8 | sst2 | 61.0 | 65.0 | +4.0 |" in table


def test_a_draw_has_some_texts_of_each_class_and_none_of_the_test():
    texts = [f"text {number}" for number in range(400)]
    table = pd.DataFrame({"text": texts, "label": ["a", "b"] * 200})
    sources = [contrastive.Draw("sst2", table, 8, draw) for draw in (0, 1, 0)]
    trained = [source.read("train") for source in sources]
    assert [*np.bincount(trained[0].labels)] == [8, 8]
    tested = sources[0].read("dev")
    assert tested.texts == [texts[: contrastive.TEST_TEXTS]]
    assert not {*trained[0].ids} & {*tested.ids}
    assert trained[0].texts == trained[2].texts != trained[1].texts
    assert len({source.identity for source in sources}) == 2


@pytest.mark.parametrize("name", contrastive_tasks.TASKS)
@pytest.mark.shared
def test_each_task_has_texts_with_enough_labels(name, shared_data):
    table = contrastive_tasks.TASKS[name](shared_data)
    rows = table.sample(frac=1, random_state=0)[contrastive.TEST_TEXTS :]
    assert rows["label"].value_counts().min() >= max(contrastive.SIZES)
    assert rows["text"].str.len().min() > 0


def test_the_word_of_a_hazard_is_not_in_its_text(tmp_path):
    folder = tmp_path / "tweets"
    folder.mkdir()
    (folder / "train.csv").write_text(
        "id,keyword,location,text,target\n"
        "1,derailed,,A train derailment near us,1\n"
        "2,love,,I love it,0\n"
        "3,forest%20fire,,The Forests are on FIRE,1\n"
    )
    table = contrastive_tasks.read_hazards(str(tmp_path))
    assert table["label"].tolist() == ["traffic", "fire"]
    assert table["text"].tolist() == ["A train it near us", "The it are on it"]
