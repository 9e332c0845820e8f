"""The wheel and the source distribution: what is in them, and a new user's first steps with the wheel."""

import ast
import hashlib
import subprocess
import tarfile
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest
from tools.distribution import ROOT, build_sdist, build_wheel, copy_tree, tracked_files
from tools.install_ways import Failed, Requested, User, install_with_uv, pythons

from memory_mcp import DISTRIBUTION, __version__
from tests.install.product import try_out

DIST_INFO = f"{DISTRIBUTION.replace('-', '_')}-{__version__}.dist-info"
OLD_MINORS = range(6, 11)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_tree(tmp_path_factory.mktemp("tree"))


@pytest.fixture(scope="module")
def wheel(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tree, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def sdist(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_sdist(tree, tmp_path_factory.mktemp("sdist"))


def package_files() -> set[str]:
    return {path.relative_to("src").as_posix() for path in tracked_files("src/memory_mcp")}


def contents(wheel: Path) -> dict[str, str]:
    with zipfile.ZipFile(wheel) as opened:
        return {name: hashlib.sha256(opened.read(name)).hexdigest() for name in opened.namelist()}


def test_the_wheel_holds_the_package_with_its_data_and_nothing_else(wheel: Path) -> None:
    described = {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE"}
    assert set(contents(wheel)) == package_files() | {f"{DIST_INFO}/{name}" for name in described}
    assert {"memory_mcp/py.typed", "memory_mcp/web/viewer.html", "memory_mcp/web/app/index.html"} <= package_files()
    assert {"memory_mcp/web/viewer-licenses.md", "memory_mcp/web/app/licenses.md"} <= package_files()


def test_the_wheel_describes_itself(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as opened:
        metadata = message_from_bytes(opened.read(f"{DIST_INFO}/METADATA"))
    assert (metadata["Name"], metadata["Version"], metadata["Requires-Python"]) == (DISTRIBUTION, __version__, ">=3.11")
    assert (metadata["License-Expression"], metadata["License-File"]) == ("MIT", "LICENSE")
    assert metadata.get_all("Provides-Extra") == ["clickhouse", "portals", "postgres"]


def test_the_source_distribution_builds_the_same_wheel(sdist: Path, wheel: Path, tmp_path: Path) -> None:
    with tarfile.open(sdist) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    described = {"CHANGELOG.md", "LICENSE", "PKG-INFO", "README.md", "pyproject.toml", ".gitignore"}
    assert names == {f"src/{name}" for name in package_files()} | described
    assert contents(build_wheel(sdist, tmp_path)) == contents(wheel)


def test_the_wheel_works_in_an_empty_environment(wheel: Path, tmp_path: Path) -> None:
    """`make install-check` tries every Python and every way to install it."""
    user = User(tmp_path, Path.home() / ".cache")
    try:
        command = install_with_uv(user, Requested(str(wheel), "memory-mcp", constraints=ROOT / "requirements.txt"))
    except Failed as exc:
        if "error sending request" in str(exc):
            pytest.skip("The package registry is out of reach, and uv's cache does not hold every package.")
        raise
    try_out(user, command)


def test_an_older_python_gets_one_sentence_from_the_source() -> None:
    source = (ROOT / "src" / "memory_mcp" / "__init__.py").read_text(encoding="ascii")
    ast.parse(source, feature_version=(3, 7))
    for version, python in pythons(OLD_MINORS).items():
        done = subprocess.run(
            [python, "-m", "memory_mcp"], cwd=ROOT / "src", capture_output=True, text=True, check=False
        )
        assert done.returncode == 1
        assert done.stderr.startswith(
            "memory-mcp: Memory MCP needs Python 3.11 or newer, but this is Python " + version
        )
        assert done.stderr.count("\n") == 1


def test_an_older_python_gets_one_sentence_from_pip(wheel: Path, tmp_path: Path) -> None:
    found = list(pythons(OLD_MINORS).values())
    if not found:
        pytest.skip("There is no Python older than 3.11 here.")
    pip = [found[-1], "-m", "pip", "--isolated", "install", "--no-index", "--no-deps", "--target", str(tmp_path)]
    done = subprocess.run([*pip, str(wheel)], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "requires a different Python" in done.stderr
