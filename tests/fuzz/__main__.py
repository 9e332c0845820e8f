"""Every parser under a coverage-guided fuzzer, atheris: `make fuzz`.

It begins with the kept corpus. An input on which a parser fails is added to it, so that `make test` fails until the
parser is repaired. `--keep` adds a sample of the inputs that reached new code.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.figures import introduction, print_table

from tests.fuzz import corpus_files, last_input
from tests.fuzz.parsers import PARSERS

SECONDS = 900  # in all
MAX_INPUT_BYTES = 4096
HEAD: tuple[str, ...] = ("parser", "inputs", "edges", "kept", "failed", "s")
INPUT_TIMEOUT_S = 10  # for one input; longer is a failure
MAX_MEMORY_MB = 2048
_DONE = re.compile(r"^Done (\d+) runs? in", re.MULTILINE)
_PROGRESS = re.compile(r"^#(\d+)\t", re.MULTILINE)  # of a process that was ended
_COVERED = re.compile(r"cov: (\d+) ")


@dataclass(frozen=True)
class Fuzzed:
    name: str
    runs: int
    covered: int  # edges of our own code
    added: int
    failures: list[Path]
    log: str
    seconds: float  # with loading the parser and the inputs that are kept, which on a busy machine takes longest
    status: int  # of a process that ended without a failure, it says which signal or error ended it


def main() -> None:
    options = _options()
    print(introduction())
    share = max(1, options.seconds // len(options.parsers))
    fuzzed, rows = [], [HEAD]
    for name in options.parsers:
        fuzzed.append(_fuzz(name, share, keep=options.keep))
        rows.append(_row(fuzzed[-1]))
        print(*rows[-1], sep="  ", flush=True)  # a run of an hour that is stopped shows what it has done
    print_table(f"Fuzzed for {share} s each", rows)
    print(f"{sum(one.runs for one in fuzzed):,} inputs in all")
    for one in fuzzed:
        if one.failures or one.status:
            print(f"\n{one.name} ended with status {one.status}:\n{one.log[-3000:]}")
    if any(one.failures or one.status for one in fuzzed):
        raise SystemExit(1)


def _row(one: Fuzzed) -> tuple[str, ...]:
    return one.name, f"{one.runs:,}", str(one.covered), str(one.added), str(len(one.failures)), f"{one.seconds:.0f}"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make fuzz ARGS=", description=__doc__)
    parser.add_argument("parsers", nargs="*", metavar="PARSER", help=f"of {', '.join(PARSERS)}")
    parser.add_argument("--seconds", type=int, default=SECONDS, help="for all parsers together")
    parser.add_argument("--keep", action="store_true", help="add a sample of the new inputs to the corpus")
    options = parser.parse_args()
    if unknown := set(options.parsers) - PARSERS.keys():
        parser.error(f"no parser is called {min(unknown)}")
    options.parsers = options.parsers or list(PARSERS)
    return options


def _fuzz(name: str, seconds: int, *, keep: bool) -> Fuzzed:
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        inputs, failed, last = Path(folder) / "inputs", Path(folder) / "failed", Path(folder) / "last"
        inputs.mkdir()
        failed.mkdir()
        begun = [*PARSERS[name].seeds, *corpus_files.read(name)]
        for number, one in enumerate(begun):
            (inputs / f"seed-{number}").write_bytes(one)
        limits = (f"-max_total_time={seconds}", f"-timeout={INPUT_TIMEOUT_S}")
        more = (f"-rss_limit_mb={MAX_MEMORY_MB}", f"-artifact_prefix={failed}/", "-print_final_stats=1", str(inputs))
        command = [sys.executable, "-m", "tests.fuzz.target", name, str(last), str(MAX_INPUT_BYTES), *limits, *more]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", env=os.environ, check=False)
        if done.returncode < 0:  # a signal ended it, so it could not save its input
            (failed / "killed").write_bytes(last_input.read(last))
        failures = sorted(failed.iterdir())
        added = corpus_files.add(name, [path.read_bytes() for path in failures])
        found = [path.read_bytes() for path in inputs.iterdir() if not path.name.startswith("seed-")]
        if keep and not failures:
            short = sorted((one for one in found if len(one) <= corpus_files.MAX_KEPT_BYTES), key=len)
            step = max(1, len(short) // corpus_files.MAX_KEPT)
            added += corpus_files.add(name, short[::step][: corpus_files.MAX_KEPT])
    runs = [int(found[1]) for found in (_DONE.search(done.stderr), *_PROGRESS.finditer(done.stderr)) if found]
    covered = max(map(int, _COVERED.findall(done.stderr)), default=0)
    taken_s = time.monotonic() - started
    return Fuzzed(name, max(runs, default=0), covered, added, failures, done.stderr, taken_s, done.returncode)


if __name__ == "__main__":
    main()
