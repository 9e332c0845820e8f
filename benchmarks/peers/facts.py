"""Made-up facts about projects, each with three ways to look for it. The same on every machine."""

import random
from dataclasses import dataclass
from enum import StrEnum

SEED = 7
PROJECTS_PER_ROUND = 250
FIRST_HALVES = (
    *("Falcon", "Harbor", "Juniper", "Cobalt", "Lantern", "Meridian", "Nimbus", "Orchid", "Pylon", "Quartz", "Raven"),
    *("Saffron", "Tundra", "Umber", "Vesper", "Willow", "Xenon", "Yarrow", "Zephyr", "Amber", "Basalt", "Cinder"),
    *("Delta", "Ember", "Fjord"),
)
SECOND_HALVES = ("gate", "mill", "ridge", "port", "field", "forge", "brook", "point", "crest", "wood")
PEOPLE = ("Ana", "Bo", "Chidi", "Dana", "Emeka", "Farid", "Greta", "Hana", "Ivo", "Jun")


class Form(StrEnum):
    """How a fact is looked for."""

    NAME = "name"
    KEYWORD = "keyword"
    QUESTION = "question"


@dataclass(frozen=True)
class Fact:
    """What is written as one memory: a text under a key, and the queries that should find it."""

    key: str
    kind: str
    text: str
    queries: dict[Form, str]


@dataclass(frozen=True)
class Pattern:
    kind: str
    text: str
    values: tuple[str, ...]
    keyword: str
    question: str


PATTERNS = (
    Pattern(
        "database",
        "{name} stores its data in {value}; the choice was confirmed by {person} after the load test of {day}. Keep "
        "connection pools below {number}.",
        ("PostgreSQL 16", "MariaDB 11", "CockroachDB", "SQLite with WAL", "DynamoDB", "MongoDB 7", "Redis Stack"),
        "{name} stores data",
        "Which engine holds the data of {name}?",
    ),
    Pattern(
        "release",
        "{name} is released every {value}; {person} runs the rollout since {day}; the canary takes {number} minutes.",
        ("Monday morning", "Tuesday evening", "Wednesday noon", "Thursday night", "Friday before lunch"),
        "{name} released rollout",
        "When do we ship new versions of {name}?",
    ),
    Pattern(
        "owner",
        "The on-call owner of {name} is {person}; escalate to {value} when the pager stays silent for {number} minutes "
        "(rule of {day}).",
        ("the platform team", "Priya", "the lead of operations", "Mateusz", "the data guild"),
        "{name} on-call owner",
        "Who should I wake up if {name} breaks?",
    ),
    Pattern(
        "incident",
        "Incident in {name} on {day}: {value}. {person} fixed it by raising the limit to {number} and adding an alert.",
        ("the queue overflowed", "a certificate expired", "a migration locked the table", "DNS records went stale"),
        "{name} incident fixed",
        "What went wrong with {name} and how was it solved?",
    ),
)


def facts(count: int) -> list[Fact]:
    """One pattern after the other for each project: 1,000 facts are about 250 projects."""
    choosing = random.Random(SEED)
    names = [first + second for first in FIRST_HALVES for second in SECOND_HALVES]
    choosing.shuffle(names)
    return [_fact(choosing, names, number) for number in range(count)]


def _fact(choosing: random.Random, names: list[str], number: int) -> Fact:
    cycle, place = divmod(number, PROJECTS_PER_ROUND)
    generation, which = divmod(cycle, len(PATTERNS))
    name = names[place] + (str(generation + 1) if generation else "")
    pattern = PATTERNS[which]
    text = pattern.text.format(
        name=name,
        value=choosing.choice(pattern.values),
        person=choosing.choice(PEOPLE),
        day=f"2026-{choosing.randint(1, 12):02d}-{choosing.randint(1, 28):02d}",
        number=choosing.randint(5, 95),
    )
    queries = {Form.NAME: name, Form.KEYWORD: pattern.keyword.format(name=name)}
    queries[Form.QUESTION] = pattern.question.format(name=name)
    return Fact(f"{name}-{pattern.kind}-{number}", pattern.kind, text, queries)


def sample(written: list[Fact], count: int) -> list[Fact]:
    return random.Random(SEED).sample(written, min(count, len(written)))
