"""Recall of the search in notes: `make bench-recall`. The LoCoMo conversations, through the MCP tools.

Every turn is a note and every session of a conversation an MCP session. A question's evidence names the turns that
answer it: recall@k is the share of them among the first k found, averaged over the questions.
"""

import argparse
import json
import math
import os
import re
import statistics
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import apsw
import numpy as np
from tests.postgres import running_server

from benchmarks.figures import introduction, load, markdown_table
from benchmarks.pipe import ServerProcess, memory_mcp
from memory_mcp.services.embedding.builtin import Builtin

RECALL_GOAL = 0.78  # hybrid, R@10
LEXICAL, SEMANTIC, HYBRID = "memory_search, lexical", "memory_search, semantic", "memory_search, hybrid"
PLAIN, EMBEDDER = "plain FTS5", "embedder alone"
MODES = {LEXICAL: "lexical", SEMANTIC: "semantic", HYBRID: "hybrid"}
DEPTHS = (5, 10, 20)
MAX_HITS = max(DEPTHS)
NDCG_DEPTH = 10
STALLED_S = 120.0  # in which no note got its vector

LOCOMO = Path(__file__).parents[2] / "shared" / "data" / "locomo10.json"
HOW_TO_GET_IT = """\
There is no LoCoMo at {path}. It is public but not ours to pass on (CC BY-NC 4.0). Fetch data/locomo10.json of
https://github.com/snap-research/locomo and give its path with ARGS="--locomo PATH" or as LOCOMO_PATH."""

HALVES = ("tuned on", "held out")  # conversations of even number were in view when the ranking was tuned
CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
_SESSION = re.compile(r"session_(\d+)")
_EVIDENCE = re.compile(r"D:?(\d+):(\d+)")  # 'D1:3', and what stands for it by mistake: 'D:1:3', 'D1:3; D2:05'
_WORD = re.compile(r"[^\W_]+")
_STOP_WORDS = """
    a about above after again against all am an and any are aren as at be because been before being below between both
    but by can cannot could couldn d did didn do does doesn doing don down during each few for from further had hadn has
    hasn have haven having he her here hers herself him himself his how i if in into is isn it its itself just ll m many
    me more most much mustn my myself no nor not now of off on once only or other our ours ourselves out over own re s
    same shan she should shouldn so some such t than that the their theirs them themselves then there these they this
    those through to too under until up ve very was wasn we were weren what when where which while who whom why will
    with won would wouldn you your yours yourself yourselves
"""
STOP_WORDS = frozenset(_STOP_WORDS.split())


@dataclass(frozen=True)
class Turn:
    id: str
    session: str | None
    text: str
    title: str = ""


@dataclass(frozen=True)
class Question:
    text: str
    category: str
    evidence: frozenset[str]  # ids of turns
    half: str


@dataclass(frozen=True)
class Conversation:
    name: str
    utterances: list[Turn]
    questions: list[Question]


@dataclass(frozen=True)
class Answer:
    question: Question
    found: list[str]  # ids of turns, the best first

    def recall(self, depth: int) -> float:
        return len(self.question.evidence.intersection(self.found[:depth])) / len(self.question.evidence)

    @property
    def ndcg(self) -> float:
        """Normalised discounted cumulative gain of the first ten."""
        gains = [1 / math.log2(rank + 1) for rank in range(1, NDCG_DEPTH + 1)]
        found = (gain for gain, turn in zip(gains, self.found, strict=False) if turn in self.question.evidence)
        return sum(found) / sum(gains[: len(self.question.evidence)])

    @property
    def reciprocal_rank(self) -> float:
        ranks = (rank for rank, turn in enumerate(self.found, start=1) if turn in self.question.evidence)
        return 1 / next(ranks, float("inf"))


Finder = Callable[[str], list[str]]
"""From a question to the ids of the turns found, the best first."""
Answers = dict[str, list[Answer]]
"""Of each way of searching, its answers to all questions."""


