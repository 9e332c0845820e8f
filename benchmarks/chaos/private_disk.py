"""A server whose data directory is a disk of its own: a small one in memory, or one that becomes read-only.

Linux only: the process mounts it in a namespace of its own, which needs no rights beyond those of the user.
"""

import os
import subprocess
import sys
from pathlib import Path

MOUNTED = "MEMORY_MCP_CHAOS_MOUNTED"  # set in the environment of the process inside the namespace


def module(size_mb: int | None, data_dir: Path) -> tuple[str, ...]:
    """What to start in place of `memory_mcp`: with a disk of this size, or with the folder itself."""
    return (__name__, str(size_mb or 0), str(data_dir))


def protect(pid: int, data_dir: Path) -> None:
    """No new file can be created or opened for writing any more, by the server of this process id."""
    aside = data_dir.with_name(f"{data_dir.name}-read-only")
    aside.mkdir(exist_ok=True)
    _mount_for(pid, "mount", "--bind", data_dir, aside)
    _mount_for(pid, "mount", "-o", "remount,bind,ro", aside)  # there, because no file may be open for writing
    _mount_for(pid, "mount", "--bind", aside, data_dir)


def unprotect(pid: int, data_dir: Path) -> None:
    _mount_for(pid, "umount", "--lazy", data_dir)


def _mount_for(pid: int, *command: str | Path) -> None:
    inside = ("nsenter", "--target", str(pid), "--user", "--mount", "--preserve-credentials")
    subprocess.run([*inside, *command], check=True)


def main() -> None:
    size_mb, data_dir, *arguments = sys.argv[1:]
    if MOUNTED not in os.environ:
        os.environ[MOUNTED] = "1"
        Path(data_dir).mkdir(parents=True, exist_ok=True)
        inside = ["unshare", "--mount", "--map-root-user", sys.executable, "-m", "benchmarks.chaos.private_disk"]
        os.execvp(inside[0], [*inside, *sys.argv[1:]])  # noqa: S606  # no shell is needed
    if size_mb != "0":
        options = f"size={size_mb}m,mode=700"
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", data_dir], check=True)
    from memory_mcp.__main__ import main as memory_mcp

    sys.argv = ["memory-mcp", *arguments]
    memory_mcp(arguments)


if __name__ == "__main__":
    main()
