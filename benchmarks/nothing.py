"""Questions that nothing fits, and paraphrases, which something fits although no word is shared: a part of
`make bench-answers`.

Every paraphrase is a note in a namespace of its own, and has the tag of one half of them. So a question can be sent
where its note is alone, where it is one of many, and where it is missing.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.pipe import ServerProcess
from benchmarks.recall import Conversation, print_rows, share

PAIRS = Path(__file__).with_name("paraphrases.json")
HALVES = ("half-0", "half-1")
MAX_FOREIGN = 100  # questions of another conversation, for each conversation
NONSENSE = """
    xqzzt flurbo; zxqv blorptang; grmpf; wibble wobblex; qwertyuiop asdf; snorfblatt quzzle; klaatu varanka; fnord zzyzx
    ; blarg; xyzzy plugh; vrabnok; tirrelsham dovquith; mulgafen; prindle skox; uvvbeq; hesprat onkweld; jaxilopt;
    corvuntle bimsy; drozzap; yeltharn quib
"""


@dataclass(frozen=True)
class Search:
    """A query, the filter it is sent with, and the id of the note that answers it."""

    query: str
    within: dict[str, Any]
    note: str | None = None


def write_pairs(server: ServerProcess) -> dict[str, str]:
    """The ids of the notes, by their questions."""
    ids = {}
    for number, pair in enumerate(json.loads(PAIRS.read_bytes())):
        note = {"content": pair["note"], "namespace": f"pair-{number}", "tags": [HALVES[number % 2]]}
        ids[pair["question"]] = server.answer("memory_create", note)["id"]
    return ids


def print_shares(server: ServerProcess, conversations: Sequence[Conversation], pairs: dict[str, str]) -> None:
    """How many answers are empty, and how many hold the note that is the answer."""
    rows = [["", "questions", "empty", "empty, by meaning alone", "answer among 10"]]
    for name, searches in _cases(conversations, pairs).items():
        hybrid, semantic = ([_found(server, one, mode) for one in searches] for mode in ("hybrid", "semantic"))
        known = [(one.note, found) for one, found in zip(searches, hybrid, strict=True) if one.note]
        held = share(sum(note in found for note, found in known) / len(known)) if known else ""
        rows.append([name, str(len(searches)), _empty(hybrid), _empty(semantic), held])
    print_rows(rows)


def _cases(conversations: Sequence[Conversation], pairs: dict[str, str]) -> dict[str, list[Search]]:
    questions = list(enumerate(pairs))
    others = [*conversations[1:], *conversations[:1]]
    nonsense = [" ".join(words.split()) for words in NONSENSE.split(";")]
    return {
        "of the conversation": [
            Search(one.text, {"namespace": conversation.name})
            for conversation in conversations
            for one in conversation.questions
        ],
        "of another conversation": [
            Search(one.text, {"namespace": conversation.name})
            for conversation, other in zip(conversations, others, strict=True)
            for one in other.questions[:MAX_FOREIGN]
        ],
        "paraphrase of the only note": [Search(text, {"namespace": f"pair-{n}"}, pairs[text]) for n, text in questions],
        "paraphrase of one of 42 notes": [
            Search(text, {"tags": [HALVES[n % 2]]}, pairs[text]) for n, text in questions
        ],
        "paraphrase of one of all notes": [Search(text, {}, pairs[text]) for _, text in questions],
        "about another note than the only one": [
            Search(text, {"namespace": f"pair-{(n + 7) % len(pairs)}"}) for n, text in questions
        ],
        "about none of 42 notes": [Search(text, {"tags": [HALVES[(n + 1) % 2]]}) for n, text in questions],
        "nonsense, 42 notes": [Search(text, {"tags": [half]}) for text in nonsense for half in HALVES],
        "nonsense, a conversation": [
            Search(text, {"namespace": conversation.name}) for text in nonsense for conversation in conversations
        ],
    }


def _found(server: ServerProcess, search: Search, mode: str) -> list[str]:
    wanted = {"query": search.query, "limit": 10, "search_mode": mode, "details": False, **search.within}
    answer = server.answer("memory_search", wanted)
    if not answer["memories"] and "notice" not in answer:
        raise SystemExit(f"An empty answer without a notice: {search.query}")
    return [note["id"] for note in answer["memories"]]


def _empty(answers: Iterable[list[str]]) -> str:
    counted = [not found for found in answers]
    return share(sum(counted) / len(counted))
