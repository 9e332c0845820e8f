"""The ways to install a package of PyPI for one user, each in a folder of its own."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.distribution import UV

INSTALL_TIMEOUT_S = 900.0
MINORS = range(11, 15)  # of Python 3, that are supported
REGISTRY_VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "PIP_CERT", "NODE_EXTRA_CA_CERTS")
REGISTRY_PREFIXES = ("PIP_INDEX", "PIP_EXTRA_INDEX", "UV_INDEX", "UV_DEFAULT_INDEX", "NPM_CONFIG_")


class Failed(Exception):
    """An installation that did not succeed, with the end of its output."""


@dataclass(frozen=True)
class User:
    """A user with an empty home, whose programs find caches of packages in `cache`."""

    home: Path
    cache: Path
    python: str = sys.executable

    def environment(self, **more: str) -> dict[str, str]:
        """PATH is the system's: nothing of this checkout is on it."""
        kept = {name: value for name, value in os.environ.items() if is_for_registries(name)}
        own = {
            "HOME": str(self.home),
            "PATH": f"{self.home / '.local' / 'bin'}:/usr/local/bin:/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "UV_CACHE_DIR": str(self.cache / "uv"),
            "PIP_CACHE_DIR": str(self.cache / "pip"),
            "NPM_CONFIG_CACHE": str(self.cache / "npm"),
        }
        return kept | own | more

    def run(self, *command: str, **more: str) -> str:
        """What a command prints. Raises Failed."""
        done = subprocess.run(
            command,
            cwd=self.home,
            env=self.environment(**more),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=INSTALL_TIMEOUT_S,
        )
        if done.returncode:
            raise Failed(f"{' '.join(command)}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        return done.stdout


@dataclass(frozen=True)
class Requested:
    """What to install: a requirement or the path of a wheel, with the command that it brings."""

    requirement: str
    command: str
    extra: str = ""
    constraints: Path | None = None

    @property
    def whole(self) -> str:
        return f"{self.requirement}[{self.extra}]" if self.extra else self.requirement

    @property
    def limits(self) -> list[str]:
        return ["--constraints", str(self.constraints)] if self.constraints else []


def is_for_registries(name: str) -> bool:
    """Whether a variable says how package registries are reached."""
    return name in REGISTRY_VARIABLES or name.startswith(REGISTRY_PREFIXES) or name.lower().endswith("_proxy")


def install_with_pip(user: User, wanted: Requested) -> list[str]:
    folder = user.home / "venv"
    user.run(user.python, "-m", "venv", str(folder))
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    user.run(*pip, *(["-c", str(wanted.constraints)] if wanted.constraints else []), wanted.whole)
    return [str(folder / "bin" / wanted.command)]


def install_with_uv(user: User, wanted: Requested) -> list[str]:
    folder = user.home / "venv"
    user.run(UV, "venv", "--quiet", "--python", user.python, str(folder))
    user.run(UV, "pip", "install", "--quiet", "--python", str(folder), *wanted.limits, wanted.whole)
    return [str(folder / "bin" / wanted.command)]


def install_with_uv_tool(user: User, wanted: Requested) -> list[str]:
    user.run(UV, "tool", "install", "--quiet", "--python", user.python, *wanted.limits, wanted.whole)
    return [str(user.home / ".local" / "bin" / wanted.command)]


def install_with_uvx(user: User, wanted: Requested) -> list[str]:
    """The first run installs; its environment is in uv's cache."""
    command = [UV, "tool", "run", "--quiet", "--python", user.python, *wanted.limits, "--from", wanted.whole]
    user.run(*command, wanted.command, "--help")
    return [*command, wanted.command]


def install_with_pipx(user: User, wanted: Requested) -> list[str]:
    pipx = [sys.executable, "-m", "pipx", "install", "--quiet", "--python", user.python]
    limits = [f"--pip-args=-c {wanted.constraints}"] if wanted.constraints else []
    user.run(*pipx, *limits, wanted.whole)
    return [str(user.home / ".local" / "bin" / wanted.command)]


WAYS: dict[str, Callable[[User, Requested], list[str]]] = {
    "uvx": install_with_uvx,
    "uv tool install": install_with_uv_tool,
    "pipx install": install_with_pipx,
    "pip install": install_with_pip,
    "uv pip install": install_with_uv,
}


def pythons(minors: Sequence[int] = MINORS) -> dict[str, str]:
    """The interpreters of these versions on this machine, by version: on PATH, of pyenv or of uv."""
    return {f"3.{minor}": found for minor in minors if (found := _find_python(minor))}


def _find_python(minor: int) -> str | None:
    for candidate in _candidates(minor):
        code = "import sys; print('%d.%d' % sys.version_info[:2])"
        done = subprocess.run([candidate, "-I", "-c", code], capture_output=True, text=True, check=False)
        if done.stdout.strip() == f"3.{minor}":
            return candidate
    return None


def _candidates(minor: int) -> Iterator[str]:
    if on_path := shutil.which(f"python3.{minor}"):
        yield on_path
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    yield from map(str, sorted(pyenv.glob(f"3.{minor}.*/bin/python"), reverse=True))
    managed = Path.home() / ".local" / "share" / "uv" / "python"
    yield from map(str, sorted(managed.glob(f"cpython-3.{minor}.*/bin/python3"), reverse=True))
