"""The registry: which head fits which task, and heads of one's own."""

import copy
import subprocess
import sys

import keras
import pytest

from tests.stacking.heads.heads_test import ALL
from tests.support.stacking_data import settings_of
from tf_transfer.models import tiny
from tf_transfer.models.heads.base_head import Head
from tf_transfer.stacking import experiment as stacking, heads
from tf_transfer.utils.errors import UserError

PATH = "tests.stacking.heads.registry_test:LinearHead"


class LinearHead(Head):
    """A head of one's own, such as a user would write."""

    def __init__(
        self,
        units: int,
        hidden: int,
        dropout: float,
        seed: int,
        dtype: str,
        **kwargs,
    ):
        super().__init__(units, hidden, dropout, seed, dtype, **kwargs)
        self.output_layer = self.build_logits(hidden)

    def call(self, states, mask, training=False):
        x = self.dropout(states, training=training)
        return self.output_layer(keras.ops.cast(x, "float32"))


@pytest.fixture
def registry(monkeypatch):
    """A copy of the registry, for this test alone."""
    monkeypatch.setattr(heads, "HEADS", copy.deepcopy(heads.HEADS))


@pytest.mark.parametrize("task, name", ALL)
def test_every_row_names_a_head(task, name):
    assert name in heads.HEADS[task]
    heads.check(task, name)
    assert issubclass(heads.load(task, name), Head)


def test_the_registry_imports_no_tensorflow():
    program = (
        "import sys; from tf_transfer.stacking import heads; "
        "heads.check('ner', 'bilstm'); heads.HEADS['pairs']; "
        "heads.register('ner', 'own', 'own_module:OwnHead'); "
        "sys.exit('tensorflow' in sys.modules or 'keras' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0


@pytest.mark.parametrize(
    "task, head, fitting",
    [
        ("ner", "bimpm", "--task=pairs"),
        ("text", "bilstm", "--task=ner"),
        ("pairs", "densenet", "--task=text"),
    ],
)
def test_a_head_that_does_not_fit_the_task_is_refused(task, head, fitting):
    with pytest.raises(UserError, match=f"--head={head}: fits {fitting}") as e:
        heads.load(task, head)(1, 8, 0.1, 0, "float32")
    assert all(name in str(e.value) for name in heads.HEADS[task])


def test_a_head_that_does_not_exist_is_refused():
    with pytest.raises(UserError, match="--head=lstm: there is no.* bilstm"):
        heads.check("ner", "lstm")


# === A head of one's own ===


def test_a_registered_head_trains(registry, monkeypatch, tmp_path, eager):
    monkeypatch.setattr(tiny, "BLOCKS", 1)
    heads.register("ner", "linear", PATH)
    settings = settings_of(
        tmp_path, head="linear", adaptation="joint", batch_size=32
    )
    result = stacking.run(settings).record
    assert result["approach"] == "joint_linear"
    assert result["phases"][0]["epochs"] == 1  # of one step


def test_a_name_means_one_head(registry):
    heads.register("ner", "linear", PATH)
    heads.register("ner", "linear", PATH)  # in a notebook's second run
    with pytest.raises(ValueError, match="'linear' of task kind 'ner' is test"):
        heads.register("ner", "linear", "elsewhere:LinearHead")
    heads.register("intent", "linear", PATH)
    assert [*heads.HEADS["intent"]] == ["linear"]
