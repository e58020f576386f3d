"""The pooling that an encoder of sentences was tuned with."""

import json

import pytest

from tf_transfer.models.sentence_encoders import find_pooling


@pytest.mark.parametrize(
    "modes, pooling",
    [
        ({"pooling_mode_mean_tokens": True}, "mean"),
        ({"pooling_mode_cls_token": True}, "cls_state"),
        ({"pooling_mode_max_tokens": True}, ""),
        (
            {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": True},
            "",
        ),
    ],
)
def test_a_folder_says_how_it_was_tuned(tmp_path, modes, pooling):
    (tmp_path / "1_Pooling").mkdir()
    file = tmp_path / "1_Pooling" / "config.json"
    file.write_text(json.dumps({"word_embedding_dimension": 384, **modes}))
    assert find_pooling(str(tmp_path)) == pooling
    file.write_text("{")
    assert find_pooling(str(tmp_path)) == ""


def test_no_other_encoder_has_one(tmp_path):
    assert find_pooling("minilm") == "mean"
    assert find_pooling("bert_base_en_uncased") == find_pooling("tiny") == ""
    assert find_pooling(str(tmp_path)) == ""
