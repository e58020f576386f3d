"""Yahoo Answers: which of its rows are read, and what is refused."""

import pytest

from tf_transfer.data import yahoo
from tf_transfer.utils.errors import UserError

ROWS = (
    '"1","Why?","","Because."\n'
    '"5","My ""PC""","It is\\nslow,  very.","Buy\\n\\na new one"\n'
    '"2","x","y","z"\n'
    '"10","Who votes?","","All"\n'
    '"1","Who\nelse?","","Nobody"\n'
)


def write(folder, content=ROWS, split="train"):
    path = folder / f"{split}.csv"
    path.write_bytes(
        content if isinstance(content, bytes) else content.encode()
    )
    return str(path)


@pytest.fixture
def folder(tmp_path):
    """A folder of the two files."""
    write(tmp_path)
    write(tmp_path, ROWS.replace("Who", "What"), "test")
    return tmp_path


# === What is read ===


def test_the_rows_of_two_classes_as_one_text_each(folder):
    found = yahoo.open_source(str(folder), classes="1,5").read("train")
    assert found.texts == [
        [
            "Why? Because.",
            'My "PC" It is slow, very. Buy a new one',
            "Who else? Nobody",
        ]
    ]
    assert found.labels.tolist() == [0, 1, 0]
    assert found.ids.tolist() == [0, 1, 4]
    found = yahoo.open_source(str(folder), classes="1,10").read("test")
    assert found.texts[0][1:] == ["What votes? All", "What else? Nobody"]


def test_the_first_class_that_is_named_is_label_0(folder):
    answers = yahoo.open_source(str(folder), classes="10, 1")
    assert answers.task.labels == ("Politics & Government", "Society & Culture")
    assert answers.read("train").labels.tolist() == [1, 0, 1]


def test_more_than_two_classes_may_be_read(folder):
    found = yahoo.open_source(str(folder), classes="1,2,10").read("train")
    assert found.labels.tolist() == [0, 1, 2, 0]


def test_classes_may_be_named(folder):
    expected = ("Computers & Internet", "Society & Culture")
    found = yahoo.open_source(str(folder), classes="computers & internet,1")
    assert found.task.labels == expected


def test_the_identity_is_the_content_and_the_classes(folder):
    found = {
        yahoo.open_source(str(folder), classes=classes).identity
        for classes in ("1,5", "Society & Culture, 5", "5,1", "1,10")
    }
    assert len(found) == 3
    for split in ("train", "test"):
        write(folder, ROWS + '"1","more","",""\n', split)
        found.add(yahoo.open_source(str(folder), classes="1,5").identity)
    assert len(found) == 5


# === What is refused ===


@pytest.mark.parametrize(
    "classes, said",
    [
        ("1", "at least two"),
        ("1,1", "each one once"),
        ("1,Society & Culture", "each one once"),
        ("1,11", "'11' is not a class. Give numbers from 1 to 10, or .*Sports"),
        ("1,Cooking", "'Cooking' is not a class"),
        ("", "'' is not a class"),
    ],
)
def test_classes_that_cannot_be_are_named(folder, classes, said):
    with pytest.raises(UserError, match=f"--classes={classes}: .*{said}"):
        yahoo.open_source(str(folder), classes=classes)


@pytest.mark.parametrize(
    "content, said",
    [
        ("", "has no example of class 1"),
        ('"1","a","b","c"\n', "has no example of class 2. Give other"),
        (
            ROWS + '"1","a","b"\n',
            "line 7: has 3 cells, needs 4: 'class', 'quest",
        ),
        (ROWS + '"1","a","b","c","d"\n', "line 7: has 5 cells, needs 4"),
        (ROWS + '"3","a"\n', "line 7: has 2 cells"),
        (
            "class,title,content,answer\n",
            "line 1: 'class' is not a class.*header",
        ),
        (ROWS + '"0","a","b","c"\n', "line 7: '0' is not a class from 1 to 10"),
        (ROWS + '"1","","\\n",""\n', "line 7: is empty. Remove"),
        (ROWS + '"1","a"b","c","d"\n', "line 7: is not CSV"),
        (ROWS.encode() + b'"1","\xe9","",""\n', "line 7: is not UTF-8 .*0xe9"),
    ],
)
def test_a_broken_file_is_named_with_its_line(tmp_path, content, said):
    path = write(tmp_path, content)
    with pytest.raises(UserError, match=f"train.csv.*{said}"):
        yahoo.read_examples(path, [1, 2])


@pytest.mark.parametrize("split", ["train", "test"])
def test_a_missing_file_is_named(folder, split):
    (folder / f"{split}.csv").unlink()
    with pytest.raises(UserError, match=f"{split}.csv: no such file.*--data"):
        yahoo.open_source(str(folder), classes="1,5")
