"""Executes deploy/Dockerfile without a container engine.

Each stage is an overlay over this machine's root, in a mount namespace of its own, with a Python of this machine in
/usr/local, where the base image has its own. What a step writes is gone when the namespace is.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tools.distribution import ROOT
from tools.install_ways import is_for_registries, pythons

DOCKERFILE = ROOT / "deploy" / "Dockerfile"
STEP_TIMEOUT_S = 600.0
BASE_FILES = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\n",
    "etc/group": "root:x:0:\n",
    "etc/shadow": "root:*:1::::::\n",
    "etc/gshadow": "root:*::\n",
}
BASE_ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LD_LIBRARY_PATH": "/usr/local/lib"}


class NoNamespaces(Exception):
    """This machine does not allow what executing the steps needs."""


def instructions(text: str | None = None) -> list[tuple[str, str]]:
    """The instructions of the Dockerfile, in order, with lines joined."""
    read = DOCKERFILE.read_text(encoding="utf-8") if text is None else text
    joined = re.sub(r"^#.*\n", "", read, flags=re.MULTILINE).replace("\\\n", " ")
    return [(word, rest) for word, rest in re.findall(r"^([A-Z]+) +(.+)$", joined, re.MULTILINE)]


@dataclass(frozen=True)
class Stage:
    root: Path
    layers: tuple[Path, ...]  # the uppermost first
    environment: dict[str, str] = field(default_factory=lambda: dict(BASE_ENVIRONMENT))
    arguments: dict[str, str] = field(default_factory=dict)
    user: str = "root"
    folder: str = "/"
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    health: tuple[str, ...] = ()


@dataclass
class Engine:
    """Builds stages in a namespace, and runs commands in them."""

    scratch: Path
    namespace: list[str]  # the command that enters it
    python: Path  # the prefix that becomes /usr/local
    stages: dict[str, Stage] = field(default_factory=dict)

    def build(self, **arguments: str) -> None:
        """Execute every instruction. `arguments` replace those of ARG."""
        name = ""
        for word, rest in instructions():
            if word == "FROM":
                source, _, name = rest.partition(" AS ")
                self.stages[name] = self.start(name, self.stages.get(source))
            else:
                self.stages[name] = self._execute(self.stages[name], word, rest, arguments)

    def command(self, stage: Stage, *command: str) -> list[str]:
        """The command that runs another one in a stage, as its user."""
        user = ["--userspec=1000:1000"] if stage.user != "root" else []
        variables = [f"{name}={value}" for name, value in (stage.environment | stage.arguments).items()]
        inside = ["env", "-i", *_registry_variables(), *variables, "sh", "-c", f'cd {stage.folder} && exec "$@"', "sh"]
        return [*self.namespace, "chroot", *user, str(stage.root), *inside, *command]

    def run(self, stage: Stage, *command: str) -> str:
        return _must(self.command(stage, *command))

    def start(self, name: str, base: Stage | None = None) -> Stage:
        """A stage over the machine's root, or over another stage."""
        upper, work, root = (self.scratch / f"{name}-{part}" for part in ("upper", "work", "root"))
        layers = base.layers if base else ()
        for path in (upper, work, root, upper / "usr", upper / "usr" / "local"):
            self._must("mkdir", str(path))
        if not base:
            self._must("mkdir", str(upper / "etc"))
            for file, content in BASE_FILES.items():
                self._must("sh", "-c", f"printf '%s' {shlex.quote(content)} > {upper / file}")
        lower = ":".join(map(str, (*layers, "/")))
        self._mount("overlay", root, f"lowerdir={lower},upperdir={upper},workdir={work}")
        self._mount_python(name, root)
        self._mount("tmpfs", root / "tmp")
        for shared in ("proc", "dev"):
            self._must("mount", "--rbind", f"/{shared}", str(root / shared))
        if base:
            return replace(base, root=root, layers=(upper, *layers))
        return Stage(root, (upper,))

    def show_folder(self, stage: Stage, folder: Path) -> None:
        """Show a folder of this machine in a stage at its own path, also below /tmp, which is empty there."""
        inside = stage.root / folder.relative_to("/")
        self._must("mkdir", "-p", str(inside))
        self._must("mount", "--bind", str(folder), str(inside))

    def _mount_python(self, name: str, root: Path) -> None:
        upper, work = self.scratch / f"{name}-python-upper", self.scratch / f"{name}-python-work"
        self._must("mkdir", str(upper), str(work))
        self._mount("overlay", root / "usr" / "local", f"lowerdir={self.python},upperdir={upper},workdir={work}")

    def _execute(self, stage: Stage, word: str, rest: str, arguments: dict[str, str]) -> Stage:
        match word:
            case "RUN":
                self.run(stage, "sh", "-e", "-c", rest)
            case "COPY":
                self._copy(stage, rest)
            case "ARG":
                name, _, default = rest.partition("=")
                return replace(stage, arguments={**stage.arguments, name: arguments.get(name, default)})
            case "ENV":
                given = dict(pair.split("=", 1) for pair in shlex.split(rest))
                return replace(stage, environment={**stage.environment, **given})
            case "USER":
                return replace(stage, user=rest)
            case "WORKDIR":
                return replace(stage, folder=rest)
            case "ENTRYPOINT":
                return replace(stage, entrypoint=tuple(json.loads(rest)), command=())
            case "CMD":
                return replace(stage, command=tuple(json.loads(rest)))
            case "HEALTHCHECK":
                return replace(stage, health=tuple(json.loads(rest.partition("CMD ")[2])))
            case "EXPOSE" | "VOLUME":
                pass
            case _:
                raise ValueError(f"No step is known for {word}.")
        return stage

    def _copy(self, stage: Stage, rest: str) -> None:
        *sources, target = rest.split()
        origin = ROOT
        if sources[0].startswith("--from="):
            origin = self.stages[sources.pop(0).removeprefix("--from=")].root
        inside = stage.root / target.lstrip("/")
        for source in sources:
            found = origin / source.lstrip("/")
            is_folder = subprocess.run([*self.namespace, "test", "-d", str(found)], check=False).returncode == 0
            self._must("mkdir", "-p", str(inside if is_folder or target.endswith("/") else inside.parent))
            self._must("cp", "-a", "--no-preserve=ownership", f"{found}/." if is_folder else str(found), str(inside))

    def _mount(self, kind: str, at: Path, options: str = "") -> None:
        self._must("mount", "-t", kind, *(["-o", options] if options else []), kind, str(at))

    def _must(self, *command: str) -> str:
        return _must([*self.namespace, *command])


