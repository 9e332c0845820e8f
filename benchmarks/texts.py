"""Memories, notes and questions that look like a person's, made from a seed: no data set, the same on every machine.

Words follow Zipf's law, as they do in every language: a few stand in most memories, most in hardly any. That is
what makes full-text search fast or slow.
"""

import itertools
import random
from collections.abc import Iterator

from memory_mcp.families.notes.model import NewNote
from memory_mcp.families.vault.model import NewMemory

EVERYDAY = (
    "the of and to a in is it you that he was for on are with as his they be at one have this from or had by but what "
    "all were when we there can an your which their if do will each how them then she many some so these would other "
    "into has more her two like him see time could no make than been now my over did down only way find use may long"
)
OPENINGS = (
    "what is the",
    "what did we say about",
    "when did the",
    "where is",
    "who has the",
    "how do i",
    "which",
    "why was the",
    "talk to me about",
    "do we have",
    "is there a",
)
VOCABULARY = 30_000
TAGS = ("work", "home", "decision", "preference", "project", "person", "howto", "bug", "idea", "travel", "health")
NAMESPACES = {"default": 60, "work": 20, "reading": 10, "home": 10}  # and how many notes in a hundred each has

_ONSETS = "b bl br c ch cl cr d dr f fl fr g gl gr h j k l m n p pl pr qu r s sc sh sl sp st str t th tr v w"
_VOWELS = "a a a e e e i i o o u ai ea ee ie oo ou"
_ENDS = "- - - - ck ct d l ll m n nd ng nt p r rd rm rt s ss st t x"
_SUFFIXES = "- - - - s s ed ing er ly tion ment al ness"


class Texts:
    """An endless supply. Two with the same seed give the same, in the same order."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._vocabulary = _made_words(VOCABULARY)  # words that mean something, the rarest last
        self._words = [*EVERYDAY.split(), *self._vocabulary]
        self._weights = list(itertools.accumulate(1 / rank for rank in range(1, len(self._words) + 1)))

    def memories(self, count: int, prefix: str = "") -> Iterator[NewMemory]:
        """Each under a key of its own, 8 to 40 words long."""
        for number in range(count):
            subject, detail = self._random.choices(self._vocabulary[:5000], k=2)
            tags = self._random.sample(TAGS, self._random.randint(0, 3))
            yield NewMemory("vault", f"{prefix}{subject}-{detail}-{number}", self._sentences(), tuple(tags))

    def notes(self, count: int) -> Iterator[NewNote]:
        """16 to 160 words of markdown each, two in three under a title of their own."""
        for _ in range(count):
            title = " ".join(self._random.choices(self._vocabulary[:5000], k=self._random.randint(2, 4))).capitalize()
            (namespace,) = self._random.choices(list(NAMESPACES), weights=list(NAMESPACES.values()))
            yield NewNote(
                content="\n\n".join(self._sentences() for _ in range(self._random.randint(2, 4))),
                title=title if self._random.random() < 2 / 3 else None,
                tags=tuple(self._random.sample(TAGS, self._random.randint(0, 3))),
                importance=round(self._random.uniform(0.2, 0.9), 1),
                namespace=namespace,
            )

    def questions(self, count: int) -> list[str]:
        """Of 3 to 7 words: some everyday words and one to four that mean something, common ones and rare ones."""
        return [self._question() for _ in range(count)]

    def _sentences(self) -> str:
        words = self._random.choices(self._words, cum_weights=self._weights, k=self._random.randint(8, 40))
        middle = len(words) // 2
        sentences = [words] if len(words) < 16 else [words[:middle], words[middle:]]
        return " ".join(" ".join(sentence).capitalize() + "." for sentence in sentences)

    def _question(self) -> str:
        opening = self._random.choice(OPENINGS).split()
        minimum, maximum = max(1, 3 - len(opening)), min(4, 7 - len(opening))
        content_words = [self._content_word() for _ in range(self._random.randint(minimum, maximum))]
        return " ".join([*opening, *content_words]) + "?"

    def _content_word(self) -> str:
        common, middling, rare = (
            self._vocabulary[:300],
            self._vocabulary[300:4000],
            self._vocabulary[4000:],
        )
        (band,) = self._random.choices((common, middling, rare), weights=(3, 4, 3))
        return self._random.choice(band)


def _made_words(count: int) -> list[str]:
    """Pronounceable, each once, and short ones first, as frequent words are short."""
    drawing = random.Random(count)
    onsets, vowels, ends, suffixes = (letters.split() for letters in (_ONSETS, _VOWELS, _ENDS, _SUFFIXES))
    words: dict[str, None] = {}
    while len(words) < count:
        syllables = 1 + len(words) * 3 // count
        stem = "".join(drawing.choice(onsets) + drawing.choice(vowels) for _ in range(syllables))
        words[f"{stem}{drawing.choice(ends)}{drawing.choice(suffixes)}".replace("-", "")] = None
    return list(words)
