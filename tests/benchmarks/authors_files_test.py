"""The scripts that read the papers' authors' public files.

The folders are made up in the layout of the repositories. The marked tests
rebuild such folders from our copies of the results.
"""

import csv
import os
from collections import defaultdict

import pytest

from benchmarks import elsa_trials, hart_split
from tf_transfer.utils.errors import UserError

HEADER = "id,keyword,location,text,target\n"


def write_tweets(folder, train, test):
    """Writes train.csv and test.csv as Hart's repository has them."""
    (folder / "data").mkdir()
    for name, ids in (("train", train), ("test", test)):
        rows = [f'{number},,"A, b","two\nlines",1\n' for number in ids]
        (folder / "data" / f"{name}.csv").write_text(HEADER + "".join(rows))


def test_hart_holds_out_his_test_file_and_draws_folds_on_both(tmp_path):
    write_tweets(tmp_path, [8708, 1707], [7005, 758, 2611])
    hart_split.write_split(str(tmp_path), str(tmp_path / "out"))
    out = tmp_path / "out"
    assert (out / "hart_test_ids.txt").read_text() == "758\n2611\n7005\n"
    order = (out / "hart_order.txt").read_text()
    assert order.split() == ["8708", "1707", "7005", "758", "2611"]


def test_a_folder_without_the_tweets_is_named(tmp_path):
    with pytest.raises(UserError, match="train.csv: no such file.*6016114"):
        hart_split.write_split(str(tmp_path), str(tmp_path))


@pytest.mark.shared
def test_our_files_of_hart_are_those_of_the_script(tmp_path, shared_data):
    tweets = os.path.join(shared_data, "tweets")
    with open(os.path.join(tweets, "hart_order.txt")) as file:
        order = file.read().split()
    write_tweets(tmp_path, order[:6851], order[6851:])
    hart_split.write_split(str(tmp_path), str(tmp_path))
    for name in (hart_split.TEST_IDS, hart_split.ORDER):
        with open(os.path.join(tweets, name)) as file:
            assert (tmp_path / name).read_text() == file.read()


def write_trials(folder, name, lines):
    path = folder / "exp_results" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(lines))


def test_elsa_trials_are_one_row_each(tmp_path):
    write_trials(
        tmp_path,
        "bert-base/CoLA/11_10-mcc.txt",
        ["2\t0.44123456789\n", "1\t0.5\n", "3\n", "\n"],
    )
    write_trials(tmp_path, "bert-base/CoLA/base-mcc.txt", ["1\t0.6\n"])
    write_trials(
        tmp_path, "roberta-large/STS-B/no_layer-spearmanr.txt", ["11\t0.1\n"]
    )
    write_trials(tmp_path, "bert-base/STS-B/base-pearson.txt", ["1\t0.9\n"])
    out = tmp_path / "trials.csv"
    assert elsa_trials.write_table(str(tmp_path), str(out)) == 4
    assert out.read_text().splitlines() == [
        "model,task,metric,frozen_blocks,trained_blocks,seed,score",
        "bert-base,CoLA,matthews,0,all,1,0.600000",
        "bert-base,CoLA,matthews,10,2,2,0.441235",
        "bert-base,CoLA,matthews,10,2,1,0.500000",
        "roberta-large,STS-B,spearman,24,0,11,0.100000",
    ]


def test_a_folder_without_trials_is_named(tmp_path):
    with pytest.raises(UserError, match="no trials in exp_results.*4c40497c"):
        elsa_trials.write_table(str(tmp_path), str(tmp_path / "trials.csv"))


@pytest.mark.shared
def test_our_table_of_elsa_is_that_of_the_script(tmp_path, shared_data):
    path = os.path.join(shared_data, "..", "papers", "elsa_trials.csv")
    with open(path, encoding="utf-8") as file:
        expected = file.read()
    trials = defaultdict(list)
    for row in csv.DictReader(expected.splitlines()):
        blocks = elsa_trials.BLOCKS[row["model"]]
        trained = blocks - int(row["frozen_blocks"])
        ending = elsa_trials.METRICS[row["task"]][1]
        name = f"{elsa_trials.name_trained(blocks, trained)}-{ending}.txt"
        trials[row["model"], row["task"], name].append(
            f"{row['seed']}\t{row['score']}\n"
        )
    for names, lines in trials.items():
        write_trials(tmp_path, os.path.join(*names), lines)
    out = tmp_path / "trials.csv"
    assert elsa_trials.write_table(str(tmp_path), str(out)) == 2578
    assert out.read_text() == expected
