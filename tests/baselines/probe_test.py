"""How the probe chooses, on states that are drawn here."""

import dataclasses
import zlib

import numpy as np
import pytest

from tf_transfer.baselines import probe, probe_labels
from tf_transfer.baselines.probe import States
from tf_transfer.data.task import Task
from tf_transfer.data.tokens import Tokens
from tf_transfer.utils.errors import UserError

CLASSES = Task("t", "", ("text",), "y", ("a", "b"), "accuracy")
PAIRS = Task("t", "", ("one", "two"), "y", ("a", "b"), "accuracy")
SCORES = Task("t", "", ("text",), "y", None, "spearman")


class Drawn:
    """Noise, but for some states that know the labels so well."""

    sentences = groups = None

    def __init__(self, labels, strengths, seed=0):
        self.labels = labels
        self._strengths = strengths
        self._seed = seed

    def matrix(self, states, rows=None):
        """The same in whatever order threads ask for it."""
        name = str(states)
        rng = np.random.default_rng([self._seed, zlib.crc32(name.encode())])
        noise = rng.normal(size=(len(self.labels), 4))
        noise[:, 0] += self._strengths.get(name, 0) * (self.labels - 0.5)
        made = noise.astype(np.float32)
        return made if rows is None else made[rows]


def tokens_of(labels):
    """Texts of four tokens, of which one in two has its label's."""
    rng = np.random.default_rng(3)
    ids = rng.integers(10, 40, [len(labels), 4]).astype(np.int32)
    ids[::2, 1] = labels[::2]
    lengths = np.full(len(labels), 4, np.int32)
    starts = np.arange(len(labels)) * 4
    return Tokens(ids.ravel(), starts, lengths, lengths, 0 * lengths)


def labels_of(count):
    return np.random.default_rng(0).integers(0, 2, count)


@pytest.fixture
def few_fits(monkeypatch):
    """For what does not depend on how many strengths and folds are tried."""
    monkeypatch.setattr(probe, "REPEATS", 1)
    monkeypatch.setattr(probe, "STRENGTHS", (1e-3, 1e-2, 0.1))


def fit(strengths, count=300, task=CLASSES, blocks=2):
    return probe.Probe(task, blocks, has_pooler=False).fit(
        Drawn(labels_of(count), strengths)
    )


def test_the_default_is_the_means_above_all_blocks_and_of_pairs_the_cosine():
    assert fit({}).states == States(2, "block_means")
    assert fit({}, task=PAIRS).states == States(2, "mean", "cosine")


@pytest.mark.slow  # fits many regressions
def test_other_states_are_read_where_they_are_clearly_better():
    strengths = {"mean, block 2": 1.0, "mean, block 1": 5.0}
    assert fit(strengths).states == States(1, "mean")
    strengths = {"product of mean, block 0": 5.0}
    assert fit(strengths, task=PAIRS).states == States(0, "mean", "product")


@pytest.mark.slow
def test_of_few_texts_a_small_lead_is_noise():
    """The best of so many alike is the default in about a fifth of draws."""
    strengths = {f"mean, block {block}": 1.0 for block in range(7)}
    strengths["means of all blocks"] = 1.0
    selected = [
        probe.Probe(CLASSES, 6, has_pooler=False, seed=seed)
        .fit(Drawn(labels_of(60), strengths, seed))
        .states
        for seed in range(10)
    ]
    assert selected.count(States(6, "block_means")) >= 6


def test_the_standard_error_is_that_of_nadeau_and_bengio():
    values = np.array([0.7, 0.8, 0.75, 0.72, 0.78])
    expected = np.sqrt((1 / 5 + 0.2 / 0.8) * values.var(ddof=1))
    assert probe.standard_error(values) == pytest.approx(expected)


def test_the_profile_says_what_each_block_knows(few_fits):
    strengths = {
        "mean, block 0": 0.5,
        "mean, block 1": 4.0,
        "mean, block 2": 4.0,
    }
    fitted = fit(strengths)
    assert [line["block"] for line in fitted.profile] == [0, 1, 2]
    scores = [line["score"] for line in fitted.profile]
    assert scores[0] < 0.7 and min(scores[1:]) > 0.9
    assert fitted.chosen["strength"] in probe.STRENGTHS


def accuracy(fitted, inputs):
    return ((fitted.logits(inputs)[:, 0] > 0) == inputs.labels).mean()


def test_words_add_what_states_do_not_know(few_fits):
    inputs = Drawn(labels_of(400), {"means of all blocks": 2.0})
    inputs.tokens = tokens_of(inputs.labels)
    test = Drawn(labels_of(400), {"means of all blocks": 2.0}, seed=1)
    test.tokens = inputs.tokens
    states, both = (
        probe.Probe(CLASSES, 2, False, vocabulary=vocabulary).fit(inputs)
        for vocabulary in (0, 50)
    )
    assert states.terms is None and not states.chosen["words"]
    assert both.chosen["words"] and both.parameters > states.parameters
    assert accuracy(states, test) < 0.87 < 0.9 < accuracy(both, test)
    # The choice of states and the depth profile are of the states alone.
    assert both.profile == states.profile and both.states == states.states


def test_labels_of_one_text_do_not_silence_the_states(few_fits):
    labels = np.concatenate([labels_of(200), np.arange(2, 32)])
    names = tuple(f"label {number}" for number in range(32))
    task = Task("t", "", ("text",), "y", names, "accuracy")
    inputs = Drawn(labels, {})
    known = np.random.default_rng(5).normal(size=(len(labels), 4))
    known[:, 0] += 4 * (labels == 1)
    inputs.matrix = lambda states, rows=None: known.astype(np.float32)[
        slice(None) if rows is None else rows
    ]
    inputs.tokens = tokens_of(labels_of(len(labels)))
    fitted = probe.Probe(task, 1, False, vocabulary=50).fit(inputs)
    answers = fitted.logits(inputs).argmax(axis=1)
    assert (answers == labels)[:200].mean() > 0.9


