"""The heads of "To Tune or Not To Tune?", arXiv 1907.05338, by name.

"Stack" is the paper's word for a head that is large. All of them are Keras
layers that share the interface of `head.Head`.
"""

from tf_transfer.models.heads import names
from tf_transfer.models.heads.bilstm import BiLSTMHead
from tf_transfer.models.heads.bimpm import BiMPMHead
from tf_transfer.models.heads.dense import DenseHead
from tf_transfer.models.heads.densenet import DenseNetHead
from tf_transfer.models.heads.highway import HighwayLSTMHead
from tf_transfer.models.heads.sim_transformer import SimTransformerHead

# By name, as in `--head`; `stack_names` tells which fits which task.
LAYERS = {
    "dense": DenseHead,
    "bilstm": BiLSTMHead,
    "densenet": DenseNetHead,
    "highway": HighwayLSTMHead,
    "bimpm": BiMPMHead,
    "bimpm_without_context": BiMPMHead,
    "sim_transformer": SimTransformerHead,
}
# Where a head is not as its class makes it.
OPTIONS = {
    ("ner", "dense"): {"pooling": "tokens"},
    ("pairs", "bimpm_without_context"): {"context_units": 0},
}


def build(task, head, units, hidden, dropout, seed, dtype, **kwargs):
    """A head, with its weights.

    Args:
        task, head: see `stack_names`.
        units: output units.
        hidden: width of the encoder's states.
        dropout, seed, dtype, others: see `head.Head`.

    Raises:
        UserError: the head does not fit the task, or there is none.
    """
    names.check(task, head)
    options = {**OPTIONS.get((task, head), {}), **kwargs}
    return LAYERS[head](units, hidden, dropout, seed, dtype, **options)
