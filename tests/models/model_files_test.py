"""Weights are where `transformers` looks for them; other files are named."""

import json

import numpy as np
import pytest
import safetensors.numpy

from tests.models.their_folders import load
from tf_transfer.models import loading, model_files
from tf_transfer.utils.errors import UserError
from tf_transfer.utils.json_files import Damaged

POINTER = (
    "version https://git-lfs.github.com/spec/v1\n"
    f"oid sha256:{'4d7a2146' * 8}\n"
    "size 231508\n"
)


def words_of(folder):
    """The table of words that the folder's encoder has."""
    return load(folder).backbone.token_embedding.embeddings.numpy()


def read_arrays(folder):
    return safetensors.numpy.load((folder / "model.safetensors").read_bytes())


def write(path, arrays):
    path.write_bytes(safetensors.numpy.save(arrays))


def shard(folder):
    """Writes two shards and their index in place of `model.safetensors`."""
    arrays = read_arrays(folder)
    (folder / "model.safetensors").unlink()
    names = sorted(arrays)
    file_of = {}
    for number, some in enumerate((names[::2], names[1::2]), 1):
        name = f"model-0000{number}-of-00002.safetensors"
        write(folder / name, {n: arrays[n] for n in some})
        file_of |= dict.fromkeys(some, name)
    index = {"metadata": {}, "weight_map": file_of}
    path = folder / "model.safetensors.index.json"
    path.write_text(json.dumps(index))
    return arrays


# === Weights ===


@pytest.mark.parametrize(
    "name", ["original.safetensors", "model-00002-of-00002.safetensors"]
)
def test_another_file_of_weights_is_named_and_not_read(folder, name, capsys):
    words, identity = words_of(folder), loading.identify(str(folder), "")
    other = {n: array + 1 for n, array in read_arrays(folder).items()}
    write(folder / name, other)
    np.testing.assert_array_equal(words_of(folder), words)
    assert capsys.readouterr().err.endswith(f"Not read: {name}.\n")
    assert loading.identify(str(folder), "") == identity
    size = (folder / "model.safetensors").stat().st_size
    assert loading.size_on_disk(str(folder), "") == size


def test_the_index_names_the_files_with_the_weights(folder, capsys):
    words = words_of(folder)
    arrays = shard(folder)
    old = {n: array + 1 for n, array in arrays.items()}
    write(folder / "model-00003-of-00003.safetensors", old)
    np.testing.assert_array_equal(words_of(folder), words)
    assert "Not read: model-00003-of-00003.saf" in capsys.readouterr().err


def test_one_file_has_precedence_over_an_index(folder):
    arrays = shard(folder)
    write(folder / "model.safetensors", {n: -a for n, a in arrays.items()})
    [name] = [n for n in arrays if n.endswith("word_embeddings.weight")]
    np.testing.assert_array_equal(words_of(folder), -arrays[name])


def test_a_weight_in_two_files_is_that_of_the_file_in_the_index(tmp_path):
    index = {"weight_map": {"a": "2", "b": "1"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    for name in "12":
        (tmp_path / name).touch()
    found = model_files.find_weights(str(tmp_path))
    assert found == (["1", "2"], {"a": "2", "b": "1"})


@pytest.mark.parametrize(
    "name", ["model-00002.safetensors", "../there", "/dev/null"]
)
def test_an_index_names_files_of_its_folder(tmp_path, name):
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "there").touch()
    index = {"weight_map": {"a": name}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(UserError, match=f"has no {name}, which model.safe"):
        model_files.find_weights(str(folder))


@pytest.mark.parametrize("content", ["{", '{"weight_map": ["a"]}', "{}"])
def test_a_damaged_index_is_refused(tmp_path, content):
    (tmp_path / "model.safetensors.index.json").write_text(content)
    with pytest.raises(Damaged, match="index.json: is damaged"):
        model_files.find_weights(str(tmp_path))


def test_weights_of_keras_alone_are_none_of_transformers(folder):
    (folder / "model.safetensors").rename(folder / "model.weights.h5")
    with pytest.raises(UserError, match="is not a model folder"):
        loading.identify(str(folder), "")


@pytest.mark.parametrize("name", sorted(model_files.OTHER_WEIGHTS))
def test_weights_of_another_library_are_named(folder, name):
    (folder / "model.safetensors").rename(folder / name)
    with pytest.raises(UserError, match=f"{name} is not read: save_pretrained"):
        loading.identify(str(folder), "")


def test_a_broken_link_is_the_file_that_is_missing(folder):
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors").symlink_to("nowhere")
    with pytest.raises(FileNotFoundError, match="model.safetensors'"):
        loading.identify(str(folder), "")


# === Git LFS ===


@pytest.mark.parametrize(
    "name",
    [
        *("vocab.txt", "config.json", "model.safetensors", "tokenizer.json"),
        *("sentencepiece.bpe.model", "model.safetensors.index.json"),
        "assets/tokenizer/vocabulary.txt",
    ],
)
def test_a_pointer_of_git_lfs_is_refused(folder, name):
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    if name.endswith("index.json"):
        (folder / "model.safetensors").unlink()
    (folder / name).write_text(POINTER)
    with pytest.raises(UserError, match=f"{name} is a Git LFS .*git lfs pull"):
        loading.identify(str(folder), "")


def test_a_shard_that_is_a_pointer_is_refused(folder):
    shard(folder)
    (folder / "model-00002-of-00002.safetensors").write_text(POINTER)
    with pytest.raises(UserError, match="model-00002.* is a Git LFS pointer"):
        loading.identify(str(folder), "")


@pytest.mark.parametrize("name", ["tf_model.h5", "old.safetensors", "x.txt"])
def test_a_pointer_that_is_not_read_may_stay(folder, name):
    (folder / name).write_text(POINTER)
    loading.identify(str(folder), "")
