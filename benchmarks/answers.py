"""Whether answers answer: `make bench-answers`. The LoCoMo questions, and what the answers to them hold.

Every turn is a note, as in benchmarks/recall.py. A question is answered if the whole text of each turn that its
evidence names stands in the snippets of the answer, so that no second call is needed. benchmarks/nothing.py adds
questions that nothing fits.
"""

import argparse
import json
import os
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import nothing
from benchmarks.figures import introduction
from benchmarks.pipe import ServerProcess, memory_mcp
from benchmarks.recall import LOCOMO, Conversation, print_rows, read_conversations, share, wait_for_vectors, write_notes

CASES: tuple[tuple[str, int], ...] = (
    *(("memory_search", limit) for limit in (10, 15, 20)),
    *(("recall_memories", limit) for limit in (7, 10)),
)


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench-answers ARGS=", description=__doc__.partition("\n")[0])
    locomo = Path(os.environ.get("LOCOMO_PATH") or LOCOMO)
    parser.add_argument("--locomo", type=Path, default=locomo, help="locomo10.json; else LOCOMO_PATH (%(default)s)")
    parser.add_argument("--conversations", type=int, default=10, help="only the first few of the ten")
    parser.add_argument("--only-nothing", action="store_true", help="only questions that nothing fits, and paraphrases")
    options = parser.parse_args()
    conversations = read_conversations(options.locomo)[: options.conversations]
    print(introduction())
    with tempfile.TemporaryDirectory(prefix="memory-mcp-answers-") as folder:
        command = memory_mcp(Path(folder), "--embedder", "builtin", "--families", "notes,recall")
        with ServerProcess(command) as server:
            server.shake_hands()
            for conversation in conversations:
                write_notes(server, conversation)
            wait_for_vectors(Path(folder))
            if not options.only_nothing:
                rows = [_measured(server, conversations, tool, limit) for tool, limit in CASES]
                print_rows(
                    [["", "evidence shown", "answered", "characters", "characters per answered question"], *rows]
                )
            pairs = nothing.write_pairs(server)
            wait_for_vectors(Path(folder))
            nothing.print_shares(server, conversations, pairs)


def _measured(server: ServerProcess, conversations: Sequence[Conversation], tool: str, limit: int) -> list[str]:
    shown, answered, characters = [], 0, 0
    for conversation in conversations:
        texts = {turn.id: _plain(turn.text) for turn in conversation.utterances}
        within = {"namespace": conversation.name} if tool == "memory_search" else {}
        for question in conversation.questions:
            answer = server.answer(tool, {"query": question.text, "limit": limit, **within})
            held = _held(answer)
            is_shown = [texts[id_] in held for id_ in question.evidence]
            shown.append(statistics.fmean(is_shown))
            answered += all(is_shown)
            characters += len(json.dumps(answer, ensure_ascii=False, separators=(",", ":")))
    per_answered = f"{characters / answered:.0f}" if answered else ""
    return [
        f"{tool}, limit {limit}",
        share(statistics.fmean(shown)),
        share(answered / len(shown)),
        f"{characters / len(shown):.0f}",
        per_answered,
    ]


def _held(answer: dict[str, Any]) -> str:
    hits = answer["memories"] if "memories" in answer else answer["hits"]
    return "\n".join(_plain(hit["snippet"]) for hit in hits)


def _plain(text: str) -> str:
    return " ".join(text.split())


if __name__ == "__main__":
    main()
