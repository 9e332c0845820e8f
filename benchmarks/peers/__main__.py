"""Memory MCP and its peers, one after the other, with the same work: `make bench-peers`.

Writes the tables into docs/benchmarks.md and the chart into docs/pictures. Ends with status 1 if a peer that keeps what
it acknowledges is ahead of ours in a row that docs/benchmarks.md does not excuse. It needs the package registries once.
"""

import argparse
import os
import platform
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import anyio
from tools.install_ways import Failed

from benchmarks.figures import versions
from benchmarks.peers import chart, report, rows
from benchmarks.peers.adapters import Adapter
from benchmarks.peers.connection import CallFailed
from benchmarks.peers.installation import ENVIRONMENTS, install
from benchmarks.peers.locomo import measure_recall
from benchmarks.peers.results import Result, ResultFiles
from benchmarks.peers.servers import OURS, PEERS
from benchmarks.peers.workload import Run, measure
from benchmarks.recall import LOCOMO, Conversation, read_conversations

CONVERSATIONS = 3


def main() -> int:
    options = _arguments()
    conversations = read_conversations(options.locomo)[:CONVERSATIONS]
    files = ResultFiles(ENVIRONMENTS / "results", options.writes)
    chosen = [adapter for adapter in (*OURS, *PEERS) if options.only in adapter.name]
    if not options.is_continued:
        for adapter in (*OURS, *PEERS):
            files.delete(adapter.name)
    with tempfile.TemporaryDirectory(prefix="bench-peers-", dir=options.dir) as scratch:
        run = Run(Path(scratch), options.offline, options.writes)
        for adapter in chosen:
            _measure(adapter, run, conversations, files)
    return _report([result for adapter in (*OURS, *PEERS) if (result := files.read(adapter.name))], options.writes)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench-peers ARGS=", description=__doc__.partition("\n")[0])
    locomo = Path(os.environ.get("LOCOMO_PATH") or LOCOMO)
    parser.add_argument("--locomo", type=Path, default=locomo, help="locomo10.json; else LOCOMO_PATH (%(default)s)")
    parser.add_argument("--writes", type=int, default=1_000, help="memories to write to each (%(default)s)")
    parser.add_argument("--only", default="", help="only servers whose name contains this")
    parser.add_argument(
        "--continue", dest="is_continued", action="store_true", help="only servers that an earlier run did not finish"
    )
    parser.add_argument("--offline", action="store_true", help="peers cannot download models")
    parser.add_argument("--dir", help="where the memories go: durable writes are as fast as this disk")
    return parser.parse_args()


def _measure(adapter: Adapter, run: Run, conversations: list[Conversation], files: ResultFiles) -> None:
    """What is not measured yet: the calls, then LoCoMo; each is saved. Never raises for what a peer does: the result
    says what did not work."""
    result = files.read(adapter.name) or Result(adapter.name)
    started = time.monotonic()
    try:
        environment = install(adapter)
        if not result.version:
            result.version, result.load, result.measured_at = environment.version, os.getloadavg()[0], _now()
            anyio.run(measure, environment, run, result)
            files.save(result)
        if not result.recall and not result.problem:
            result.recall = anyio.run(measure_recall, environment, run, conversations)
    except (Failed, CallFailed) as exc:
        result.problem = " ".join(str(exc).split())[:300]
    files.save(result)
    print(f"{adapter.name}: {time.monotonic() - started:.0f} s {result.problem}", flush=True)


def _now() -> str:
    return f"{datetime.now(UTC):%d %B %Y %H:%M}"


def _report(results: list[Result], writes: int) -> int:
    """Print the tables, and write them if every server is measured."""
    page = report.PAGE.read_text(encoding="utf-8")
    given = rows.excuses(page)
    families = {adapter.name: adapter.next_to for adapter in PEERS}
    ours = {result.name: result for result in results if result.name not in families}
    peers = [(result, families[result.name]) for result in results if result.name in families]
    leads = rows.leads(ours, peers)
    how = f"{versions()}, {platform.machine()}, {writes:,} writes"
    tables = report.tables(results, {adapter.name: adapter.note for adapter in PEERS})
    text = f"{tables}\n\n{report.leads_table(leads, given)}\n\n{report.times(how, results)}"
    print(f"\n{text}")
    if len(results) == len(OURS) + len(PEERS):
        report.PAGE.write_text(report.write_page(page, text), encoding="utf-8")
        chart.PICTURE.write_text(chart.chart(results, list(ours), results[-1].measured_at), encoding="utf-8")
    return 1 if any(not rows.excuse_for(lead, given) for lead in leads) else 0


if __name__ == "__main__":
    sys.exit(main())
