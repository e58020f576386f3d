"""The order of encoders, from probes that are written here."""

import numpy as np
import pytest

from tf_transfer.baselines import probe, ranking
from tf_transfer.training import records
from tf_transfer.utils.errors import UserError

NOISE = np.array([-2, 2, 0, 1, -1]) / 100


@pytest.fixture
def fit(tmp_path):
    """Function from an encoder to the directory of its probe, as in a run."""

    def make(model):
        scores, seconds = probes[model]
        directory = records.RunDirectory(
            str(tmp_path / model), {"model": model}
        )
        (tmp_path / model).mkdir()
        directory.write_profile(
            {
                "metric": "accuracy",
                "texts": 100,
                "states": "mean, block 1",
                "fold_scores": list(scores),
                "blocks_needed": 1,
                "blocks": [
                    {
                        "block": block,
                        "score": 0.5,
                        "standard_error": 0.1,
                        "strength": 1.0,
                    }
                    for block in range(3)
                ],
            }
        )
        directory.write_result(
            {
                **dict.fromkeys(("lr", "batch_size", "test", "best_epoch")),
                **dict.fromkeys(("seconds_per_epoch", "prefix_seconds")),
                "task": "news",
                "metric": "accuracy",
                "approach": "probe",
                "seed": 0,
                "validation": {"accuracy": 0.5},
                "epochs_run": 1,
                "stop_reason": "one held-out set",
                "train_seconds": 1.0,
                "prefix_build_seconds": 1.0,
                "trainable_parameters": 1000,
                "total_parameters": 2_001_000,
                "seconds_per_text": seconds,
                "size_on_disk": 8_000_000,
                "warnings": warnings.get(model, []),
            }
        )
        calls.append(model)
        return directory.path

    probes, calls, warnings = {}, [], {}
    make.probes, make.calls, make.warnings = probes, calls, warnings
    return make


def test_the_fastest_within_a_standard_error_of_the_best_comes_first(fit):
    fit.probes.update(
        slow=(0.80 + NOISE, 0.100),
        fast=(0.799 + NOISE[::-1], 0.010),
        poor=(0.60 + NOISE, 0.001),
        even=(0.7985 + NOISE[::-1], 0.009),
    )
    made = ranking.rank_encoders(fit.probes, fit)
    assert [*made.runs.index] == ["fast", "slow", "even", "poor"]
    assert made.model == "fast" and "Use fast," in made.text
    poor = made.runs.difference["poor"]
    assert poor.value == pytest.approx(-20) and poor.error < 1e-9


def test_a_difference_is_paired_over_the_folds(fit):
    draw = np.random.default_rng(0)
    hard, noise = draw.normal(0, 0.1, 5), draw.normal(0, 0.001, 5)
    fit.probes.update(one=(0.8 + hard, 1.0), other=(0.79 + hard + noise, 0.1))
    made = ranking.rank_encoders(fit.probes, fit)
    loss = made.runs.difference["other"]
    assert loss.value == pytest.approx(100 * (noise.mean() - 0.01))
    assert loss.error == pytest.approx(probe.standard_error(100 * noise))
    assert loss.freedom == 4
    assert made.model == "one"  # ten times as slow, and shown to be better


def test_the_table_has_each_encoder_s_score_and_costs(fit):
    fit.probes["minilm"] = 0.8 + NOISE, 0.0123
    [_, titles, row] = ranking.rank_encoders(["minilm"], fit).text.splitlines()
    assert titles.split()[:2] == ["encoder", "accuracy"]
    cells = [cell.strip() for cell in row.split("  ") if cell]
    assert cells == ["minilm", "80.0", "+0.0", "12.3", "2 M", "8 MB", "1 of 2"]


def test_an_unusable_encoder_is_named_and_the_others_are_ranked(fit):
    def fit_or_fail(model):
        if model in fit.probes:
            return fit(model)
        raise UserError(f"--model={model}: no such\nfolder.")

    fit.probes["good"] = 0.8 + NOISE, 0.01
    made = ranking.rank_encoders(["bad", "good", "good", "bad"], fit_or_fail)
    assert fit.calls == ["good"] and [*made.runs.index] == ["good"]
    *_, last = made.text.splitlines()
    assert last == "Left out: bad (--model=bad: no such folder.)"
    with pytest.raises(UserError) as error:
        ranking.rank_encoders(["bad", "worse"], fit_or_fail)
    first, *reasons = str(error.value).splitlines()
    assert first == "--models: no encoder can be used."
    assert [reason.split()[2] for reason in reasons] == ["bad", "worse"]


def test_warnings_are_in_the_answer_with_the_encoders_that_have_them(fit):
    fit.probes.update(dict.fromkeys("abc", (0.8 + NOISE, 0.01)))
    rare, unknown = "news: 1 labels", "train: 9 % of the tokens are unknown."
    fit.warnings.update(a=[rare], b=[rare, unknown, unknown], c=[rare])
    *_, first, second = ranking.rank_encoders("abc", fit).text.splitlines()
    assert [first, second] == [f"a, b and c: {rare}", f"b: {unknown}"]
