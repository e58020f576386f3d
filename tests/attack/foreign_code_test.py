"""Pickled arrays, and models that name functions to call: none of it runs."""

import json

import numpy as np
import pytest

from tests.attack import files_test
from tests.models import encoders, saving
from tests.support.cache_entries import KEY, rows
from tf_transfer.feature_cache import store as store_lib
from tf_transfer.models import loading
from tf_transfer.training import records
from tf_transfer.utils.errors import UserError


class Touch:
    """Makes a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def test_no_pickled_array_is_loaded_from_a_cache(tmp_path):
    store = store_lib.Store(str(tmp_path))
    entry = store.open(KEY, "tiny")
    entry.vectors.append(*rows(3, 5), 1.0)
    with np.load(entry.file("rows-00000.npz")) as segment:
        arrays = dict(segment)
    for name in arrays:
        evil = np.array([Touch(tmp_path / "evil")], object)
        np.savez(entry.file("rows-00000.npz"), **{**arrays, name: evil})
        entry.vectors.load()
        assert not entry.vectors.rows and entry.vectors.unreadable == [
            "rows-00000.npz"
        ]
    assert not (tmp_path / "evil").exists()


def test_no_pickled_array_is_loaded_from_predictions(tmp_path):
    """Whoever can write them can write their hash as well."""
    run = files_test.write_run(tmp_path / "runs", 0)
    path = run / "predictions.npz"
    with np.load(path) as predictions:
        arrays = dict(predictions)
    result = json.loads((run / "result.json").read_text())
    key = json.loads((run / "config.json").read_text())["key"]
    del result["result_sha256"]
    for name in arrays:
        evil = np.array([Touch(tmp_path / "evil")], object)
        np.savez(path, **{**arrays, name: evil})
        records.RunDirectory(str(run), key).write_result({**result})
        assert files_test.read(run) is None
    np.savez(path, **arrays)
    records.RunDirectory(str(run), key).write_result({**result})
    assert files_test.read(run) is not None
    assert not (tmp_path / "evil").exists()


CALLS = (
    {"module": "os", "class_name": "system", "config": "touch {path}"},
    {
        "module": "subprocess",
        "class_name": "Popen",
        "config": {"args": ["touch", "{path}"]},
        "registered_name": "Popen",
    },
    {"class_name": "__lambda__", "config": {"value": "e30="}},
)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["config.json", "tokenizer.json"])
@pytest.mark.parametrize("call", CALLS)
def test_no_function_that_a_preset_names_is_called(call, name, tmp_path):
    folder, evil = tmp_path / "preset", tmp_path / "evil"
    saving.as_keras(encoders.FAMILIES["bert"](), str(folder))
    call = json.loads(json.dumps(call).replace("{path}", str(evil)))
    content = json.loads((folder / name).read_text())
    fields = content["config"]
    hostile = [{**content, **call}]
    hostile += [{**content, "config": {**fields, key: call}} for key in fields]
    for changed in hostile:
        (folder / name).write_text(json.dumps(changed))
        try:
            loading.load(str(folder), str(tmp_path), 0.1)
        except UserError as error:
            assert "--model=" in str(error)
        assert not evil.exists()
