"""Files of ours that were damaged: found out, told, and never believed."""

import os
import pathlib
import shutil

import numpy as np
import pytest

from tests.attack import damage
from tests.reports import synthetic
from tests.support import commands
from tests.sweeps import fakes
from tf_transfer import report
from tf_transfer.comparison import predictions as predictions_lib
from tf_transfer.feature_cache import store as store_lib
from tf_transfer.reports import reading, summary as summary_lib
from tf_transfer.sweeps.states import RunStates, State
from tf_transfer.training import checkpoint
from tf_transfer.utils.errors import UserError

LABELS = np.arange(20) % 2


def write_run(root, seed):
    logits = np.random.default_rng(seed).normal(size=[20, 1])
    return pathlib.Path(
        synthetic.write(
            root,
            [0.5, 0.6 + seed / 100],
            seed=seed,
            predictions=(LABELS, np.float32(logits)),
        )
    )


def read(folder):
    """What a report knows of a run, its predictions too; None if left out."""
    try:
        record = reading.read_run(str(folder), str(folder))
    except reading.LeftOut as reason:
        assert len(str(reason).splitlines()) == 1 and len(str(reason)) < 500
        return None
    predictions = predictions_lib.Predictions("")
    arrays = predictions.read_split(record, "test")
    if predictions.damaged:
        return None
    return repr([record, [array.tolist() for array in arrays.values()]])


def test_a_damaged_run_is_left_out_or_read_as_it_was(attempts, rng, tmp_path):
    """Each file of a run, damaged or another run's."""
    whole, other = write_run(tmp_path / "a", 0), write_run(tmp_path / "b", 1)
    expected = read(whole)
    names = sorted(path.name for path in whole.iterdir())
    left_out = 0
    for _ in range(attempts(4000)):
        name = rng.choice(names)
        path = whole / name
        content = path.read_bytes()
        damage.damage_file(rng, path, (other / name).read_bytes())
        found = read(whole)
        assert found in (None, expected), path.read_bytes()
        left_out += found is None
        path.write_bytes(content)
    assert left_out > 0.9 * attempts(4000)
    assert read(whole) == expected


def test_a_report_shows_the_complete_runs_and_names_the_damaged(
    attempts, rng, tmp_path, capsys
):
    for round_number in range(attempts(20)):
        root = tmp_path / str(round_number)
        folders = [write_run(root, seed) for seed in range(22)]
        for folder in folders[2:]:
            name = rng.choice(sorted(os.listdir(folder)))
            damage.damage_file(rng, folder / name)
        words = [f"--out={root / 'out'}"]
        code = commands.call(
            lambda root=root: report.main(["report", str(root)]),
            report.Settings,
            *words,
        )
        out, err = capsys.readouterr()
        assert code == 0, err
        assert out.count("Not shown: ") > 8  # predictions are not all read
        shutil.rmtree(root)


def test_a_damaged_summary_is_refused_in_two_lines(attempts, rng, tmp_path):
    write_run(tmp_path, 0)
    path = tmp_path / "summary.json"
    whole = summary_lib.to_json(summary_lib.summarize_folder(str(tmp_path)))
    path.write_text(whole)
    expected = summary_lib.read_summary(str(path))
    for _ in range(attempts(1000)):
        path.write_text(whole)
        damage.damage_file(rng, path)
        try:
            assert summary_lib.read_summary(str(path)) == expected
        except UserError as error:
            assert len(str(error).splitlines()) <= 2


def test_a_damaged_checkpoint_is_not_taken(attempts, rng, tmp_path):
    """Not even another run's; the one before is, if it is whole."""

    def save(name):
        saved = checkpoint.Checkpoints(str(tmp_path / name), name)
        for step in (1, 2):
            arrays = {"w": np.full(9, step + len(name), np.float32)}
            saved.save(step, arrays, {"step": step, "name": name})
        return saved

    ours, theirs = save("a"), save("other")
    names = sorted(os.listdir(ours.folder))
    contents = {name: (tmp_path / "a" / name).read_bytes() for name in names}
    fell_back = False
    for _ in range(attempts(2000)):
        for name in rng.sample(names, rng.choice((1, 1, 2, 4))):
            other = (tmp_path / "other" / name).read_bytes()
            damage.damage_file(rng, tmp_path / "a" / name, other)
        try:
            arrays, state = ours.newest(repair=False)
            fell_back |= state["step"] == 1
            assert state == {"step": state["step"], "name": "a"}
            np.testing.assert_array_equal(arrays["w"], [state["step"] + 1] * 9)
        except UserError as error:
            assert "no checkpoint in it is intact" in str(error)
        for name, content in contents.items():
            (tmp_path / "a" / name).write_bytes(content)
    assert fell_back and theirs.newest(repair=False) is not None