def main() -> None:
    options = _arguments()
    started = time.monotonic()
    conversations = read_conversations(options.locomo)[: options.conversations]
    with tempfile.TemporaryDirectory(prefix="memory-mcp-recall-") as folder, ExitStack() as stack:
        if options.postgres:  # for the server, and for the command line
            os.environ["MEMORY_MCP_DATABASE_URL"] = stack.enter_context(running_server())
            os.environ["MEMORY_MCP_FAMILIES"] = "notes"
        status = model_status(Path(folder))
        if not status["installed"]:
            raise SystemExit("The built-in model is not installed. Run `memory-mcp models pull` once.")
        introduce("LoCoMo", conversations, status["model"])
        answers = measure(conversations, Path(folder), Builtin(Path(status["folder"])))
    print_answers(answers)
    goals = {} if options.conversations else _goals(answers)
    print()
    for goal, is_met in goals.items():
        print(f"{'met' if is_met else 'MISSED'}: {goal}")
    print(f"{time.monotonic() - started:.0f} s in all, {load()} at the end")
    if options.json:
        options.json.write_text(json.dumps({way: scores_of(given) for way, given in answers.items()}, indent=2) + "\n")
    if not all(goals.values()):
        raise SystemExit(1)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench-recall ARGS=", description=__doc__.partition("\n")[0])
    locomo = Path(os.environ.get("LOCOMO_PATH") or LOCOMO)
    parser.add_argument("--locomo", type=Path, default=locomo, help="locomo10.json; else LOCOMO_PATH (%(default)s)")
    few = "only the first few of the ten, to see that it runs; no goals then"
    parser.add_argument("--conversations", type=int, choices=range(1, 10), metavar="N", help=few)
    parser.add_argument("--postgres", action="store_true", help="keep the notes in a PostgreSQL that it starts")
    parser.add_argument("--json", type=Path, help="a file for the figures")
    return parser.parse_args()


def measure(conversations: Sequence[Conversation], data_dir: Path, embedder: Builtin) -> Answers:
    """The answers to every question, in every way of searching."""
    with ServerProcess(memory_mcp(data_dir, "--embedder", "builtin")) as server:
        server.shake_hands()
        utterances: dict[str, str] = {}  # by the id of their note
        for conversation in conversations:
            utterances |= write_notes(server, conversation)
        answers = {  # while the server makes its vectors
            PLAIN: _answers_to(conversations, plain_fts5),
            EMBEDDER: _answers_to(conversations, partial(embedder_alone, embedder)),
        }
        wait_for_vectors(data_dir)
        for way, mode in MODES.items():
            answers[way] = _answers_to(conversations, partial(memory_search, server, utterances, mode))
    return answers


def _answers_to(conversations: Iterable[Conversation], finder: Callable[[Conversation], Finder]) -> list[Answer]:
    answers = []
    for conversation in conversations:
        find = finder(conversation)
        answers += [Answer(question, find(question.text)) for question in conversation.questions]
    return answers


def plain_fts5(conversation: Conversation) -> Finder:
    """Any of the question's words in any of their forms, in the order of SQLite's bm25."""
    db = apsw.Connection(":memory:")
    db.execute("CREATE VIRTUAL TABLE turns USING fts5(id UNINDEXED, text, tokenize = 'porter unicode61')")
    db.executemany(
        "INSERT INTO turns (id, text) VALUES (?, ?)",
        [(turn.id, f"{turn.title} {turn.text}") for turn in conversation.utterances],
    )

    def find(question: str) -> list[str]:
        words = dict.fromkeys(_WORD.findall(question.lower()))
        content_words = [word for word in words if word not in STOP_WORDS] or words
        either = " OR ".join(f'"{word}"' for word in content_words)
        sql = "SELECT id FROM turns WHERE turns MATCH ? ORDER BY rank, rowid LIMIT ?"
        return [str(id_) for (id_,) in db.execute(sql, (either, MAX_HITS))]

    return find


def embedder_alone(embedder: Builtin, conversation: Conversation) -> Finder:
    """The nearest by exact cosine, each turn by itself."""
    vectors = embedder.documents([f"{turn.title}\n{turn.text}".strip() for turn in conversation.utterances])

    def find(question: str) -> list[str]:
        nearest = np.argsort(-(vectors @ embedder.query(question)), kind="stable")[:MAX_HITS]
        return [conversation.utterances[place].id for place in nearest]

    return find


def memory_search(server: ServerProcess, utterances: dict[str, str], mode: str, conversation: Conversation) -> Finder:
    def find(question: str) -> list[str]:
        wanted = {"query": question, "namespace": conversation.name, "search_mode": mode, "limit": MAX_HITS}
        found = server.answer("memory_search", wanted)
        if found.get("notice") and found["memories"]:  # without hits: nothing fits
            raise SystemExit(f"memory_search returned a notice: {found['notice']}")
        return [utterances[note["id"]] for note in found["memories"]]

    return find


def write_notes(server: ServerProcess, conversation: Conversation) -> dict[str, str]:
    """Each turn as a note, in order. The turns by the ids of their notes."""
    utterances = {}
    for turn in conversation.utterances:
        note = {"content": turn.text, "namespace": conversation.name} | ({"title": turn.title} if turn.title else {})
        utterances[server.answer("memory_create", note, session=turn.session)["id"]] = turn.id
    return utterances


def wait_for_vectors(data_dir: Path) -> None:
    waiting, since = float("inf"), time.monotonic()
    while (status := model_status(data_dir))["queue_size"]:
        if status["queue_size"] < waiting:
            waiting, since = status["queue_size"], time.monotonic()
        if time.monotonic() - since > STALLED_S:
            raise SystemExit(f"{status['queue_size']} notes wait for their vectors, and none got one for a while.")
        time.sleep(2)
    if status["total_with_embedding"] != status["total"]:
        raise SystemExit(f"Only {status['total_with_embedding']} of {status['total']} notes got their vectors.")


