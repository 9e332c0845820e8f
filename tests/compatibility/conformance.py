"""The official judges of MCP servers, run against ours: the conformance suite at the two protocol revisions that
matter, then MCP Inspector as a client of the real product on every transport.

`make conformance` needs the package registries once: judges.py installs what is pinned.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.compatibility.judges import Broken, installed

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
PRODUCT = Path(sys.prefix) / "bin" / "memory-mcp"

REVISIONS = ("2025-11-25", "2026-07-28")
INSPECTOR = "inspector"
SERVER_INFO = "io.modelcontextprotocol/serverInfo"  # the server names itself on each result of the modern era only
TOOLS = {"commit_memory", "search_memories", "prune_memory", "set_session_id"}
COMMAND_TIMEOUT_S = 300.0  # for any command; the suite takes about ten
SOON = 20.0  # seconds for a server to end
MAX_LOG_CHARS = 4000  # shown of a server's log


@dataclass
class Tally:
    passed: int = 0
    failed: int = 0

    def check(self, name: str, problem: str | None) -> None:
        """Count one check and say how it went."""
        if problem is None:
            self.passed += 1
            print(f"ok    {name}", flush=True)
        else:
            self.failed += 1
            print(f"FAIL  {name}: {problem}", flush=True)


# Running the judges


def _must(command: Sequence[str], cwd: Path = ROOT) -> str:
    """What a command prints. Raises Broken if it fails."""
    done = _run(command, cwd)
    if done.returncode:
        raise Broken(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def _run(command: Sequence[str], cwd: Path = ROOT, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end. One that does not come to it in time has failed."""
    try:
        return subprocess.run(
            command,
            cwd=cwd,
            env=_environ(**environ),
            capture_output=True,
            text=True,
            timeout=COMMAND_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 124, "", f"It did not end within {COMMAND_TIMEOUT_S:.0f} seconds.")


def _environ(**more: str) -> dict[str, str]:
    """The environment of this process, without settings of a user's own server."""
    return {name: value for name, value in os.environ.items() if not name.startswith("MEMORY_MCP_")} | more


def _judge(name: str, *arguments: str) -> list[str]:
    return installed().command(name, *arguments)


# Servers


@contextmanager
def serving(name: str, command: Sequence[str], scratch: Path, tally: Tally) -> Iterator[str]:
    """The MCP address of a server that runs as long as the block, and must then end with status 0 on SIGTERM."""
    log, failed_before = scratch / f"{name.replace(' ', '-')}.log", tally.failed
    with (
        log.open("w") as errors,
        subprocess.Popen(command, cwd=ROOT, env=_environ(), stdout=subprocess.PIPE, stderr=errors, text=True) as server,
    ):
        try:
            yield _address(server, log)
        finally:
            server.terminate()
            try:
                server.wait(SOON)
            except subprocess.TimeoutExpired:
                server.kill()
    tally.check(f"{name}: ends on SIGTERM", f"its status is {server.returncode}" if server.returncode else None)
    if tally.failed > failed_before and (output := log.read_text()):
        print(f"      log of {name}:\n{output[-MAX_LOG_CHARS:]}", flush=True)


def _address(server: subprocess.Popen[str], log: Path) -> str:
    """Read from what the server prints when it starts, since it has taken a free port."""
    for line in server.stdout or ():
        if found := re.search(r"MCP\s+(http://\S+)", line):
            return found[1]
    raise Broken(f"The server did not start:\n{log.read_text()}")


# The conformance suite


def judge_revisions(revisions: Sequence[str], scratch: Path, tally: Tally) -> None:
    data = str(scratch / "profile")
    command = [sys.executable, "-m", "tests.compatibility.profile", "--port", "0", "--data-dir", data]
    with serving("profile server", command, scratch, tally) as address:
        for revision in revisions:
            judge_revision(revision, address, scratch / revision, tally)


def judge_revision(revision: str, address: str, results: Path, tally: Tally) -> None:
    """Every scenario the revision requires must pass without a warning, which is what the suite gives for a SHOULD that
    is not heeded. Failures of what the revision does not require are only named."""
    required = required_scenarios(revision)
    options = ("--url", address, "--requirements", revision, "--output-dir", str(results))
    done = _run(_judge("conformance", "server", *options))
    checks = {name: _checks(results, name) for name in required}
    failing = {name: problems for name in required if (problems := _problems(checks[name]))}
    passed = len(required) - len(failing)
    if done.returncode and not failing:
        failing["the suite"] = [f"its status is {done.returncode}\n{done.stdout[-2000:]}{done.stderr}"]
    tally.passed += passed
    tally.failed += len(failing)
    verdict = "FAIL" if failing else "ok  "
    good = sum(check["status"] == "SUCCESS" for found in checks.values() for check in found)
    print(f"{verdict}  conformance {revision}: {passed} of {len(required)} required scenarios pass ({good} checks)")
    for name, problems in failing.items():
        print(f"      {name}: {'; '.join(problems)}", flush=True)
    if unscored := re.findall(r"^  ✗ (\S+) \(", done.stdout, re.MULTILINE):
        print(f"      not required, and failing: {', '.join(unscored)}", flush=True)


def required_scenarios(revision: str) -> list[str]:
    listed = _must(_judge("conformance", "list", "--requirements", revision))
    of_servers = listed.partition("Server scenarios")[2].partition("Client scenarios")[0]
    names = re.findall(r"^  - (\S+)$", of_servers, re.MULTILINE)
    if not names:
        raise Broken(f"The suite requires nothing for {revision}:\n{listed}")
    return names


