"""A task file: its keys, and what is wrong with them."""

import pytest

from tests.support import own_data
from tf_transfer.own import table_source, task_file
from tf_transfer.utils.errors import UserError


def open_task(path, seed=0):
    return table_source.TableSource(task_file.read_task_file(path), seed)


def test_what_is_not_said_has_a_default(tmp_path):
    said = task_file.read_task_file(own_data.write_task(tmp_path, test=None))
    assert (said.name, said.kind, said.metric) == ("news", "classes", "")
    assert said.texts == ("body",) and said.label == ("team",)
    assert said.train.paths == (str(tmp_path / "news.csv"),)
    assert not said.validation and not said.test


@pytest.mark.parametrize(
    "line, message",
    [
        ("label = team", "line 3: is not TOML"),
        ('lable = "team"', "line 3: lable: is no key. There are: name, texts"),
        ("label = 5", "line 3: label: 5 is not valid. Give the column"),
        ('label = ["a", "b"]', "line 3: label: several columns need kind"),
        (
            'label = "team"\nkind = "class"',
            "line 4: kind: 'class' .* Give classes, labels",
        ),
        (
            'label = "team"\nmetric = "pearson"',
            "line 4: metric: 'pearson' does",
        ),
        (
            'label = "team"\ntest = 1.5',
            "line 4: test: 1.5 .* a fraction of train between",
        ),
        ('label = "team"\ntest = "no.csv"', "line 4: test: .*no.csv: no such"),
        (
            'label = "team"\ntest = "news.csv"',
            "line 4: test: .*news.csv is also in train",
        ),
        (
            'label = "team"\nname = "a b"',
            "line 4: name: 'a b' .* letters, digits",
        ),
        ('label = "team"\ntexts = ["a", "a"]', "line [24]: is not TOML"),
        ('label = "team"\nid = ""', "line 4: id: '' is not valid"),
        (
            'label = "team"\ntest = { id = "news.csv" }',
            "line 4: test: .*{ ids = ",
        ),
        ('label = "team"\ntest = true', "line 4: test: True is not valid"),
        (
            'label = "team"\ntest = ["a.csv", 3]',
            r"line 4: test: \['a.csv', 3\] is not valid",
        ),
        (
            'label = "team"\ntest = ["no*.csv", "news.csv"]',
            r"line 4: test: no\*.csv: no such file",
        ),
        ("", "label: is missing: the column of the labels"),
    ],
    ids=str,
)
def test_a_wrong_line_of_a_task_file_is_named(line, message, tmp_path):
    own_data.write(tmp_path / "news.csv", own_data.news(6))
    path = tmp_path / "t.toml"
    path.write_text(f'train = "news.csv"\ntexts = "body"\n{line}\n')
    with pytest.raises(UserError, match=message) as error:
        task_file.read_task_file(str(path))
    assert str(error.value).startswith(str(path))
    assert len(str(error.value).splitlines()) <= 2


def test_a_file_that_a_key_names_twice_is_refused(tmp_path):
    own_data.write(tmp_path / "news.csv", own_data.news(6))
    path = tmp_path / "t.toml"
    path.write_text('texts = "body"\nlabel = "team"\n')
    with open(path, "a") as file:
        file.write('train = ["news.csv", "n*.csv"]\n')
    with pytest.raises(UserError, match="line 3: train: .* is also in train"):
        task_file.read_task_file(str(path))


def test_a_pattern_and_a_list_name_several_files(tmp_path):
    columns = own_data.news(12)
    for number in range(3):
        part = {k: v[number * 4 : number * 4 + 4] for k, v in columns.items()}
        own_data.write(tmp_path / f"part{number}.csv", part)
    (tmp_path / "part_old.csv").mkdir()  # a folder is none of them
    names = [f"part{number}.csv" for number in range(3)]
    sources = [
        open_task(
            own_data.write_toml(
                tmp_path / f"{number}.toml",
                {"texts": "body", "label": "team", "train": train},
            )
        )
        for number, train in enumerate(("part*.csv", names))
    ]
    one, other = (source.read("train") for source in sources)
    assert one.texts == other.texts == [columns["body"]]
    assert sources[0].identity == sources[1].identity


@pytest.mark.parametrize("name", ["[b]", "a*", "what?"])
def test_a_pattern_is_one_of_files_not_of_the_folder(name, tmp_path):
    folder = tmp_path / name
    folder.mkdir()
    path = own_data.write_task(folder, train="new*.csv", test=None)
    found = task_file.read_task_file(path)
    assert found.train.paths == (str(folder / "news.csv"),)
