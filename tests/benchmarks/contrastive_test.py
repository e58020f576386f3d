"""The comparison with a contrastive stage pairs its scores rightly."""

import pytest

from benchmarks import contrastive, contrastive_tasks

LAST_2 = contrastive.name_stage(2)
LAST_6 = contrastive.name_stage(6)


def make_case(task, draw, probe, regression, stage, **others):
    return {
        "task": task,
        "size": 8,
        "draw": draw,
        "probe": probe,
        "regression": regression,
        LAST_2: stage,
        f"{LAST_2}, s": 7.0,
        **others,
    }


def test_differences_are_averaged_within_tasks_and_then_over_them():
    deep = {LAST_6: 70.0, f"{LAST_6}, s": 20.0}
    cases = [
        make_case("sst2", 0, 60.0, 62.0, 64.0, **deep),
        make_case("sst2", 1, 62.0, 62.0, 66.0),
        make_case("tweets", 0, 70.0, 71.0, 70.0, **deep),
        make_case("tweets", 1, 70.0, 71.0, 72.0),
    ]
    table = contrastive.make_table(cases)
    assert f"{LAST_2}, 2 draws" in table and f"{LAST_6}, 1 draws" in table
    assert "takes 7 seconds" in table and "takes 20 seconds" in table
    # Over the probe +4 and +1: mean 2.5, deviation 2.12, by the root of 2.
    mean = "| 8 | mean | 65.5 | 66.5 | 68.0 | +2.5 ± 1.5 | +1.5 ± 1.5 |"
    assert mean in table
    assert "| 8 | sst2 | 61.0 | 62.0 | 65.0 | +4.0 | +3.0 |" in table
    assert "| 8 | sst2 | 60.0 | 62.0 | 70.0 | +10.0 | +8.0 |" in table


@pytest.mark.parametrize("name", contrastive_tasks.TASKS)
@pytest.mark.shared
def test_each_task_has_texts_with_enough_labels(name, shared_data):
    table = contrastive_tasks.TASKS[name](shared_data)
    rows = table.sample(frac=1, random_state=0)[contrastive.TESTED :]
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