def _checks(results: Path, scenario: str) -> list[dict[str, Any]]:
    """What the suite wrote down, in a folder named after the scenario and the time."""
    files = results.glob(f"server-{scenario}-20*/checks.json")
    return [check for file in files for check in json.loads(file.read_text())]


def _problems(checks: Sequence[dict[str, Any]]) -> list[str]:
    bad = [check for check in checks if check["status"] in ("FAILURE", "WARNING")]
    if not bad and not any(check["status"] == "SUCCESS" for check in checks):
        return ["nothing was checked"]
    return [f"{check['id']}: {check.get('errorMessage')}" for check in bad]


# MCP Inspector


@dataclass(frozen=True)
class Way:
    """One way for the inspector to reach the product."""

    name: str
    options: tuple[str, ...]
    command: tuple[str, ...] = ()  # on stdio, the server to start
    is_modern: bool = False

    def arguments(self, *method: str) -> list[str]:
        era = ("--protocol-era", "modern" if self.is_modern else "legacy")
        return ["--cli", "--format", "json", *era, *self.options, "--method", *method, "--", *self.command]


class Inspector:
    """MCP Inspector's command line, in a home folder of its own."""

    def __init__(self, home: Path) -> None:
        self._home = home
        home.mkdir()

    def ask(self, way: Way, *method: str) -> tuple[dict[str, Any], str | None]:
        """The result, and what is wrong with it if anything is."""
        done = _run(_judge("mcp-inspector", *way.arguments(*method)), HOME=str(self._home))
        if done.returncode:
            return {}, f"status {done.returncode}: {(done.stderr or done.stdout).strip()}"
        return json.loads(done.stdout)["result"], None

    def call(self, way: Way, tool: str, **arguments: Any) -> tuple[dict[str, Any], str | None]:
        """The structured content of a tool's result, and what is wrong with it if anything is."""
        result, problem = self.ask(way, "tools/call", "--tool-name", tool, "--tool-args-json", json.dumps(arguments))
        if problem is None and (SERVER_INFO in result.get("_meta", {})) != way.is_modern:
            problem = "the inspector spoke the other era"
        return result.get("structuredContent", {}), problem


def inspect(scratch: Path, tally: Tally) -> None:
    inspector = Inspector(scratch / "home")
    data = str(scratch / "product")
    key = new_key(data)
    command = [str(PRODUCT), "serve", "--transport", "http", "--port", "0", "--data-dir", data]
    with serving("product server", command, scratch, tally) as address:
        for way in ways(address, key, data):
            inspect_way(inspector, way, tally)
        stranger = Way("Streamable HTTP without a key", ("--server-url", address, "--stored-auth-only"))
        _, problem = inspector.ask(stranger, "tools/list")
        was_refused = problem is not None and "missing_bearer" in problem
        tally.check(f"inspector, {stranger.name}: refused", None if was_refused else problem or "it was let in")


def ways(address: str, key: str, data: str) -> tuple[Way, ...]:
    bearer = ("--header", f"Authorization: Bearer {key}")
    http = ("--server-url", address, "--transport", "http", *bearer)
    sse = ("--server-url", f"{address}/sse", "--transport", "sse", *bearer)
    stdio = (str(PRODUCT), "serve", "--data-dir", data)
    return (
        Way("stdio", (), stdio),
        Way("stdio, modern era", (), stdio, is_modern=True),
        Way("Streamable HTTP", http),
        Way("Streamable HTTP, modern era", http, is_modern=True),
        Way("SSE", sse),
    )


def inspect_way(inspector: Inspector, way: Way, tally: Tally) -> None:
    """List the tools, with schemas that suit every client; write a memory; find it from another connection."""
    result, problem = inspector.ask(way, "tools/list", "--strict")
    names = {tool["name"] for tool in result.get("tools", ())}
    tally.check(f"inspector, {way.name}: tools/list", problem or (None if names >= TOOLS else f"only {names}"))

    key = f"inspector over {way.name}"
    answer, problem = inspector.call(way, "commit_memory", scope="vault", key=key, content=f"Met {key}.")
    tally.check(
        f"inspector, {way.name}: commit_memory", problem or (None if answer.get("committed") else f"got {answer}")
    )

    answer, problem = inspector.call(way, "search_memories", query=key, scope="vault")
    keys = [found["key"] for found in answer.get("results", ())]
    tally.check(f"inspector, {way.name}: search_memories", problem or (None if key in keys else f"found {keys}"))


def new_key(data: str) -> str:
    made = _must([str(PRODUCT), "keys", "create", "--name", "inspector", "--data-dir", data, "--json"])
    return str(json.loads(made)["key"])


def main() -> int:
    flags = argparse.ArgumentParser(prog="python -m tests.compatibility.conformance", description=__doc__)
    flags.add_argument("--only", choices=(*REVISIONS, INSPECTOR), help="One part instead of all.")
    only = flags.parse_args().only
    revisions = [revision for revision in REVISIONS if only in (None, revision)]
    tally = Tally()
    try:
        installed()
        with tempfile.TemporaryDirectory(prefix="memory-mcp-conformance-") as scratch:
            if revisions:
                judge_revisions(revisions, Path(scratch), tally)
            if only in (None, INSPECTOR):
                inspect(Path(scratch), tally)
    except Broken as exc:
        print(f"conformance: {exc}", file=sys.stderr)
        return 2
    print(f"{tally.passed} passed, {tally.failed} failed")
    return 1 if tally.failed else 0


if __name__ == "__main__":
    sys.exit(main())
