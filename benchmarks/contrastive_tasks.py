"""The tasks of the contrastive comparison: tables of texts and labels.

Three are made from the data, and are ours: `hazards` is the kind of hazard of
a tweet, `sports` is the sport of a sentence of news, and `entities` is the kind
of the entities in a sentence.
"""

import csv
import itertools
import os
import re
import urllib.parse
from collections.abc import Callable, Iterator

import pandas as pd

HAZARDS = {
    "fire": "ablaze blaze blazing fire flames smoke arson burned burning "
    "wildfire wild bush forest",
    "water": "flood flooding floods deluge deluged inundated drown drowned "
    "drowning tsunami",
    "storm": "storm hurricane typhoon cyclone tornado twister windstorm "
    "thunder thunderstorm lightning hail hailstorm rainstorm blizzard "
    "snowstorm sandstorm whirlwind violent",
    "ground": "earthquake aftershock seismic epicentre landslide mudslide "
    "sinkhole avalanche volcano lava",
    "violence": "suicide bomb bombed bombing terrorism terrorist hostage "
    "hostages hijack hijacker hijacking massacre mass riot rioting attack "
    "attacked",
    "traffic": "airplane crash crashed collision collide collided derail "
    "derailed derailment wreck wreckage",
}
SPORTS = ("SOCCER", "CRICKET", "BASEBALL", "TENNIS", "GOLF", "RUGBY")


def read_sst2(data: str) -> pd.DataFrame:
    """SST-2: is a sentence of a review positive?"""
    table = pd.read_csv(
        os.path.join(data, "glue/SST-2/train.tsv"),
        sep="\t",
        quoting=csv.QUOTE_NONE,
    )
    return table.rename(columns={"sentence": "text"})


def read_sentiment(data: str) -> pd.DataFrame:
    """SST-5: the five degrees of sentiment."""
    table = pd.read_csv(
        os.path.join(data, "cs224n/ids-sst-train.csv"), sep="\t"
    )
    return table.rename(columns={"sentence": "text", "sentiment": "label"})


def read_tweets(data: str) -> pd.DataFrame:
    """Is a tweet about a disaster?"""
    table = pd.read_csv(
        os.path.join(data, "tweets/train.csv"), keep_default_na=False
    )
    return table.rename(columns={"target": "label"}).drop_duplicates("text")


def read_hazards(data: str) -> pd.DataFrame:
    """The hazard of a tweet's keyword, which is left out of the text."""
    hazards = {
        word: h for h, words in HAZARDS.items() for word in words.split()
    }
    rows = []
    table = read_tweets(data)
    for text, keyword in zip(table["text"], table["keyword"]):
        words = urllib.parse.unquote(keyword).lower().split()
        labels = [hazards[word] for word in words if word in hazards]
        if labels:
            # "derailed" would tell "derailment".
            stems = "|".join(word[:5] for word in words)
            text = re.sub(rf"(?i)[#@]?\w*({stems})\w*", "it", text)
            rows.append((text, labels[0]))
    return pd.DataFrame(rows, columns=["text", "label"])


def read_stories(data: str) -> Iterator[list[list[list[str]]]]:
    """Stories of CoNLL 2003: sentences of words, each its columns."""
    path = os.path.join(data, "conll2003/eng.train")
    with open(path, encoding="utf-8") as file:
        for story in file.read().split("-DOCSTART-")[1:]:
            sentences = [part.splitlines() for part in story.split("\n\n")[1:]]
            yield [
                [line.split() for line in lines] for lines in sentences if lines
            ]


def read_sports(data: str) -> pd.DataFrame:
    """The sport that heads a sentence's story."""
    rows = [
        (" ".join(word[0] for word in sentence), story[0][0][0].lower())
        for story in read_stories(data)
        if story[0][0][0] in SPORTS
        for sentence in story[1:]
        if len(sentence) >= 8
    ]
    return pd.DataFrame(rows, columns=["text", "label"])


def read_entities(data: str) -> pd.DataFrame:
    """The only kind of entity in a sentence."""
    rows = []
    for sentence in itertools.chain.from_iterable(read_stories(data)):
        kinds = {word[-1][2:] for word in sentence if word[-1] != "O"}
        if len(kinds) == 1 and len(sentence) >= 6:
            rows.append((" ".join(word[0] for word in sentence), kinds.pop()))
    return pd.DataFrame(rows, columns=["text", "label"])


TASKS: dict[str, Callable[[str], pd.DataFrame]] = {
    "sst2": read_sst2,
    "sentiment": read_sentiment,
    "tweets": read_tweets,
    "hazards": read_hazards,
    "sports": read_sports,
    "entities": read_entities,
}
