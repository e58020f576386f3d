"""DenseNet beside [CLS], against NumPy."""

import numpy as np

from tests.stacking.heads import reference

SIZES = {"blocks": 2, "depth": 3, "growth": 4}


def convolve(x, kernel, bias):
    """A convolution over neighbours, with zeros beyond both ends."""
    span = len(kernel)
    wide = np.pad(x, ((span // 2, span // 2), (0, 0)))
    return np.stack(
        [
            np.einsum("kd,kdc->c", wide[place : place + span], kernel) + bias
            for place in range(len(x))
        ]
    )


def expected(head, text, state=None):
    *weights, kernel, bias = reference.arrays(head)
    vectors = [text[0] if state is None else state]
    for block in np.split(np.arange(len(weights)), SIZES["blocks"]):
        outputs = []
        for place in block[::2]:
            before = np.concatenate([text, *outputs], axis=1)
            x = reference.relu(convolve(before, *weights[place : place + 2]))
            outputs.append(x + outputs[-1] if outputs else x)
        vectors.append(np.concatenate(outputs, axis=1).max(axis=0))
    return np.concatenate(vectors) @ kernel + bias


def test_a_convolution_reads_all_before_it_and_adds_the_last():
    head = reference.build_head("text", "densenet", units=3, **SIZES)
    logits = head(*reference.inputs(padding=2)).numpy()
    for row, text in enumerate(reference.texts()):
        np.testing.assert_allclose(logits[row], expected(head, text), atol=1e-4)


def test_with_embeddings_only_cls_is_of_the_last_block():
    head = reference.build_head(
        "text", "densenet", units=3, reads_embeddings=1, **SIZES
    )
    states, mask = reference.inputs(padding=2)
    other = np.flip(states, axis=2)  # in place of the embeddings
    logits = head(states, mask, embedded=other).numpy()
    assert head.further_inputs == ("embedded",)
    for row, text in enumerate(reference.texts()):
        ours = expected(head, text[:, ::-1], state=text[0])
        np.testing.assert_allclose(logits[row], ours, atol=1e-4)


def test_four_blocks_have_four_convolutions_each():
    head = reference.build_head("text", "densenet")
    widths = [c.kernel.shape[1] for c in head.convolutions]
    assert widths == 4 * [reference.HIDDEN + 64 * place for place in range(4)]
    assert {c.kernel.shape[2] for c in head.convolutions} == {64}
