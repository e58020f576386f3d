"""CoNLL-2003: what is read from its files, and what is refused."""

import functools
import os

import pytest

from tf_transfer.data import conll, corpora, entities
from tf_transfer.utils import servers
from tf_transfer.utils.errors import UserError

IOB2 = """\
-DOCSTART- -X- -X- O

Anna NNP B-NP B-PER
Berg NNP I-NP I-PER
left VBD B-VP O
Rome NNP B-NP B-LOC

-DOCSTART- -X- O
Bonn NNP B-NP B-LOC
Oslo NNP B-NP B-LOC
"""
IOB1 = """\
Anna NNP I-NP I-PER
Berg NNP I-NP I-PER
left VBD I-VP O
Rome NNP I-NP I-LOC

Bonn NNP I-NP I-LOC
Oslo NNP I-NP B-LOC
"""
WORDS = [["Anna", "Berg", "left", "Rome"], ["Bonn", "Oslo"]]
READ = [["B-PER", "I-PER", "O", "B-LOC"], ["B-LOC", "B-LOC"]]


def read(folder, content):
    path = folder / "eng.train"
    path.write_bytes(
        content if isinstance(content, bytes) else content.encode()
    )
    return conll.read_sentences(str(path))


@pytest.fixture
def corpus_folder(tmp_path):
    """A folder of the three files."""
    for split in conll.SPLITS:
        (tmp_path / f"eng.{split}").write_text(
            f"{split} NN B-NP B-PER\n\n{IOB2}\n"
        )
    return tmp_path


# === What is read ===


def test_words_and_tags_of_every_sentence(tmp_path):
    found = read(tmp_path, IOB2)
    assert found.words == WORDS
    assert found.tags == READ
    assert found.ids.tolist() == [0, 1]


def test_of_many_columns_the_last_is_the_tag(tmp_path):
    found = read(tmp_path, "Anna\tB-PER\nruns  \t O \n \t\nRome B-LOC")
    assert found.words == [["Anna", "runs"], ["Rome"]]
    assert found.tags == [["B-PER", "O"], ["B-LOC"]]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("more", ["", "\n\n\n"])
def test_line_ends_and_empty_lines_are_no_part_of_a_sentence(
    tmp_path, end, more
):
    found = read(tmp_path, ("\ufeff" + more + IOB2 + more).replace("\n", end))
    assert found.words == WORDS and found.tags == READ


def test_a_word_may_hold_a_space_that_parts_no_columns(tmp_path):
    found = read(tmp_path, "New\u00a0York B-LOC\n\u00a0 O\n")
    assert found.words == [["New\u00a0York", "\u00a0"]]


def test_some_sentences_keep_their_ids(tmp_path):
    found = read(tmp_path, IOB2).take([1])
    assert len(found) == 1
    assert (found.ids.tolist(), found.words) == ([1], [WORDS[1]])
    assert found.tags == [READ[1]]


def test_each_split_has_its_file(corpus_folder):
    corpus = conll.open_source(str(corpus_folder))
    for split in conll.SPLITS:
        assert corpus.read(split).words[0] == [split]


@pytest.mark.parametrize("split", conll.SPLITS)
def test_the_identity_is_the_content_of_all_three(corpus_folder, split):
    before = conll.open_source(str(corpus_folder)).identity
    assert before == conll.open_source(str(corpus_folder)).identity
    (corpus_folder / f"eng.{split}").write_text("other O\n")
    assert conll.open_source(str(corpus_folder)).identity != before


# === Schemes ===


def test_iob1_becomes_iob2_and_is_said(tmp_path, caplog):
    found = read(tmp_path, IOB1)
    assert found.words == WORDS and found.tags == READ
    assert "eng.train, line 1: tags are IOB1" in caplog.text
    assert "They are read as IOB2" in caplog.text


def test_of_iob2_nothing_is_said(tmp_path, caplog):
    read(tmp_path, IOB2)
    assert not caplog.text


@pytest.mark.parametrize(
    "tags, expected",
    [
        ("I-PER I-ORG", "B-PER B-ORG"),
        ("I-PER B-PER I-PER O I-PER", "B-PER B-PER I-PER O B-PER"),
        ("O O", "O O"),
    ],
)
def test_in_iob1_another_type_needs_no_b(tmp_path, tags, expected):
    found = read(tmp_path, "".join(f"a {tag}\n" for tag in tags.split()))
    assert found.tags == [expected.split()]


def test_no_entity_continues_in_the_next_sentence(tmp_path):
    assert read(tmp_path, "a I-PER\n\na I-PER\n").tags == [["B-PER"]] * 2


def test_an_i_that_begins_an_entity_of_iob2_is_named(tmp_path):
    with pytest.raises(UserError) as error:
        read(tmp_path, IOB2 + "\nof IN B-PP O\nLima NNP B-NP I-LOC\n")
    path = tmp_path / "eng.train"
    assert str(error.value).startswith(
        f"{path}, line 13: begins an entity with I-LOC, but {path}, line 3 "
        "with B-PER, as do 3 of the 4 that show the scheme: the tags are IOB2, "
        "which has B-LOC here."
    )


def test_a_b_that_parts_nothing_in_iob1_is_named(tmp_path):
    said = (
        "line 10: .* B-LOC, but .*line 1 with I-PER.* 3 of the 4 .* has I-LOC"
    )
    with pytest.raises(UserError, match=said):
        read(tmp_path, IOB1 + "\nof IN I-PP O\nLima NNP I-NP B-LOC\n")


def test_where_both_schemes_are_as_frequent_it_is_iob2(tmp_path):
    with pytest.raises(
        UserError, match="line 1: .*line 3 .*1 of the 2 .*are IOB2"
    ):
        read(tmp_path, "a I-PER\n\na B-PER\n")