def test_words_that_know_nothing_change_little(few_fits):
    inputs = Drawn(labels_of(400), {"means of all blocks": 4.0})
    inputs.tokens = tokens_of(labels_of(400)[::-1])
    states, both = (
        probe.Probe(CLASSES, 2, False, vocabulary=vocabulary).fit(inputs)
        for vocabulary in (0, 50)
    )
    same = np.sign(both.logits(inputs)) == np.sign(states.logits(inputs))
    assert same.mean() > 0.97


def test_as_many_blocks_are_needed_as_come_within_an_error_of_the_best():
    lines = [
        {"block": n, "score": score, "standard_error": 0.02}
        for n, score in enumerate((0.5, 0.79, 0.8, 0.81))
    ]
    assert probe.blocks_needed(lines) == 1
    assert probe.blocks_needed(lines[:1] + lines[3:]) == 3


def test_it_is_the_same_each_time(few_fits):
    first, second = (fit({"mean, block 2": 1.0}) for _ in range(2))
    np.testing.assert_array_equal(first.model.kernel, second.model.kernel)
    assert first.profile == second.profile


@pytest.mark.parametrize(
    "task, labels, words",
    [
        (CLASSES, np.zeros(20, np.int64), "have the same label"),
        (SCORES, np.full(20, 2.5, np.float32), "have the same score"),
        (CLASSES, np.array([0, 0, 1, 1]), "chooses by 5 folds"),
        (
            Task(
                "t", "", ("x",), "y", tuple(map(str, range(9999))), "accuracy"
            ),
            np.arange(9999),
            "up to 1,000 labels, and here are 9,999.*--label_column",
        ),
    ],
)
def test_labels_that_nothing_can_be_learned_from_are_refused(
    task, labels, words
):
    with pytest.raises(UserError, match=f"mine.csv: --features=.*{words}"):
        probe_labels.check_labels(task, labels, len(labels), "mine.csv")


def test_a_rare_label_is_warned_of_and_does_not_stop_the_fit(few_fits):
    task = Task("t", "", ("text",), "y", ("a", "b", "c"), "accuracy")
    labels = np.array([0, 1] * 30 + [2, 2])
    probe_labels.check_labels(task, labels, len(labels), "")
    [warning] = probe_labels.find_warnings(task, labels)
    assert "1 labels have fewer training texts than the 5 folds" in warning
    inputs = Drawn(labels, {"mean, block 1": 4.0})
    logits = probe.Probe(task, 1, has_pooler=False).fit(inputs).logits(inputs)
    assert logits.shape == (62, 3)


@pytest.mark.parametrize("is_tagging", [False, True])
def test_groups_are_in_one_fold(is_tagging):
    inputs = Drawn(labels_of(300), {})
    task = CLASSES
    if is_tagging:
        inputs.sentences = np.arange(300) // 3
        task = Task("t", "", ("t",), "y", ("O", "B-A"), "f1", kind="entities")
    texts = 100 if is_tagging else 300
    inputs.groups = np.arange(texts) % 10
    subset = probe._Subset(task, inputs, 0)
    group_of = inputs.groups
    if is_tagging:
        group_of = inputs.groups[inputs.sentences]
    folds = subset.make_folds(2)
    assert len(folds) == 10
    for train, tested in folds:
        assert not {*group_of[train]} & {*group_of[tested]}
        assert len({*group_of[tested]}) == 2


def test_half_of_the_texts_teach_less(few_fits):
    """Many weak columns need texts; a strong one does not."""
    labels = labels_of(300)
    rng = np.random.default_rng(5)
    weak = rng.normal(size=(300, 60)) + 0.3 * (labels[:, None] - 0.5)
    inputs = Drawn(labels, {})
    inputs.matrix = lambda states, rows=None: weak.astype(np.float32)[
        slice(None) if rows is None else rows
    ]
    fitted = probe.Probe(CLASSES, 1, has_pooler=False).fit(inputs)
    assert fitted.halved.shape == fitted.validated.scores.shape
    assert fitted.halved.mean() < fitted.validated.scores.mean() - 0.02
    known = fit({"means of all blocks": 20.0})
    assert known.halved.mean() > 0.99


def test_half_of_the_words_are_those_of_whole_sentences(few_fits):
    inputs = Drawn(labels_of(300), {})
    inputs.sentences = np.arange(300) // 3
    task = dataclasses.replace(CLASSES, kind="entities", metric="entity_f1")
    subset = probe._Subset(task, inputs, 0)
    half = subset.halve(np.arange(30, 60))
    assert len(half) == 15
    assert np.bincount(half // 3)[10:].tolist() == [3, 0] * 4 + [3]


def test_copies_of_a_text_know_nothing_of_other_groups(few_fits):
    """States that name the group are right in folds of rows alone."""
    groups = np.arange(300) % 30
    labels = np.random.default_rng(1).integers(0, 2, 30)[groups]
    inputs = Drawn(labels, {})
    names = np.random.default_rng(2).normal(size=(30, 40)).astype(np.float32)
    inputs.matrix = lambda states, rows=None: names[groups][
        slice(None) if rows is None else rows
    ]
    scores = []
    for inputs.groups in (None, groups):
        fitted = probe.Probe(CLASSES, 1, has_pooler=False).fit(inputs)
        scores.append(fitted.validated.scores.mean())
    assert scores[0] > 0.95 and scores[1] < 0.75
