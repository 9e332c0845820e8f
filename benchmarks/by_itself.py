"""Memory by itself: `make bench-by-itself`. The LoCoMo conversations are captured by hooks; then every question is a
prompt, and what the prompt's hook puts in front of the model is compared with the evidence.

Each conversation is a project, and each of its sessions a conversation of a client. A question is answered if the whole
text of each turn that its evidence names is there. Prompts about other things should get nothing.
"""

import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from benchmarks.figures import introduction
from benchmarks.pipe import ServerProcess, memory_mcp
from benchmarks.recall import HALVES, LOCOMO, Conversation, print_rows, read_conversations, share, wait_for_vectors
from memory_mcp import settings
from memory_mcp.app import App, answer_hook, open_app
from memory_mcp.text import tokens

UNRELATED = Path(__file__).with_name("unrelated_prompts.txt")
CASES = ((300, 3), (1500, 10))  # tokens and memories
GOALS = {300: 0.55, 1500: 0.80}  # of the questions
MAX_UNRELATED = 0.02
RUNS = 20  # of a process, for its latency


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench-by-itself ARGS=", description=__doc__.partition("\n")[0])
    locomo = Path(os.environ.get("LOCOMO_PATH") or LOCOMO)
    parser.add_argument("--locomo", type=Path, default=locomo, help="locomo10.json; else LOCOMO_PATH (%(default)s)")
    parser.add_argument("--conversations", type=int, default=10, help="only the first few of the ten")
    options = parser.parse_args()
    conversations = read_conversations(options.locomo)[: options.conversations]
    print(introduction(), flush=True)
    with tempfile.TemporaryDirectory(prefix="memory-mcp-by-itself-") as folder:
        data_dir, projects = Path(folder, "data"), Path(folder, "projects")
        with opened(data_dir) as app:
            captured = sum(capture(app, projects, conversation) for conversation in conversations)
            print(f"{captured} messages captured", flush=True)
            wait_for_vectors(data_dir)
        rows = [["", "answered", "evidence", "tokens", "questions that get nothing"]]
        for max_tokens, memories in CASES:
            with opened(data_dir, hook_prompt_tokens=max_tokens, hook_prompt_memories=memories) as app:
                prompts = measure(app, projects, conversations, max_tokens)
                print(verdict(prompts, max_tokens), flush=True)
                rows += rows_of(f"{memories} memories, {max_tokens} tokens", prompts)
                if max_tokens == CASES[0][0]:
                    print(unrelated(app, projects, conversations), flush=True)
        print_rows(rows)
        print(latency(data_dir, projects / conversations[0].name))


@contextmanager
def opened(data_dir: Path, **more: Any) -> Iterator[App]:
    given = {"data_dir": data_dir, "embedder": "builtin", "families": "notes,recall"}
    with open_app(settings.load(given | more, environ={}).settings) as app:
        yield app


def capture(app: App, projects: Path, conversation: Conversation) -> int:
    """Write each session as a transcript, and capture it. Returns how many messages there are."""
    folder = projects / conversation.name
    folder.mkdir(parents=True)
    by_session: dict[str, list[str]] = {}
    for turn in conversation.utterances:
        by_session.setdefault(turn.session or conversation.name, []).append(turn.text)
    first = datetime.now(UTC) - timedelta(days=60)
    for number, (session, texts) in enumerate(by_session.items()):
        file = folder / f"{session}.jsonl"
        speakers = list(dict.fromkeys(text.partition(":")[0] for text in texts))
        with file.open("w", encoding="utf-8") as out:
            for place, text in enumerate(texts):
                role = ("user", "assistant")[speakers.index(text.partition(":")[0]) % 2]
                at = (first + timedelta(days=number, seconds=30 * place)).isoformat()
                message = {"role": role, "content": text}
                out.write(json.dumps({"type": role, "uuid": str(place), "timestamp": at, "message": message}) + "\n")
        payload = {"session_id": session, "cwd": str(folder), "transcript_path": str(file)}
        answer_hook(app, "SessionEnd", payload)
    return len(conversation.utterances)


