"""Which project a folder belongs to: by its git remote, else by its name. A file `.memory-mcp` says otherwise."""

import re
import tomllib
from itertools import islice
from pathlib import Path

from memory_mcp.conversations.model import HookProject
from memory_mcp.engines.files import data_directory

FILE = ".memory-mcp"
MAX_NAME_CHARS = 64
MAX_FILE_BYTES = 64 * 1024
MAX_LEVELS = 64  # of folders above

_REMOTE = re.compile(r'^\[remote "([^"]+)"\]|^\s*url\s*=\s*(\S+)', re.MULTILINE)


def project_of(folder: Path) -> HookProject:
    """The project of a folder, and whether hooks are switched off there."""
    above = [folder, *islice(folder.parents, MAX_LEVELS - 1)]
    root = next((one for one in above if (one / ".git").exists()), None)
    inside = above[: above.index(root) + 1] if root else above
    name = _remote_name(root / ".git") if root else None
    wanted = next((one / FILE for one in inside if (one / FILE).is_file() and not data_directory.is_at(one)), None)
    return _with_file(HookProject(_clean(name or (root or folder).name)), wanted)


def _with_file(project: HookProject, file: Path | None) -> HookProject:
    """A file that cannot be read as intended switches everything off: its owner meant to restrict something."""
    if file is None:
        return project
    try:
        wanted = tomllib.loads(_read(file))
    except (tomllib.TOMLDecodeError, RecursionError, OSError):
        return HookProject(project.name, f"{file.name} is not TOML with hooks, capture or project")
    name = wanted.get("project")
    is_off = wanted.get("hooks", True) is not True
    return HookProject(
        _clean(name) if isinstance(name, str) and name.strip() else project.name,
        f"{file.name} switches them off" if is_off else None,
        captures=wanted.get("capture", True) is True,
    )


def _remote_name(git: Path) -> str | None:
    """The last part of the address of `origin`, else of the first remote."""
    try:
        config = _read(_git_folder(git) / "config")
    except OSError:
        return None
    addresses: dict[str, str] = {}
    remote = ""
    for found in _REMOTE.finditer(config):
        remote = found[1] or remote
        if found[2] and remote:
            addresses.setdefault(remote, found[2])
    address = addresses.get("origin") or next(iter(addresses.values()), "")
    return re.split(r"[/:\\]", address.rstrip("/").removesuffix(".git"))[-1] or None


def _git_folder(git: Path) -> Path:
    """The folder with `config`: of a worktree or submodule, `.git` is a file that names it."""
    if git.is_dir():
        return git
    named = Path(git.parent, _read(git).removeprefix("gitdir:").strip())
    common = named / "commondir"
    return Path(named, _read(common).strip()) if common.is_file() else named


def _read(file: Path) -> str:
    """Raises OSError also for what is not a file: opening a pipe would wait for its other end."""
    if not file.is_file():
        raise FileNotFoundError(file)
    with file.open("rb") as opened:
        return opened.read(MAX_FILE_BYTES).decode(errors="replace")


def _clean(name: str) -> str:
    """As a part of a namespace."""
    return re.sub(r"[^\w.@+-]+", "-", name).strip("-.").lower()[:MAX_NAME_CHARS] or "unnamed"
