"""The TF-IDF baseline, against scikit-learn's own parts."""

import numpy as np
import pytest
from sklearn import linear_model
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer

from tf_transfer.baselines import usual
from tf_transfer.data.task import Examples, Sentences, Task
from tf_transfer.utils.errors import UserError

WORDS = ("good bad fine poor plot film very not a the quite so").split()
CLOSE = {"rtol": 0, "atol": 0.01}  # solvers stop at other points


def draw(columns=1, rows=90, classes=2):
    """Texts of words, whose first word says most of the class."""
    rng = np.random.default_rng(0)
    texts = [
        [" ".join(rng.choice(WORDS, 8)) for _ in range(rows)]
        for _ in range(columns)
    ]
    labels = np.array([WORDS.index(t.split()[0]) % classes for t in texts[0]])
    return Examples(np.arange(rows), texts, labels)


def draw_parts(rows=120):
    """Texts whose class is a part of words that occur once."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, rows)
    letters = np.array([*"bcdfghjklmnpqrstvwxz"])

    def word(middle):
        return "".join(
            [*rng.choice(letters, 3), middle, *rng.choice(letters, 3)]
        )

    texts = [
        " ".join([word(("ung", "lich")[label]), word(""), word("")])
        for label in labels
    ]
    return Examples(np.arange(rows), [texts], labels)


def task(examples):
    names = tuple(map(str, np.unique(examples.labels)))
    columns = tuple(f"text{number}" for number in range(len(examples.texts)))
    return Task("t", "", columns, "y", names, "accuracy", kind="classes")


def fit(examples):
    return usual.Usual(task(examples)).fit(examples)


@pytest.mark.parametrize("ngrams", usual.NGRAMS)
@pytest.mark.parametrize("classes", [2, 3])
def test_it_is_tfidf_and_a_logistic_regression(monkeypatch, ngrams, classes):
    monkeypatch.setattr(usual, "NGRAMS", (ngrams,))
    monkeypatch.setattr(usual, "STRENGTHS", (3.0,))
    examples, others = draw(classes=classes), draw(rows=100)
    model = fit(examples)
    analyzer, ngram_range = ngrams
    vectoriser = TfidfVectorizer(analyzer=analyzer, ngram_range=ngram_range)
    theirs = linear_model.LogisticRegression(C=3.0, tol=1e-6, max_iter=500).fit(
        vectoriser.fit_transform(examples.texts[0]), examples.labels
    )
    expected = theirs.decision_function(vectoriser.transform(others.texts[0]))
    np.testing.assert_allclose(
        model.logits(others), expected.reshape(100, -1), **CLOSE
    )


def test_a_score_is_a_ridge_regression(monkeypatch):
    monkeypatch.setattr(usual, "STRENGTHS", (2.0,))
    monkeypatch.setattr(usual, "NGRAMS", usual.NGRAMS[:1])
    examples = draw()
    examples.labels = np.linspace(1.0, 5.0, len(examples))
    stars = Task("t", "", ("text",), "y", None, "spearman").scaled()
    model = usual.Usual(stars).fit(examples)
    vectoriser = TfidfVectorizer()
    theirs = linear_model.Ridge(alpha=0.5).fit(
        vectoriser.fit_transform(examples.texts[0]), examples.labels
    )
    expected = theirs.predict(vectoriser.transform(examples.texts[0]))
    np.testing.assert_allclose(model.logits(examples)[:, 0], expected, **CLOSE)


def test_a_pair_is_both_texts_product_difference_and_cosine(monkeypatch):
    monkeypatch.setattr(usual, "STRENGTHS", (3.0,))
    monkeypatch.setattr(usual, "NGRAMS", usual.NGRAMS[:1])
    examples = draw(columns=2)
    model = fit(examples)
    vectoriser = TfidfVectorizer().fit(sum(examples.texts, []))
    first, second = (
        vectoriser.transform(column).toarray() for column in examples.texts
    )
    product = first * second
    cosine = product.sum(axis=1, keepdims=True)
    features = np.hstack([first, second, product, abs(first - second), cosine])
    theirs = linear_model.LogisticRegression(C=3.0, tol=1e-6, max_iter=500)
    expected = theirs.fit(features, examples.labels).decision_function(features)
    np.testing.assert_allclose(model.logits(examples)[:, 0], expected, **CLOSE)


# === What is counted ===


def test_characters_are_counted_as_scikit_learn_does():
    """Each distinct word is split once."""
    texts = ["Ein Tag,  ein\tJAHR", "a ß 日本 ein", "Straßenbahn \u2028 x"]
    counts, terms = usual.count_terms(texts, "char_wb", (2, 5))
    theirs = CountVectorizer(analyzer="char_wb", ngram_range=(2, 5))
    np.testing.assert_array_equal(
        counts.toarray(), theirs.fit_transform(texts).toarray()
    )
    np.testing.assert_array_equal(terms, theirs.get_feature_names_out())


def test_the_most_frequent_terms_are_kept(monkeypatch):
    monkeypatch.setattr(usual, "MOST_TERMS", 2)
    counts, terms = usual.count_terms(["be be be", "cc aa cc"], "word", (1, 1))
    assert terms == ["be", "cc"]
    assert counts.toarray().tolist() == [[3, 0], [0, 2]]


def test_parts_of_words_are_found_where_they_decide():
    examples, others = draw_parts(), draw_parts(200)
    model = fit(examples)
    assert model.chosen["analyzer"] == "char_wb"
    right = (model.logits(others)[:, 0] > 0) == others.labels
    assert right[120:].mean() > 0.95


def test_words_are_chosen_where_characters_are_no_better():
    model = fit(draw())
    assert model.chosen["analyzer"] == "word"


def test_only_words_are_counted_in_very_many_characters(monkeypatch):
    monkeypatch.setattr(usual, "MOST_CHARACTERS", 100)
    assert fit(draw_parts()).chosen["analyzer"] == "word"


@pytest.mark.parametrize(
    "bad, good",
    [
        ("👎", "👍👍"),
        ("7", "1"),
        ("a b", "c d"),
        ("?", "!!"),
        ("😡" * 30, "😀" * 30),
        ("ක", "খ"),
    ],
)
def test_characters_are_counted_where_there_are_no_words(bad, good, capsys):
    labels = np.arange(12) % 2
    texts = [[(bad, good)[label] for label in labels]]
    examples = Examples(np.arange(12), texts, labels)
    model = fit(examples)
    assert model.chosen["analyzer"] == "char_wb"
    assert ((model.logits(examples)[:, 0] > 0) == labels).all()
    assert (
        "TF-IDF counts characters: the texts have no" in capsys.readouterr().out
    )


def test_characters_are_counted_in_pairs_and_for_scores():
    marks = np.array(["👎", "👍👍"])
    labels = np.arange(24) % 2
    columns = [[*marks[labels]], [*marks[1 - labels]]]
    pairs = Examples(np.arange(24), columns, labels)
    assert ((fit(pairs).logits(pairs)[:, 0] > 0) == labels).all()
    stars = Task("t", "", ("text",), "y", None, "spearman").scaled()
    examples = Examples(np.arange(24), columns[:1], 1.0 * labels)
    answers = usual.Usual(stars).fit(examples).logits(examples)[:, 0]
    assert np.corrcoef(answers, labels)[0, 1] > 0.99


def test_of_very_many_characters_without_words_characters_are_counted(
    monkeypatch,
):
    monkeypatch.setattr(usual, "MOST_CHARACTERS", 10)
    examples = Examples(np.arange(12), [["👎", "👍"] * 6], np.arange(12) % 2)
    assert fit(examples).chosen["analyzer"] == "char_wb"


def test_texts_without_characters_are_refused():
    examples = Examples(np.arange(12), [[" ", "\n"] * 6], np.arange(12) % 2)
    with pytest.raises(UserError, match="nothing can be learned from these te"):
        fit(examples)


def test_a_very_long_word_is_cut_wherever_it_is_read(monkeypatch):
    """40 texts of 300,000 letters would take minutes."""
    monkeypatch.setattr(usual, "LONGEST_WORD", 20)
    assert usual.cut_words("a" * 19 + " b\u3000" + "c" * 99) == (
        "a" * 19 + " b\u3000" + "c" * 20
    )
    examples = draw_parts()
    longer = [text + "x" * 20 + "y" * 50 for text in examples.texts[0]]
    examples = Examples(examples.ids, [longer], examples.labels)
    model = fit(examples)
    assert "y" not in "".join(model._vectorizer.get_feature_names_out())
    cut = [text.rstrip("y") for text in longer]
    others = Examples(examples.ids, [cut], examples.labels)
    np.testing.assert_array_equal(model.logits(others), model.logits(examples))


# === As arrays ===


def test_a_restored_baseline_answers_the_same():
    examples = draw(columns=2)
    model = fit(examples)
    again = usual.Usual(model.task)
    again.restore(model.chosen, model.arrays)
    np.testing.assert_array_equal(
        again.logits(examples), model.logits(examples)
    )


def test_restored_tags_are_the_same():
    words = Task("t", "", ("words",), "tags", ("O", "B-X", "I-X"), "f1")
    sentences = Sentences(
        np.arange(1), [["a", "new\nline", "c"]], [["B-X", "I-X", "O"]]
    )
    model = usual.MostFrequentTags(words).fit(sentences)
    again = usual.MostFrequentTags(words)
    again.restore({}, model.arrays)
    assert again.logits(sentences).argmax(axis=1).tolist() == [1, 2, 0]


@pytest.mark.parametrize(
    "damage",
    [
        {"terms": np.zeros(3, np.uint8)},
        {"terms": usual.pack_terms(["good", "good"])},
        {"terms": usual.pack_terms(["good", "bad"])},
        {"idf": np.ones(2, np.float32)},
        {"kernel": np.ones((3, 1), np.float32)},
        {"bias": np.ones(7, np.float32)},
    ],
)
def test_arrays_that_do_not_fit_are_refused(damage):
    model = fit(draw(classes=3))
    with pytest.raises((ValueError, UserError)):
        model.restore(model.chosen, {**model.arrays, **damage})


@pytest.mark.parametrize(
    "change",
    [{"analyzer": "open"}, {"ngram_range": [1]}, {"strength": "high"}],
)
def test_settings_of_other_types_are_refused(change):
    model = fit(draw())
    with pytest.raises(ValueError):
        model.restore({**model.chosen, **change}, model.arrays)


def test_settings_are_chosen_in_folds_of_groups(monkeypatch):
    examples = draw()
    tested = []
    measure = usual.Usual._score

    def record(self, features, labels, folds, strength):
        tested.append([test for _, test in folds])
        return measure(self, features, labels, folds, strength)

    monkeypatch.setattr(usual.Usual, "_score", record)
    examples.groups = np.arange(90) // 10
    usual.Usual(task(examples)).fit(examples)
    # The rows are permuted before.
    order = np.random.default_rng(0).permutation(90)
    for folds in tested:
        parts = [{*examples.groups[order[rows]]} for rows in folds]
        assert [*map(len, parts)] == [3, 3, 3]
    examples.groups = np.arange(90) // 45
    with pytest.raises(UserError, match="has 2 groups.*fewer than the 3 folds"):
        usual.Usual(task(examples)).fit(examples)
