"""What the search in notes finds beyond LoCoMo: `make bench-retrieval`. Public sets of texts and questions, through the
MCP tools.

A set in the format of BEIR (https://github.com/beir-cellar/beir), such as SciFact: each text of corpus.jsonl is a note
with a title. Or the chats of REALTALK (https://github.com/danny911kr/REALTALK), which people wrote: each message is a
note, each session of a chat an MCP session, as in benchmarks/recall.py.
"""

import argparse
import json
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from benchmarks.figures import load
from benchmarks.recall import (
    CATEGORIES,
    HALVES,
    Conversation,
    Question,
    Turn,
    evidence_of,
    introduce,
    measure,
    model_status,
    print_by,
    print_scores,
    scores_of,
    utterances_of,
)
from memory_mcp.services.embedding.builtin import Builtin

NO_SET = (
    "There is no {file} in {folder}. These sets are public, but not ours to pass on: docs/benchmarks.md says where."
)


def main() -> None:
    options = _arguments()
    started = time.monotonic()
    read = read_beir if options.beir else read_realtalk
    folder: Path = options.beir or options.realtalk
    collections = read(folder)
    with tempfile.TemporaryDirectory(prefix="memory-mcp-retrieval-") as data_dir:
        status = model_status(Path(data_dir))
        if not status["installed"]:
            raise SystemExit("The built-in model is not installed. Run `memory-mcp models pull` once.")
        introduce(folder.name, collections, status["model"])
        answers = measure(collections, Path(data_dir), Builtin(Path(status["folder"])))
    print_scores(answers)
    if not options.beir:
        print_by(list(CATEGORIES.values()), lambda question: question.category, answers)
        print_by(HALVES, lambda question: question.half, answers)
    print(f"\n{time.monotonic() - started:.0f} s in all, {load()} at the end")
    if options.json:
        options.json.write_text(json.dumps({way: scores_of(given) for way, given in answers.items()}, indent=2) + "\n")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench-retrieval ARGS=", description=__doc__.partition("\n\n")[0])
    sets = parser.add_mutually_exclusive_group(required=True)
    sets.add_argument("--beir", type=Path, help="a folder with corpus.jsonl, queries.jsonl and qrels/test.tsv")
    sets.add_argument("--realtalk", type=Path, help="a folder with the Chat_*.json of REALTALK")
    parser.add_argument("--json", type=Path, help="a file for the figures")
    return parser.parse_args()


def read_beir(folder: Path) -> list[Conversation]:
    if not (folder / "corpus.jsonl").is_file():
        raise SystemExit(NO_SET.format(file="corpus.jsonl", folder=folder))
    texts = [Turn(item["_id"], None, item["text"], item.get("title", "")) for item in _lines(folder / "corpus.jsonl")]
    queries = {item["_id"]: item["text"] for item in _lines(folder / "queries.jsonl")}
    known, relevant = {text.id for text in texts}, defaultdict(set)
    for line in (folder / "qrels" / "test.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        query, text, grade = line.split("\t")
        if int(grade) > 0 and text in known:
            relevant[query].add(text)
    questions = [Question(queries[query], "", frozenset(found), HALVES[1]) for query, found in relevant.items()]
    return [Conversation(folder.name, texts, questions)]


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


def read_realtalk(folder: Path) -> list[Conversation]:
    paths = sorted(folder.glob("Chat_*.json"))
    if not paths:
        raise SystemExit(NO_SET.format(file="Chat_*.json", folder=folder))
    return [_chat(path.stem, json.loads(path.read_bytes()), HALVES[number % 2]) for number, path in enumerate(paths)]


def _chat(name: str, chat: dict[str, Any], half: str) -> Conversation:
    messages = utterances_of(name, chat, _message)
    known = {message.id for message in messages}
    questions = [
        Question(item["question"], CATEGORIES[item["category"]], evidence, half)
        for item in chat["qa"]
        if (evidence := evidence_of(item) & known)
    ]
    return Conversation(name, messages, questions)


def _message(item: dict[str, Any]) -> str:
    shared = f" [shares image: {item['blip_caption']}]" if item.get("blip_caption") else ""
    return f"{item['speaker']}: {item['clean_text']}{shared}"


if __name__ == "__main__":
    main()
