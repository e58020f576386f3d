"""A user's table of texts, and runs on it that take seconds."""

import csv
import json
import os

import numpy as np

from tf_transfer.config import command_line
from tf_transfer.tweets import experiment as tweets

WORDS = {
    "calm": ["good", "day", "at", "the", "lake", "with", "two", "cats"],
    "disaster": ["fire", "and", "flood", "in", "the", "old", "town", "again"],
}


def write(folder):
    """Sixty rows that tell themselves apart, and one text with two labels."""
    draw = np.random.default_rng(0)
    path = folder / "mine.csv"
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["number", "text", "target"])
        for number in range(60):
            label = ("calm", "disaster")[number % 2]
            words = draw.choice(WORDS[label], 5)
            writer.writerow([number, " ".join([*words, str(number)]), label])
        writer.writerow([60, "the same text", "calm"])
        writer.writerow([61, "The same  text", "disaster"])
    return str(path)


def parsed(table, tmp_path, *words):
    return command_line.parse(
        tweets.Settings,
        [
            f"--data={table}",
            "--id_column=number",
            "--model=tiny",
            "--max_length=16",
            "--batch_size=8",
            "--max_epochs=1",
            f"--out={tmp_path / 'runs'}",
            *words,
        ],
    ).resolve()


def files_of(tmp_path):
    [folder] = [
        folder
        for folder, _, files in os.walk(tmp_path / "runs")
        if "result.json" in files
    ]
    return folder, json.load(open(os.path.join(folder, "config.json")))
