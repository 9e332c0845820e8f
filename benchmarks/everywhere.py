"""How much one search over everything finds: `make bench-everywhere`. LoCoMo conversations, spread over all families.

Each conversation has a server of its own, and each of its sessions is an MCP session. Its turns are distributed in
order: one to the vault, the next to the notes, then to a store, a graph and a portal. The same questions are sent to
the same tool with everything in the notes, whose index looks at each turn together with the one before it, and with
everything in the vault, where only the merge of matches knows what was written before.
"""

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import unquote

from benchmarks.figures import introduction, load
from benchmarks.pipe import ServerProcess, memory_mcp
from benchmarks.recall import (
    CATEGORIES,
    LOCOMO,
    Answer,
    Conversation,
    Turn,
    print_rows,
    read_conversations,
    scores_of,
    share,
)

MAX_HITS = 20
SPREAD, ALL_NOTES, ALL_VAULT = "over all five families", "all in notes", "all in the vault"
SETTLED_S = 3.0  # between two checks whether vectors still come
GOAL = 0.95  # of what is found with everything in one place

Keep = Callable[[ServerProcess, Turn], str]
"""Keeps a turn, and says by what `ref` (or, of a portal's row, title) it will be found."""


def in_vault(server: ServerProcess, turn: Turn) -> str:
    server.answer("commit_memory", {"scope": "vault", "key": turn.id, "content": turn.text}, turn.session)
    return f"memory://vault/{turn.id}"


def in_notes(server: ServerProcess, turn: Turn) -> str:
    return f"memory://note/{server.answer('memory_create', {'content': turn.text}, turn.session)['id']}"


def in_store(server: ServerProcess, turn: Turn) -> str:
    path = turn.id.lower().replace(":", "/")
    server.answer("add_memory", {"store": "talk", "path": path, "content": turn.text}, turn.session)
    return f"stores:talk/{path}"


def in_graph(server: ServerProcess, turn: Turn) -> str:
    entity = {"name": turn.id, "entity_type": "turn", "observations": [turn.text]}
    server.answer("create_entities", {"project": "talk", "entities": [entity]}, turn.session)
    return f"graph:talk/{turn.id}"


def in_portal(server: ServerProcess, turn: Turn) -> str:
    record = {"role": "user", "content": turn.text}
    written = {"portalUri": "mem://talk/turns", "table": "messages", "data": [record]}
    server.answer("portal_write", written, turn.session)
    return f"messages: {' '.join(turn.text.split())}"[:80]


WAYS: dict[str, Sequence[Keep]] = {
    ALL_NOTES: (in_notes,),
    ALL_VAULT: (in_vault,),
    SPREAD: (in_vault, in_notes, in_store, in_graph, in_portal),
}


def main() -> None:
    options = _arguments()
    started = time.monotonic()
    conversations = read_conversations(options.locomo)[: options.conversations]
    print(introduction())
    answers = {way: [a for one in conversations for a in _answers_to(one, keep)] for way, keep in WAYS.items()}
    columns = list(scores_of(answers[SPREAD]))
    print_rows(
        [["recall_memories", *columns], *([way, *map(share, scores_of(a).values())] for way, a in answers.items())]
    )
    rows = [["R@10", *CATEGORIES.values()]]
    for way, given in answers.items():
        of = [[a.recall(10) for a in given if a.question.category == category] for category in CATEGORIES.values()]
        rows.append([way, *(share(statistics.fmean(own)) if own else "" for own in of)])
    print_rows(rows)
    found = {way: scores_of(given)["R@10"] for way, given in answers.items()}
    ratio = found[SPREAD] / found[ALL_NOTES]
    print(f"\nSpread, R@10 is {ratio:.3f} of what it is with everything in notes (goal: {GOAL}),")
    print(f"and {found[SPREAD] / found[ALL_VAULT]:.3f} of what it is with everything in the vault")
    print(f"{time.monotonic() - started:.0f} s in all, {load()} at the end")
    if ratio < GOAL:
        raise SystemExit(1)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench-everywhere ARGS=", description=__doc__.partition("\n")[0])
    locomo = Path(os.environ.get("LOCOMO_PATH") or LOCOMO)
    parser.add_argument("--locomo", type=Path, default=locomo, help="locomo10.json; else LOCOMO_PATH (%(default)s)")
    parser.add_argument("--conversations", type=int, default=10, help="only the first few of the ten")
    return parser.parse_args()


def _answers_to(conversation: Conversation, keepers: Sequence[Keep]) -> list[Answer]:
    with (
        tempfile.TemporaryDirectory(prefix="memory-mcp-everywhere-") as folder,
        ServerProcess(memory_mcp(Path(folder), "--embedder", "builtin")) as server,
    ):
        server.shake_hands()
        server.answer("create_project", {"name": "talk"})
        utterances: dict[str, str] = {}
        for place, turn in enumerate(conversation.utterances):
            utterances[keepers[place % len(keepers)](server, turn)] = turn.id
        _wait_until_indexed(server, Path(folder))

        def found(question: str) -> list[str]:
            answer = server.answer("recall_memories", {"query": question, "limit": MAX_HITS})
            if answer["incomplete"]:
                raise SystemExit(f"recall_memories was incomplete: {answer['incomplete']}")
            names = [hit["title"] if hit["family"] == "portals" else unquote(hit["ref"]) for hit in answer["hits"]]
            return [utterances[name] for name in names if name in utterances]

        return [Answer(question, found(question.text)) for question in conversation.questions]


def _wait_until_indexed(server: ServerProcess, folder: Path) -> None:
    """Until the copies are made, and no vector has come for a while."""
    while server.answer("recall_memories", {"query": "anything", "limit": 1})["incomplete"]:
        time.sleep(SETTLED_S)
    while _waiting(folder):
        time.sleep(SETTLED_S)


def _waiting(folder: Path) -> int:
    import apsw

    waiting = 0
    for name in ("notes.db", "recall.db"):
        db = apsw.Connection(str(folder / name), flags=apsw.SQLITE_OPEN_READONLY)
        waiting += len(db.execute("SELECT 1 FROM embed_queue").fetchall())
        db.close()
    return waiting


if __name__ == "__main__":
    main()