def test_no_vector_of_a_damaged_cache_is_wrong(attempts, rng, tmp_path):
    """Entries damaged, and files exchanged between two of them."""

    def key(name):
        return {"weights": name, "cut": 1, "hidden": 8, "dtype": "float16"}

    store = store_lib.Store(str(tmp_path / "good"))
    draw = np.random.default_rng(0)
    expected = {}
    for name in ("one", "two"):
        entry = store.open(key(name), "tiny")
        for part in range(2):
            hashes = [bytes([part, n]) + bytes(14) for n in range(6)]
            vectors = [
                np.float16(draw.normal(size=(n + 1, 8))) for n in range(6)
            ]
            entry.vectors.append(hashes, range(1, 7), vectors, 1.0)
            for row_hash, vector in zip(hashes, vectors):
                expected[name, row_hash] = vector
        entry.close()
    good = pathlib.Path(store.folder)
    folders = {name: store_lib.name_of(key(name)) for name in ("one", "two")}
    for number in range(attempts(2000)):
        bad = tmp_path / "bad" / "prefix"
        shutil.copytree(good, bad)
        ours, theirs = (bad / folders[name] for name in ("one", "two"))
        names = sorted(path.name for path in ours.iterdir())
        names = [name for name in names if not name.endswith(".lock")]
        kind = rng.randrange(4)
        if kind == 0:  # the folders are exchanged
            ours.rename(bad / "swap")
            theirs.rename(ours)
            (bad / "swap").rename(theirs)
        elif kind == 1:
            for name in rng.sample(names, rng.randrange(1, len(names))):
                shutil.copy(theirs / name, ours / name)
        elif kind == 2:
            (ours / rng.choice(names)).unlink()
        else:
            name = rng.choice(names)
            other = (theirs / name).read_bytes()
            damage.damage_file(rng, ours / name, other)
        entry = store_lib.Store(str(tmp_path / "bad")).open(key("one"), "tiny")
        hashes = [row_hash for name, row_hash in expected if name == "one"]
        indices, _ = entry.vectors.find_intact(hashes)
        if kind == 0 or number == 0:
            assert (indices < 0).all() or kind
        for row_hash, index in zip(hashes, indices):
            if index >= 0:
                with open(entry.vectors.path, "rb") as file:
                    row = entry.vectors.table[index]
                    file.seek(int(row["start"]) * entry.vectors.vector_bytes)
                    size = int(row["length"]) * entry.vectors.vector_bytes
                    assert (
                        file.read(size) == expected["one", row_hash].tobytes()
                    )
        entry.close()
        shutil.rmtree(tmp_path / "bad")


def test_a_sweep_continues_next_to_damaged_records(attempts, rng, tmp_path):
    runs = fakes.plan_runs(tmp_path, 4)
    for run in runs[:3]:
        fakes.finish(run)
    failed = tmp_path / ".sweep" / "failed" / f"{runs[3].name}.json"
    failed.parent.mkdir(parents=True)
    files = [failed]
    failed.write_text('{"reason": "exit code 1", "last_lines": ["x"]}')
    for run in runs[:3]:
        folder = pathlib.Path(run.directory.path)
        files += [folder / "result.json", folder / "config.json"]
    contents = {path: path.read_bytes() for path in files}
    for _ in range(attempts(500)):
        path = rng.choice(files)
        damage.damage_file(rng, path)
        states = RunStates(str(tmp_path), runs)
        found = states.read_states()
        assert set(found) == {run.name for run in runs}
        for run in runs:
            if found[run.name] == State.FINISHED:
                assert states.result(run)["task"]
        path.write_bytes(contents[path])


@pytest.mark.parametrize("content", ["{}", "[]", "null", '{"version": []}'])
def test_a_summary_of_another_shape_is_refused(content, tmp_path):
    path = tmp_path / "summary.json"
    path.write_text(content)
    with pytest.raises(UserError, match="is not a summary|another version"):
        summary_lib.read_summary(str(path))