def _registry_variables() -> list[str]:
    return [f"{name}={value}" for name, value in os.environ.items() if is_for_registries(name)]


def _must(command: Sequence[str]) -> str:
    options: dict[str, Any] = {"capture_output": True, "text": True, "timeout": STEP_TIMEOUT_S, "check": False}
    done = subprocess.run(command, stdin=subprocess.DEVNULL, **options)
    assert done.returncode == 0, f"{shlex.join(command[-4:])}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
    return str(done.stdout)


@contextmanager
def engine(scratch: Path) -> Iterator[Engine]:
    """An engine whose files are in memory. Raises NoNamespaces, saying what is missing."""
    version = re.search(r"^FROM python:([\d.]+)", DOCKERFILE.read_text(encoding="utf-8"), re.MULTILINE)
    assert version is not None
    if not (python := pythons([int(version[1].partition(".")[2])]).get(version[1])):
        raise NoNamespaces(f"There is no Python {version[1]} here.")
    prefix = Path(_must([python, "-I", "-c", "import sys; print(sys.base_prefix)"]).strip())
    own, enter = _namespace_commands()
    holder = subprocess.Popen([*own, "sh", "-c", "echo ready; read line"], stdin=-1, stdout=-1, text=True)
    try:
        if holder.stdout is None or holder.stdout.readline() != "ready\n":
            raise NoNamespaces("This machine does not allow a mount namespace.")
        built = Engine(scratch, [*enter, f"--target={holder.pid}"], prefix)
        _must([*built.namespace, "mount", "-t", "tmpfs", "tmpfs", str(scratch)])
        yield built
    finally:
        holder.communicate("\n")


def _namespace_commands() -> tuple[list[str], list[str]]:
    """To create a namespace, and to enter it. Without root, the image's users are mapped to those of /etc/subuid."""
    if not (shutil.which("unshare") and shutil.which("nsenter") and shutil.which("chroot")):
        raise NoNamespaces("There is no unshare here.")
    own, enter = ["unshare", "--mount", "--propagation=private"], ["nsenter", "--mount"]
    if os.geteuid():
        own += ["--user", "--map-root-user", "--map-auto"]
        enter += ["--user", "--preserve-credentials"]
    return own, enter
