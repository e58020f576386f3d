"""Folders of transformers give its states, tokens and answers."""

import numpy as np
import pytest
import tensorflow as tf

from tests.models import encoders, published
from tests.models.their_folders import (
    change,
    FOLDERS,
    load,
    network_of,
    save_bert,
    TEXTS,
)
from tf_transfer.models import (
    exports,
    sentence_pieces,
)


@pytest.mark.parametrize("name", FOLDERS)
def test_states_and_tokens_equal_those_of_transformers(name, tmp_path):
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    write, options = FOLDERS[name]
    model, tokenizer = write(tmp_path / "model", **options)
    encoder = load(tmp_path / "model")
    texts = TEXTS
    if isinstance(encoder.tokenizer, sentence_pieces.SentencePieces):
        # transformers composes few marks that are apart, see
        # docs/reference/tokens.md.
        texts = [text for text in texts if "ﾞ" not in text]
    ids = encoder.tokenizer.encode(texts)
    theirs = published.encode(tokenizer, texts)
    assert [row.tolist() for row in ids] == theirs

    rows = np.array([(row * 9)[:9] for row in theirs if row][:8], np.int32)
    segments = np.zeros_like(rows)
    if encoder.family == "bert":
        segments[:, 5:] = 1
    with torch.no_grad():
        # A DistilBERT takes no segments, and so do tokenizers without them.
        options = {}
        if encoder.family == "bert":
            options["token_type_ids"] = torch.tensor(segments)
        expected = model.base_model(
            torch.tensor(rows), output_hidden_states=True, **options
        ).hidden_states[-1]
    x = encoder(
        tf.constant(rows), tf.constant(segments), tf.ones_like(rows) > 0, False
    )
    np.testing.assert_allclose(x, expected.numpy(), atol=1e-4)


@pytest.mark.parametrize(
    "name", ["distilbert", "electra", "xlm-roberta", "bert with SentencePiece"]
)
def test_an_export_of_any_type_answers_as_here(name, tmp_path):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    write, options = FOLDERS[name]
    write(tmp_path / "model", **options)
    network = network_of(load(tmp_path / "model"))
    out = str(tmp_path / "out")
    exports.hugging_face(network, "mine", out, "classes", ("no", "yes"), 40)
    tokenizer = transformers.AutoTokenizer.from_pretrained(out)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(
        out
    ).eval()
    pairs = [["schön Straße", "漢字 İstanbul", "film"], ["İs", "a film", "Ωm"]]
    batch = tokenizer(*pairs, return_tensors="pt", padding=True)
    with torch.no_grad():
        theirs = model(**batch).logits.numpy()
    encoder = network.encoder
    ours = encoders.batch_of(
        encoder, pairs, tokenize=encoder.tokenizer.encode, length=32
    )
    logits = network.logits("mine", ours, training=False).numpy()[:, 0]
    np.testing.assert_allclose(theirs[:, 1] - theirs[:, 0], logits, atol=1e-5)

    again = load(out)
    again.pooler.set_weights(encoder.pooler.get_weights())
    states = encoder(ours["ids"], ours["segments"], ours["mask"], False)
    np.testing.assert_allclose(
        again(ours["ids"], ours["segments"], ours["mask"], False),
        states,
        atol=1e-5,
    )


@pytest.mark.parametrize("settings", [{}, {"strip_accents": False}])
@pytest.mark.parametrize("lowercase", [True, False, None])
def test_tokenizer_json_and_its_settings(tmp_path, lowercase, settings):
    transformers = pytest.importorskip("transformers")

    _, tokenizer = save_bert(tmp_path)
    added = transformers.AddedToken("Raw", normalized=False)
    tokenizer.add_tokens(["SchöN", added])
    tokenizer.save_pretrained(tmp_path)
    path = tmp_path / "tokenizer_config.json"
    change(path, do_lower_case=lowercase, **settings)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    texts = [*TEXTS, "xSchönx Rawraw raw schon"]
    ids = [row.tolist() for row in load(tmp_path).tokenizer.encode(texts)]
    assert ids == published.encode(theirs, texts)
