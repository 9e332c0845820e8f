"""Every input that a fuzzer has found or failed on goes through its parser again. `make fuzz` looks for more."""

import subprocess
import sys
from importlib.util import find_spec

import pytest

from tests.fuzz import corpus_files
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


def test_every_corpus_belongs_to_a_parser() -> None:
    assert {path.stem for path in corpus_files.FOLDER.iterdir()} <= PARSERS.keys()