def model_status(data_dir: Path) -> dict[str, Any]:
    """The status of the model and of the vectors, from the command line."""
    program, *_ = memory_mcp(data_dir)
    command = (program, "models", "status", "--json", "--data-dir", data_dir)
    output = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
    status: dict[str, Any] = json.loads(output)
    return status


def read_conversations(path: Path) -> list[Conversation]:
    if not path.is_file():
        raise SystemExit(HOW_TO_GET_IT.format(path=path))
    return [_conversation(number, sample) for number, sample in enumerate(json.loads(path.read_bytes()))]


def utterances_of(name: str, spoken: Mapping[str, Any], text: Callable[[dict[str, Any]], str]) -> list[Turn]:
    """What was said in all sessions of a conversation, in order."""
    sessions = sorted(int(match[1]) for key in spoken if (match := _SESSION.fullmatch(key)))
    return [
        Turn(item["dia_id"], f"{name}-{session}", text(item))
        for session in sessions
        for item in spoken[f"session_{session}"]
    ]


def _conversation(number: int, sample: dict[str, Any]) -> Conversation:
    name = sample["sample_id"]
    spoken = sample["conversation"]
    utterances = utterances_of(name, spoken, _text)
    known = {turn.id for turn in utterances}
    questions = [
        Question(item["question"], CATEGORIES[item["category"]], evidence, HALVES[number % 2])
        for item in sample["qa"]
        if (evidence := evidence_of(item) & known)  # a few name turns that do not exist, or none
    ]
    return Conversation(name, utterances, questions)


def _text(item: dict[str, Any]) -> str:
    shared = f" [shares image: {item['blip_caption']}]" if item.get("blip_caption") else ""
    return f"{item['speaker']}: {item['text']}{shared}"


def evidence_of(item: dict[str, Any]) -> frozenset[str]:
    named = (match for text in item.get("evidence", ()) for match in _EVIDENCE.findall(text))
    return frozenset(f"D{int(session)}:{int(turn)}" for session, turn in named)


def print_answers(answers: Answers) -> None:
    print_scores(answers)
    print_by(list(CATEGORIES.values()), lambda question: question.category, answers)
    print_by(HALVES, lambda question: question.half, answers)


def print_scores(answers: Answers) -> None:
    columns = list(scores_of(answers[HYBRID]))
    print_rows([["", *columns], *([way, *map(share, scores_of(given).values())] for way, given in answers.items())])


def print_by(groups: Sequence[str], group_of: Callable[[Question], str], answers: Answers) -> None:
    """R@10 in each group of questions."""
    counts = Counter(group_of(answer.question) for answer in answers[HYBRID])
    present = [group for group in groups if counts[group]]
    rows = [["R@10", *(f"{group} ({counts[group]})" for group in present)]]
    for way, given in answers.items():
        parts = ([answer for answer in given if group_of(answer.question) == group] for group in present)
        rows.append([way, *(share(scores_of(part)["R@10"]) for part in parts)])
    print_rows(rows)


def scores_of(answers: Sequence[Answer]) -> dict[str, float]:
    recalls = {f"R@{depth}": statistics.fmean(answer.recall(depth) for answer in answers) for depth in DEPTHS}
    ndcg = statistics.fmean(answer.ndcg for answer in answers)
    return recalls | {"nDCG@10": ndcg, "MRR": statistics.fmean(answer.reciprocal_rank for answer in answers)}


def _goals(answers: Answers) -> dict[str, bool]:
    scores = {way: scores_of(given) for way, given in answers.items()}
    hybrid = scores.pop(HYBRID)
    found = hybrid["R@10"]
    goals = {f"hybrid R@10 >= {RECALL_GOAL}: {share(found)}": found >= RECALL_GOAL}
    for way, others in scores.items():
        goals[f"hybrid above {way}, in every column"] = all(hybrid[name] > score for name, score in others.items())
    return goals


def introduce(name: str, conversations: Sequence[Conversation], model: str) -> None:
    count = sum(len(conversation.utterances) for conversation in conversations)
    questions = sum(len(conversation.questions) for conversation in conversations)
    print(introduction())
    print(
        f"{model}, onnxruntime {version('onnxruntime')}; {name}: {len(conversations)} collections, {count} texts, "
        f"{questions} questions with evidence",
        flush=True,
    )


def share(score: float) -> str:
    return f"{score:.3f}"


def print_rows(rows: Sequence[Sequence[str]]) -> None:
    print(f"\n{markdown_table(rows)}")


if __name__ == "__main__":
    main()
