"""The presets are keras-hub's own."""

import keras_hub

from tf_transfer.models import presets


def test_the_presets_are_those_of_the_installed_release():
    """Keras-hub adds those of families whose classes derive from BERT's."""
    theirs = {
        **keras_hub.models.BertBackbone.presets,
        **keras_hub.models.RobertaBackbone.presets,
    }
    ours = presets.read_presets()
    assert len(ours) > 10
    assert ours == {name: theirs.get(name) for name in ours}
    others = set(theirs) - set(ours)
    assert not [n for n in others if n.startswith(("bert_", "roberta_"))]
