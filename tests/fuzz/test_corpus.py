"""Every input that a fuzzer has found or failed on goes through its parser again. `make fuzz` looks for more."""

import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.fuzz import corpus_files, last_input
from tests.fuzz.parsers import PARSERS

IN_A_PROCESS = "sql"  # chDB stays loaded in a process that has used it


@pytest.mark.parametrize("name", [name for name in PARSERS if name != IN_A_PROCESS])
def test_no_parser_fails_on_the_corpus(name: str) -> None:
    for data in (*PARSERS[name].seeds, *corpus_files.read(name)):
        PARSERS[name].check(data)


@pytest.mark.skipif(find_spec("chdb") is None, reason="chDB is not installed")
def test_the_sql_policy_does_not_fail_on_the_corpus() -> None:
    replay = (
        "from tests.fuzz import corpus_files, parsers\n"
        f"for data in (*parsers.PARSERS['{IN_A_PROCESS}'].seeds, *corpus_files.read('{IN_A_PROCESS}')):\n"
        f"    parsers.PARSERS['{IN_A_PROCESS}'].check(data)"
    )
    subprocess.run([sys.executable, "-c", replay], check=True)


def test_the_input_of_a_process_that_was_killed_is_known(tmp_path: Path) -> None:
    die_of = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from tests.fuzz.last_input import record_inputs\n"
        "def die(data):\n"
        "    if data == b'bad':\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "check = record_inputs(die, Path(sys.argv[1]), 9)\n"
        "for data in (b'harmless', b'bad', b'never'):\n"
        "    check(data)"
    )
    ended = subprocess.run([sys.executable, "-c", die_of, str(tmp_path / "last")], check=False)
    assert (ended.returncode, last_input.read(tmp_path / "last")) == (-signal.SIGKILL, b"bad")


def test_every_corpus_belongs_to_a_parser() -> None:
    assert {path.stem for path in corpus_files.FOLDER.iterdir()} <= PARSERS.keys()