# === What is wrong with a file is said ===


@pytest.mark.parametrize(
    "content, said",
    [
        ("", "holds no sentences"),
        ("\n\n", "holds no sentences"),
        ("-DOCSTART- -X- -X- O\n\n", "holds no sentences"),
        (IOB2 + "a B X-PER\n", "line 11: has 3 columns, line 3 4. Give a word"),
        (
            IOB2 + "a N B-NP X-PER\n",
            "line 11: 'X-PER' is not a tag.*B- or I-",
        ),
        (IOB2 + "a N B-NP PER\n", "line 11: 'PER' is not a tag"),
        (IOB2 + "a N B-NP B-\n", "line 11: 'B-' is not a tag"),
        (
            IOB2 + "a N B-NP B-CAR\n",
            "line 11: 'CAR' is not one of the types.* PER, ORG, LOC",
        ),
        ("Anna\nruns\n", "line 1: has 1 columns, needs 2"),
        (b"a O\n" + b"caf\xe9 O\n", "line 2: is not UTF-8 .*0xe9"),
    ],
)
def test_a_broken_file_is_named_with_its_line(tmp_path, content, said):
    with pytest.raises(UserError, match=f"eng.train.*{said}"):
        read(tmp_path, content)


@pytest.mark.parametrize("split", conll.SPLITS)
def test_a_missing_file_is_named_with_all_that_are_needed(corpus_folder, split):
    (corpus_folder / f"eng.{split}").unlink()
    with pytest.raises(
        UserError, match=f"eng.{split}: no such file.*eng.train, .*or `tfds`"
    ):
        conll.open_source(str(corpus_folder))


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(UserError, match="nowhere/eng.train: no such file"):
        conll.open_source(str(tmp_path / "nowhere"))


# === TFDS: its own parser over the same files ===


@pytest.fixture
def tfds_over(monkeypatch, tmp_path):
    """Makes TFDS find the files of a folder as if it had fetched them."""
    import etils.epath
    import tensorflow_datasets as tfds

    def over(folder):
        for split, name in zip(conll.SPLITS, ("train", "valid", "test")):
            os.symlink(
                os.path.abspath(os.path.join(folder, f"eng.{split}")),
                tmp_path / f"{name}.txt",
            )
        monkeypatch.setattr(
            tfds.download.DownloadManager,
            "download_and_extract",
            lambda self, url: etils.epath.Path(tmp_path),
        )

    monkeypatch.setattr(
        tfds,
        "builder",
        functools.partial(tfds.builder, data_dir=tmp_path / "tfds"),
    )
    monkeypatch.setattr(  # each folder has its own
        corpora, "_find_release", corpora._find_release.__wrapped__
    )
    monkeypatch.setattr(servers, "find_problem", lambda url: None)
    return over


def as_set(sentences):
    """Words and tags of each sentence; TFDS shuffles them."""
    return sorted(zip(sentences.words, sentences.tags))


def test_tfds_gives_what_the_folder_gives(tfds_over, corpus_folder):
    tfds_over(corpus_folder)
    corpus = conll.open_source("tfds")
    assert corpus.identity == "tfds conll2003/conll2003/1.0.0"
    folder = conll.open_source(str(corpus_folder))
    for split in conll.SPLITS:
        found = corpus.read(split)
        assert as_set(found) == as_set(folder.read(split))
        assert len(found.ids) == len(set(found.ids.tolist())) == 3


def test_tfds_without_a_network_says_what_to_do(tfds_over, monkeypatch):
    monkeypatch.setattr(servers, "find_problem", lambda url: "ConnectionError")
    with pytest.raises(UserError) as error:
        conll.open_source("tfds").read("train")
    for words in (
        "https://",
        "(ConnectionError)",
        "--data=FOLDER",
        "eng.testb",
    ):
        assert words in str(error.value)


# === The real files ===

PUBLISHED = {  # sentences, words and entities, as the shared task counts them
    "train": (14041, 203621, 23499),
    "testa": (3250, 51362, 5942),
    "testb": (3453, 46435, 5648),
}


@pytest.mark.shared
def test_the_real_files_hold_what_was_published(shared_data):
    corpus = conll.open_source(os.path.join(shared_data, "conll2003"))
    for split, (sentences, words, found) in PUBLISHED.items():
        read = corpus.read(split)
        tagged = entities.encode(read.tags, conll.TAGS)
        assert (len(read), len(tagged.ids)) == (sentences, words)
        assert len(entities.find_entities(tagged)) == found


@pytest.mark.shared
def test_the_real_files_in_iob1_are_the_same(shared_data, tmp_path):
    path = os.path.join(shared_data, "conll2003", "eng.testb")
    expected = conll.read_sentences(path)
    tagged = entities.encode(expected.tags, conll.TAGS)
    firsts = entities.find_stretches(tagged)
    tagged.ids[firsts] += 1  # from B- to I-
    tags = entities.decode(tagged, conll.TAGS)
    content = "\n".join(
        "".join(f"{word} {tag}\n" for word, tag in zip(*sentence))
        for sentence in zip(expected.words, tags)
    )
    found = read(tmp_path, content)
    assert found.words == expected.words and found.tags == expected.tags


@pytest.mark.slow
@pytest.mark.shared
def test_tfds_gives_what_the_real_folder_gives(tfds_over, shared_data):
    folder = os.path.join(shared_data, "conll2003")
    tfds_over(folder)
    corpus, expected = (
        conll.open_source("tfds"),
        conll.open_source(folder),
    )
    for split in conll.SPLITS:
        assert as_set(corpus.read(split)) == as_set(expected.read(split))
