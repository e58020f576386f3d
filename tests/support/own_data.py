"""Tasks of a user's own: small tables in every format, and their task files."""

import csv
import json

import numpy as np

FORMATS = ("csv", "tsv", "jsonl", "parquet")
WORDS = {
    "sports": ["match", "goal", "team", "cup", "coach"],
    "money": ["bank", "price", "shares", "tax", "loan"],
    "space": ["moon", "rocket", "orbit", "star", "crew"],
}


def news(count=60):
    """Columns of texts in three classes that tell themselves apart."""
    draw = np.random.default_rng(0)
    teams = [list(WORDS)[number % 3] for number in range(count)]
    titles = [" ".join(draw.choice(WORDS[team], 4)) for team in teams]
    bodies = [f"{title} {n}" for n, title in enumerate(titles)]
    return {
        "id": [f"n{number}" for number in range(count)],
        "title": titles,
        "body": bodies,
        "team": teams,
        "stars": [float(number % 5) + 0.25 for number in range(count)],
        "tags": [
            [name for name in WORDS if name[0] in body] for body in bodies
        ],
        "words": [title.split() for title in titles],
        "marks": [
            ["B-PLACE" if w in ("moon", "bank") else "O" for w in title.split()]
            for title in titles
        ],
    }


def write(path, columns):
    """Writes columns in the format of the path's ending; returns the path."""
    ending = path.suffix[1:]
    if ending == "parquet":
        import pyarrow
        from pyarrow import parquet

        parquet.write_table(pyarrow.table(columns), path)
    elif ending == "jsonl":
        rows = [dict(zip(columns, cells)) for cells in zip(*columns.values())]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        with open(path, "w", newline="") as file:
            writer = csv.writer(
                file, delimiter="\t" if ending == "tsv" else ","
            )
            writer.writerow(columns)
            for cells in zip(*columns.values()):
                writer.writerow(
                    ";".join(c) if isinstance(c, list) else c for c in cells
                )
    return str(path)


def write_task(folder, name="news", columns=None, ending="csv", **keys):
    """A table and its task file; returns the path of the latter."""
    write(folder / f"{name}.{ending}", columns or news())
    said = {
        "name": name,
        "texts": "body",
        "label": "team",
        "train": f"{name}.{ending}",
        "test": 0.2,
        **keys,
    }
    return write_toml(folder / f"{name}.toml", said)


def write_toml(path, said):
    """Writes a flat TOML file; what is None is left out."""
    lines = []
    for key, value in said.items():
        if isinstance(value, dict):
            inside = ", ".join(
                f"{k} = {json.dumps(v)}" for k, v in value.items()
            )
            lines.append(f"{key} = {{ {inside} }}\n")
        elif value is not None:
            lines.append(f"{key} = {json.dumps(value)}\n")
    path.write_text("".join(lines))
    return str(path)
