"""The tweets module: its settings, and how a user's table is split."""

import contextlib

import numpy as np
import pytest

from tests.support import tweets_table
from tests.support.tweets_table import parsed
from tf_transfer.config import command_line
from tf_transfer.tweets import experiment as tweets
from tf_transfer.utils.errors import UserError


@pytest.fixture
def table(tmp_path):
    """A user's table: its path."""
    return tweets_table.write(tmp_path)


# === Settings ===


def test_defaults_are_the_author_s(table, tmp_path):
    settings = command_line.parse(
        tweets.Settings, [f"--data={table}"]
    ).resolve()
    assert settings.model == "bert_base_en"  # cased
    assert (settings.lr, settings.batch_size) == (5e-5, 32)
    assert (settings.max_epochs, settings.max_length) == (3, 128)
    assert (settings.schedule, settings.warmup_fraction) == ("linear", 0.1)
    assert (settings.weight_decay, settings.adam_epsilon) == (0.01, 1e-6)
    assert not settings.bias_correction
    assert (settings.select, settings.validation_fraction) == ("last", 0.0)
    assert (settings.folds, settings.fold_seed) == (10, 57)


def test_the_pooler_is_frozen_where_no_block_trains(table, tmp_path):
    def pooler(*words):
        settings = parsed(table, tmp_path, *words)
        return tweets.Tweets(settings).trainable(3).includes("pooler")

    assert not pooler("--trainable_layers=0")
    assert pooler("--trainable_layers=2") and pooler()
    assert pooler("--blocks=1-2")
    assert pooler("--trainable_layers=0", "--pooler=trained")
    # RoBERTa's is new.
    assert pooler("--trainable_layers=0", "--model=roberta_base_en")
    with pytest.raises(UserError, match="--pooler=frozen: this encoder comes"):
        pooler(
            "--trainable_layers=0", "--model=roberta_base_en", "--pooler=frozen"
        )


@pytest.mark.parametrize(
    "words, said",
    [
        (["--data="], "--data: give the CSV"),
        (["--pooler=half"], "--pooler=half"),
        (["--pooler=frozen"], "--pooler=frozen: --trainable_layers=all"),
        (["--test_fraction=1"], "--test_fraction=1"),
        (["--features=words"], "--features"),
        (["--clean=all"], "--clean"),
        (["--features=count", "--describe"], "--describe: --features=count"),
    ],
)
def test_bad_flags_are_named(table, tmp_path, words, said):
    with pytest.raises(UserError, match=said):
        parsed(table, tmp_path, *words)


def test_the_last_four_blocks_may_be_what_the_head_reads(table, tmp_path):
    assert parsed(table, tmp_path).pooling == "cls"
    last4 = parsed(table, tmp_path, "--pooling=last4")
    assert last4.hashed()["pooling"] == "last4"


# === The table ===


def test_how_a_file_is_read_and_split_is_part_of_its_identity(table, tmp_path):
    def identity(*words):
        return tweets.Tweets(
            parsed(table, tmp_path, *words)
        ).data.source.identity

    changes = (
        ["--encoding=latin-1"],
        ["--clean=basic"],
        ["--duplicates=group"],
        ["--test_fraction=0.2"],
        ["--split_seed=1"],
        ["--label_column=number", "--text_column=target"],
        ["--keyword_column=target"],
    )
    identities = []
    for words in changes:
        with contextlib.suppress(UserError):  # of labels that are none
            identities.append(identity(*words))
    assert len({identity(), *identities}) == len(identities) + 1 >= 7


def test_the_table_is_split_once_for_every_trial(table, tmp_path):
    one = tweets.Tweets(parsed(table, tmp_path, "--seed=0")).data.source
    other = tweets.Tweets(parsed(table, tmp_path, "--seed=1")).data.source
    assert one.read("test").ids.tolist() == other.read("test").ids.tolist()
    assert len(one.read("test")) == 7 and len(one.read("train")) == 55


def test_the_ids_that_are_tested_may_be_given(table, tmp_path):
    ids = tmp_path / "ids.txt"
    ids.write_text("60\n3\n")
    settings = parsed(table, tmp_path, f"--test_ids={ids}")
    source = tweets.Tweets(settings).data.source
    assert source.read("test").ids.tolist() == [3, 60]
    assert len(source.read("train")) == 60
    before = source.identity
    ids.write_text("60\n4\n")
    assert tweets.Tweets(settings).data.source.identity != before
    grouped = parsed(table, tmp_path, f"--test_ids={ids}", "--duplicates=group")
    assert 61 not in tweets.Tweets(grouped).data.source.read("train").ids


def test_nothing_left_to_train_on_is_named(table, tmp_path):
    ids = tmp_path / "ids.txt"
    ids.write_text("\n".join(map(str, range(62))))
    settings = parsed(table, tmp_path, f"--test_ids={ids}")
    with pytest.raises(UserError, match="mine.csv: leaves no rows to train"):
        tweets.Tweets(settings).data.source.read("train")


def test_validation_is_kept_apart_from_training_too(table, tmp_path):
    settings = parsed(table, tmp_path, "--duplicates=group")
    source = tweets.Tweets(settings).data.source
    groups = source.group(np.array([60, 0, 61]))
    assert groups is not None
    first, other, second = groups
    assert first == second != other


def test_a_probe_reads_which_weights_are_loaded(table, tmp_path):
    words = "--features=frozen", "--load_blocks=none"
    assert parsed(table, tmp_path, *words).hashed()["load_blocks"] == "none"
