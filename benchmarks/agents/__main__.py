"""What an agent's tasks cost: `make bench-agents`. Each task's natural calls, over the wire, on one server.

Shows how many first calls are refused, how many tasks are solved, and the tokens in and out. A token is counted as four
characters, for both sides alike. `--command` measures another installation, such as one from before a change.
"""

import argparse
import json
import shlex
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, cast

from benchmarks.agents.model import Answers, Task
from benchmarks.agents.seed import SEED
from benchmarks.agents.tasks import TASKS
from benchmarks.figures import introduction, print_table

HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "agent", "version": "1"}}
CHARS_PER_TOKEN = 4


@dataclass
class Agent:
    """A client of one stdio server, which counts what it sends and receives."""

    process: "subprocess.Popen[str]"
    sent_chars: int = 0
    received_chars: int = 0
    _ids: int = 0

    def call(self, tool: str, arguments: dict[str, Any]) -> tuple[bool, dict[str, Any]]:
        """Whether it succeeded, and the answer or error."""
        self.sent_chars += len(tool) + len(json.dumps(arguments))
        message = self.request("tools/call", {"name": tool, "arguments": arguments})
        result = message.get("result", {"isError": True, "structuredContent": message.get("error")})
        content = result.get("structuredContent") or {}
        self.received_chars += len(json.dumps(content, ensure_ascii=False))
        return not result.get("isError"), content

    def request(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        self._ids += 1
        self._send({"id": self._ids, "method": method, "params": params or {}})
        while (message := json.loads(cast(IO[str], self.process.stdout).readline())).get("id") != self._ids:
            pass
        return cast(dict[str, Any], message)

    def notify(self, method: str) -> None:
        self._send({"method": method})

    def _send(self, message: dict[str, Any]) -> None:
        stdin = cast(IO[str], self.process.stdin)
        stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        stdin.flush()


@dataclass
class Outcome:
    task: Task
    is_first_accepted: bool = False
    is_solved: bool = False
    sent: float = 0.0  # tokens
    received: float = 0.0
    problems: list[str] = field(default_factory=list)


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench-agents ARGS=", description=__doc__)
    parser.add_argument("--command", default=f"{sys.executable} -m memory_mcp", help="what starts the server")
    parser.add_argument("--embedder", default="builtin", help="none: search by words alone")
    parser.add_argument("--first-calls", type=Path, help="JSON: for each task a {tool, arguments} to try instead")
    options = parser.parse_args()
    print(introduction())
    command = [*shlex.split(options.command), "--embedder", options.embedder]
    with tempfile.TemporaryDirectory(prefix="memory-mcp-bench-") as folder, agent(command, folder) as one:
        for step in SEED:
            is_done, answer = one.call(step.tool, step.given([]))
            if not is_done:
                raise SystemExit(f"{step.tool}: {answer}")
        if options.first_calls:
            chosen = json.loads(options.first_calls.read_text())
            outcomes = [try_first(one, task, call) for task, call in zip(TASKS, chosen, strict=True)]
        else:
            outcomes = [run(one, task) for task in TASKS]
    report(outcomes)
    if not all(outcome.is_first_accepted for outcome in outcomes):
        raise SystemExit(1)


@contextmanager
def agent(command: Sequence[str], data_dir: str) -> Iterator[Agent]:
    pipe, command = subprocess.PIPE, [*command, "--data-dir", data_dir]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, encoding="utf-8") as process:
        one = Agent(process)
        one.request("initialize", HELLO)
        one.notify("notifications/initialized")
        yield one
        cast(IO[str], process.stdin).close()


def run(one: Agent, task: Task) -> Outcome:
    """Do the steps of a task until one is refused."""
    outcome = Outcome(task)
    sent, received = one.sent_chars, one.received_chars
    answers: Answers = []
    for step in task.steps:
        try:
            is_done, answer = one.call(step.tool, step.given(answers))
        except (LookupError, KeyError) as exc:
            outcome.problems.append(f"{step.tool}: {exc}")
            break
        answers.append(answer)
        if not is_done:
            outcome.problems.append(f"{step.tool}: {json.dumps(answer)[:200]}")
            break
        outcome.is_first_accepted = True
    else:
        outcome.is_solved = task.shows.lower() in json.dumps(answers[-1], ensure_ascii=False).lower()
        if not outcome.is_solved:
            outcome.problems.append(f"{task.shows!r} is not in {json.dumps(answers[-1])[:200]}")
    outcome.sent = (one.sent_chars - sent) / CHARS_PER_TOKEN
    outcome.received = (one.received_chars - received) / CHARS_PER_TOKEN
    return outcome


def try_first(one: Agent, task: Task, given: dict[str, Any]) -> Outcome:
    """Try another first call, as a model chose it; then do the task as it is done."""
    is_done, answer = one.call(given["tool"], given["arguments"])
    is_right = given["tool"] in task.first_calls
    outcome = Outcome(task, is_first_accepted=is_done and is_right, is_solved=is_done and is_right)
    if not is_done:
        outcome.problems.append(f"{given['tool']}: {json.dumps(answer)[:200]}")
    if not is_right:
        outcome.problems.append(f"{given['tool']} is none of {', '.join(sorted(task.first_calls))}")
    if given["tool"] != task.steps[0].tool or len(task.steps) > 1:
        run(one, task)
    return outcome


def report(outcomes: Sequence[Outcome]) -> None:
    by_kind: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        by_kind[outcome.task.kind].append(outcome)
        for problem in outcome.problems:
            print(f"{outcome.task.text}\n    {problem}")
    rows = [["tasks", "", "first call accepted", "solved", "tokens in", "tokens out"]]
    for kind, some in [*by_kind.items(), ("all", list(outcomes))]:
        rows.append(
            [
                kind,
                str(len(some)),
                str(sum(outcome.is_first_accepted for outcome in some)),
                str(sum(outcome.is_solved for outcome in some)),
                f"{sum(outcome.sent for outcome in some) / len(some):.0f}",
                f"{sum(outcome.received for outcome in some) / len(some):.0f}",
            ]
        )
    print_table("An agent's tasks; tokens of a task, on average", rows)


if __name__ == "__main__":
    main()
