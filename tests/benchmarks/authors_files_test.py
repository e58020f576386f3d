"""The scripts that read the papers' authors' public files.

The folders are made up in the layout of the repositories. The marked tests
rebuild such folders from our copies of the results.
"""

import os
from collections import defaultdict

import pytest

from benchmarks import authors_trials, elsa_trials, hart_split
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
    write_trials(
        tmp_path,
        "baseline/roberta-base/WNLI/4e-5_acc.txt",
        ["2\t0.5\n", "1\n", "3\t0.1234567\n"],
    )
    counts = elsa_trials.write_tables(str(tmp_path), str(tmp_path))
    assert counts == [4, 2]
    assert (tmp_path / "elsa_trials.csv").read_text().splitlines() == [
        "model,task,metric,frozen_blocks,trained_blocks,seed,score",
        "bert-base,CoLA,matthews,0,all,1,0.600000",
        "bert-base,CoLA,matthews,10,2,2,0.441235",
        "bert-base,CoLA,matthews,10,2,1,0.500000",
        "roberta-large,STS-B,spearman,24,0,11,0.100000",
    ]
    assert (tmp_path / "elsa_search_trials.csv").read_text().splitlines() == [
        "model,task,metric,lr,seed,score",
        "roberta-base,WNLI,accuracy,4e-5,2,0.500000",
        "roberta-base,WNLI,accuracy,4e-5,3,0.123457",
    ]


def test_a_folder_without_the_trials_of_a_table_is_named(tmp_path):
    write_trials(tmp_path, "bert-base/CoLA/base-mcc.txt", ["1\t0.6\n"])
    with pytest.raises(UserError, match="no trials in exp_results.*4c40497c"):
        elsa_trials.write_tables(str(tmp_path), str(tmp_path))


@pytest.mark.shared
def test_our_tables_of_elsa_are_those_of_the_script(tmp_path, shared_data):
    papers = os.path.join(shared_data, "..", "papers")
    trials = defaultdict(list)
    suffixes = {
        (task, metric): suffix
        for task, metrics in elsa_trials.SEARCH_METRICS.items()
        for metric, suffix in metrics
    }
    for name in elsa_trials.SETTINGS:
        for row in authors_trials.read_table(os.path.join(papers, name)):
            model, task = row["model"], row["task"]
            suffix = suffixes[task, row["metric"]]
            if "lr" in row:
                place = f"baseline/{model}/{task}/{row['lr']}_{suffix}.txt"
            else:
                blocks = elsa_trials.BLOCKS[model]
                trained = blocks - int(row["frozen_blocks"])
                trained = elsa_trials.name_trained(blocks, trained)
                place = f"{model}/{task}/{trained}-{suffix}.txt"
            trials[place].append(f"{row['seed']}\t{row['score']}\n")
    for place, lines in trials.items():
        write_trials(tmp_path, place, lines)
    counts = elsa_trials.write_tables(str(tmp_path), str(tmp_path))
    assert counts == [2578, 1298]
    for name in elsa_trials.SETTINGS:
        made, ours = (
            [
                {**row, "score": float(row["score"])}
                for row in authors_trials.read_table(os.path.join(folder, name))
            ]
            for folder in (tmp_path, papers)
        )
        assert made == ours
