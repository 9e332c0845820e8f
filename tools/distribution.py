"""Build the wheel and the source distribution from the files that git tracks, without the network: `make dist`."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
UV = str(Path(sys.executable).with_name("uv"))
BUILD_TIMEOUT_S = 120.0


def main() -> int:
    with tempfile.TemporaryDirectory() as scratch:
        tree, out = copy_tree(Path(scratch)), ROOT / "dist"
        print(f"{build_sdist(tree, out)}\n{build_wheel(tree, out)}")
    return 0


def tracked_files(under: str = ".") -> list[Path]:
    """The files of the work tree that git tracks or would track, relative to its root."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", under],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return [Path(name) for name in listed.split("\0") if name and (ROOT / name).is_file()]


def copy_tree(folder: Path) -> Path:
    """A copy of the work tree as a clone would have it."""
    for path in tracked_files():
        (folder / path.parent).mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, folder / path)
    return folder


def build_wheel(source: Path, out: Path) -> Path:
    """Build the wheel from a tree, or from a source distribution."""
    _build(source, out, "--wheel")
    return max(out.glob("*.whl"), key=lambda path: path.stat().st_mtime_ns)


def build_sdist(source: Path, out: Path) -> Path:
    _build(source, out, "--sdist")
    return max(out.glob("*.tar.gz"), key=lambda path: path.stat().st_mtime_ns)


def _build(source: Path, out: Path, kind: str) -> None:
    """The build backend is that of this environment, which is pinned."""
    command = [UV, "build", "--quiet", "--offline", "--no-build-isolation", "--python", sys.executable]
    subprocess.run([*command, kind, "--out-dir", str(out), str(source)], check=True, timeout=BUILD_TIMEOUT_S)


if __name__ == "__main__":
    sys.exit(main())
