"""Files that are no plain table: they are read, or named for what they are."""

import json

import pytest

from tests.support import own_data
from tf_transfer.data import card, table_files, tagged, task as task_lib
from tf_transfer.own import table_source, task_file
from tf_transfer.utils.errors import UserError

COLUMNS = {"text": "--text_column", "label": "--label_column"}
CSV = b"text,label\ngood film,a\nbad film,b\n"
ROWS = {"text": ["good film", "bad film"], "label": ["a", "b"]}
OBJECTS = [dict(zip(ROWS, row)) for row in zip(*ROWS.values())]


def write(path, content):
    path.write_bytes(
        content if isinstance(content, bytes) else content.encode()
    )
    return str(path)


def read(path):
    return table_files.read_table(path, COLUMNS)


# === Arrays of JSON ===


@pytest.mark.parametrize("indent", [None, 2])
def test_an_array_of_json_is_read(indent, tmp_path):
    objects = [*OBJECTS, {"text": "😀", "label": "a"}]
    path = write(tmp_path / "a.json", json.dumps(objects, indent=indent))
    table = read(path)
    assert table.columns["text"] == [*ROWS["text"], "😀"]
    assert table.locate(1) == f"{path}, row 2"


def test_a_bad_item_of_an_array_is_named_by_its_row(tmp_path):
    objects = [*OBJECTS * 2, ["x"], {"text": " ", "label": "a"}]
    path = write(tmp_path / "a.json", json.dumps(objects))
    task = task_file.from_flags(path, text_column="text", label_column="label")
    with pytest.raises(UserError, match="--skip_bad_rows leaves") as error:
        table_source.TableSource(task).read("train")
    assert "row 5: is not a JSON object" in str(error.value)
    assert "row 6, column 'text': is empty" in str(error.value)
    write(tmp_path / "a.json", json.dumps(OBJECTS)[:-5])
    with pytest.raises(UserError, match="a.json: is not JSON .*line 1 column"):
        read(path)


def test_nothing_is_skipped_where_no_row_can_be_used(tmp_path):
    content = json.dumps({"data": OBJECTS}, indent=1)
    path = write(tmp_path / "a.json", content.replace("]", ""))
    task = task_file.from_flags(path, text_column="text", label_column="label")
    with pytest.raises(UserError) as error:
        table_source.TableSource(task).read("train")
    first = str(error.value).splitlines()[0]
    assert first.endswith("Give one object per line, or an array of objects.")


def test_a_sheet_with_a_title_is_read(tmp_path, capsys):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    rows = [("Survey 2024",), (), ("text", "label", None), ("good film", "a")]
    for row in [*rows, ("bad film", "b"), ("x", "#N/A")]:
        book.active.append(row)
    path = str(tmp_path / "a.xlsx")
    book.save(path)
    assert read(path).columns["text"] == [*ROWS["text"], "x"]
    assert f"{path}, row 3: is the header." in capsys.readouterr().err
    with pytest.raises(UserError, match="row 1: has no column 'txt'"):
        table_files.read_table(path, {"txt": ""})


def test_a_column_whose_name_has_a_comma_is_in_quotes(tmp_path):
    columns = {"Text, long": [*"abcd"], "b": [*"efgh"], "label": [*"xyxy"]}
    path = own_data.write(tmp_path / "a.csv", columns)

    def open_table(text_column):
        task = task_file.from_flags(
            path, text_column=text_column, label_column="label"
        )
        return table_source.TableSource(task)

    with pytest.raises(UserError, match="has a comma in double quotes"):
        open_table("Text, long").read("train")
    pair = open_table('"Text, long", b')
    assert pair.task.texts == ("Text, long", "b")
    assert open_table('"Text, long"').task.texts == ("Text, long",)
    with pytest.raises(UserError, match="--text_column=a,b,c.*double quotes"):
        open_table("a,b,c")


def test_the_home_folder_is_found_in_a_task_file(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    path = write(tmp_path / "a.csv", CSV)
    folder = tmp_path / "other"
    folder.mkdir()
    toml = write(
        folder / "a.toml",
        'train = "~/a.csv"\ntexts = "text"\nlabel = "label"\n',
    )
    assert task_file.read_task_file(toml).train.paths == (path,)


# === Cells ===


def test_tags_that_are_numbers_are_named(tmp_path):
    columns = {"tokens": [["Rome", "is"]] * 2, "ner_tags": [["O", "O"], [3, 0]]}
    path = own_data.write(tmp_path / "a.jsonl", columns)
    with pytest.raises(UserError) as error:
        tagged.read_table(path, "tokens", "ner_tags")
    assert "line 2, column 'ner_tags': tags are numbers." in str(error.value)
    assert "features['ner_tags'].feature.names" in str(error.value)


def test_a_text_of_invisible_characters_says_which(tmp_path):
    columns = {"text": ["a", "\u200b\u200b"], "label": ["a", "b"]}
    path = own_data.write(tmp_path / "a.csv", columns)
    with pytest.raises(UserError, match=r"invisible characters: '\\u200b"):
        read(path).texts("text")


@pytest.mark.parametrize("metric", task_lib.TWO_CLASSES)
def test_a_metric_of_one_label_names_it(metric, tmp_path):
    columns = own_data.news(20)
    columns["team"] = ["spam", "ham"] * 10
    path = own_data.write_task(tmp_path, columns=columns, metric=metric)
    source = table_source.TableSource(task_file.read_task_file(path))
    assert source.task.title == f"{metric} of 'spam'"
    splits = {name: {"": source.read(name)} for name in ("train", "test")}
    described = card.describe_data(source.task, splits)
    assert f"task news: classes, {metric} of 'spam'\n" in described
    assert source.task.scored_by("accuracy").title == "accuracy"