def given(app: App, folder: Path, session: str, prompt: str) -> str:
    payload = {"session_id": session, "cwd": str(folder), "prompt": prompt}
    output = answer_hook(app, "UserPromptSubmit", payload)["output"]
    return "" if output is None else str(output["hookSpecificOutput"]["additionalContext"])


@dataclass(frozen=True)
class Prompt:
    """What one question was given."""

    half: str  # of the conversations: the weights were chosen on the even ones
    shares: list[bool]  # for each turn of its evidence: whether its text is there
    tokens: int


def measure(app: App, projects: Path, conversations: Sequence[Conversation], max_tokens: int) -> list[Prompt]:
    prompts = []
    for conversation in conversations:
        texts = {turn.id: " ".join(turn.text.split()) for turn in conversation.utterances}
        for number, question in enumerate(conversation.questions):
            session = f"{conversation.name}-{max_tokens}-{number}"
            text = given(app, projects / conversation.name, session, question.text)
            shown = " ".join(text.split())
            shares = [texts[id_] in shown for id_ in question.evidence]
            prompts.append(Prompt(question.half, shares, tokens.estimate(text)))
    return prompts


def rows_of(case: str, prompts: Sequence[Prompt]) -> Iterator[list[str]]:
    for half in (*HALVES, "all"):
        chosen = [prompt for prompt in prompts if half in (prompt.half, "all")]
        if chosen:
            counts = [prompt.tokens for prompt in chosen]
            yield [
                f"{case}, {half}",
                share(answered(chosen)),
                share(statistics.fmean(statistics.fmean(prompt.shares) for prompt in chosen)),
                f"{statistics.fmean(counts):.0f}, at most {max(counts)}",
                share(counts.count(0) / len(counts)),
            ]


def answered(prompts: Sequence[Prompt]) -> float:
    return statistics.fmean(all(prompt.shares) for prompt in prompts)


def verdict(prompts: Sequence[Prompt], max_tokens: int) -> str:
    found, goal = answered(prompts), GOALS[max_tokens]
    return f"{'met' if found >= goal else 'MISSED'}: {found:.3f} answered in {max_tokens} tokens (goal: {goal})"


def unrelated(app: App, projects: Path, conversations: Sequence[Conversation]) -> str:
    prompts = UNRELATED.read_text(encoding="utf-8").splitlines()
    got = [
        bool(given(app, projects / conversation.name, f"u{number}", prompt))
        for conversation in conversations
        for number, prompt in enumerate(prompts)
    ]
    found = statistics.fmean(got)
    word = "met" if found <= MAX_UNRELATED else "MISSED"
    return f"{word}: {found:.4f} of {len(got)} unrelated prompts get anything (goal: at most {MAX_UNRELATED})"


def latency(data_dir: Path, folder: Path) -> str:
    """Of a process, from its start to its end: with a warm shared server, and without one."""
    payload = {"cwd": str(folder), "prompt": "what did we say about the adoption agencies?"}
    program, *_ = memory_mcp(data_dir)
    command = [str(program), "hook", "UserPromptSubmit", "--data-dir", str(data_dir)]
    times: dict[str, list[float]] = {"warm": [], "without a server": []}
    chosen = {"MEMORY_MCP_SHARED": "auto", "MEMORY_MCP_EMBEDDER": "builtin", "MEMORY_MCP_SHARED_IDLE": "0"}
    shared = os.environ | chosen
    with ServerProcess(memory_mcp(data_dir), quiet=False, log=None, **chosen) as server:
        server.shake_hands()
        for kind, env in (("warm", shared), ("without a server", shared | {"MEMORY_MCP_SHARED": "off"})):
            for number in range(RUNS + 2):
                stdin = json.dumps(payload | {"session_id": f"{kind}{number}"}).encode()
                began = time.perf_counter()
                subprocess.run(command, input=stdin, stdout=subprocess.DEVNULL, check=True, env=env)
                times[kind].append(time.perf_counter() - began)
    return ", ".join(
        f"{kind}: median {1000 * statistics.median(measured[2:]):.0f} ms, at most {1000 * max(measured[2:]):.0f} ms"
        for kind, measured in times.items()
    )


if __name__ == "__main__":
    main()
