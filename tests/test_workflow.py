"""The workflow for GitHub Actions: the linters know nothing against it, and it tries every Python that we support."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
WORKFLOW = ROOT / ".github" / "workflows" / "ci.yml"


def check(program: str, *arguments: str) -> None:
    command = [str(Path(sys.executable).with_name(program)), *arguments, str(WORKFLOW)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_it_fits_the_schema() -> None:
    check("check-jsonschema", "--builtin-schema", "vendor.github-workflows")


def test_zizmor_finds_nothing() -> None:
    check("zizmor", "--offline", "--quiet", "--persona=pedantic")


def test_it_tries_every_python_that_the_package_names() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = set(re.findall(r":: (3\.\d+)\b", "\n".join(project["classifiers"])))
    [matrix] = re.findall(r"python: \[(.+)\]", WORKFLOW.read_text(encoding="utf-8"))
    assert set(re.findall(r"3\.\d+", matrix)) == named


def test_every_chore_that_it_runs_exists() -> None:
    chores = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    runs = re.findall(r"\bmake ([a-z -]+)", WORKFLOW.read_text(encoding="utf-8"))
    assert {chore for run in runs for chore in run.split()} <= chores
