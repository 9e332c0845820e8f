"""`memory-mcp models`: download and check of the built-in model's files. No test uses the network."""

import hashlib
import http.server
import importlib.util
import json
import os
import shutil
import subprocess
import threading
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from memory_mcp.__main__ import main
from memory_mcp.services.embedding import model_files
from memory_mcp.services.embedding.model_files import CARRIER_FILES, MODEL, MODEL_FILE, TOKENIZER_FILE
from tests.events import eventually
from tests.processes import COMMAND, environment
from tests.services.embedding.fake_service import closed_port
from tests.services.embedding.servers import INSTALLED, NotesFile, install_model, needs_model, server

pytestmark = needs_model

Models = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def no_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_files, "HUB", f"http://127.0.0.1:{closed_port()}")
    monkeypatch.setattr(model_files, "PIP_DOWNLOAD", (*model_files.PIP_DOWNLOAD, "--no-index"))


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Models:
    """`memory-mcp models …` with its own folder. Returns the exit code and the output."""
    for name in [name for name in os.environ if name.startswith("MEMORY_MCP_")]:
        monkeypatch.delenv(name)
    (tmp_path / "data").mkdir()  # a reading verb creates none
    monkeypatch.setenv("MEMORY_MCP_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("MEMORY_MCP_MODELS_DIR", str(tmp_path / "models"))

    def run(*arguments: str | Path) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as left:
            main(["models", *map(str, arguments)])
        printed = capsys.readouterr()
        return int(left.value.code or 0), printed.out, printed.err

    return run


@pytest.fixture
def given(tmp_path: Path) -> Path:
    """A folder with the two files."""
    folder = tmp_path / "given"
    folder.mkdir()
    for name in (MODEL_FILE, TOKENIZER_FILE):
        shutil.copyfile(INSTALLED / name, folder / name)
    return folder


def wheel(path: Path, files: dict[str, bytes | Path], compression: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", compression) as archive:
        for member, found in files.items():
            archive.writestr(member, found if isinstance(found, bytes) else found.read_bytes())
    return path


def carrier(path: Path) -> Path:
    """Like the package that carries the model: a wheel that pip accepts."""
    info = "bot_brain-0.8.0.dist-info"
    about: dict[str, bytes | Path] = {
        f"{info}/METADATA": b"Metadata-Version: 2.1\nName: bot-brain\nVersion: 0.8.0\n",
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": b"",
    }
    return wheel(path, about | {member: INSTALLED / name for name, member in CARRIER_FILES.items()})


def is_installed(folder: Path) -> bool:
    """Whether the files are valid, and there are no others."""
    return model_files.are_valid(folder) and {path.name for path in folder.iterdir()} == {MODEL_FILE, TOKENIZER_FILE}


def test_pull_from_a_folder(tmp_path: Path, given: Path, models: Models) -> None:
    assert models("pull", "--from", given)[0] == 0
    assert is_installed(tmp_path / "models")


def test_pull_from_a_wheel(tmp_path: Path, models: Models) -> None:
    code, out, err = models("pull", "--from", carrier(tmp_path / "some.whl"), "--json")
    assert code == 0
    assert json.loads(out) == {"model": MODEL, "folder": str(tmp_path / "models"), "pulled": True}
    assert err == ""
    assert is_installed(tmp_path / "models")


def test_pull_into_a_folder_skips_installed_files(tmp_path: Path, models: Models) -> None:
    install_model(tmp_path / "elsewhere")
    code, out, _ = models("pull", "--models-dir", tmp_path / "elsewhere", "--json")
    assert (code, json.loads(out)["pulled"]) == (0, False)
    assert not (tmp_path / "models").exists()


@pytest.mark.parametrize("name", [MODEL_FILE, TOKENIZER_FILE])
@pytest.mark.parametrize("as_wheel", [True, False])
def test_a_tampered_file_is_refused_and_nothing_is_replaced(
    tmp_path: Path, given: Path, models: Models, name: str, as_wheel: bool
) -> None:
    with (given / name).open("r+b") as file:
        file.seek(5000)
        file.write(b"tampered")
    source = given
    if as_wheel:
        source = wheel(tmp_path / "some.whl", {member: given / name for name, member in CARRIER_FILES.items()})
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / MODEL_FILE).write_bytes(b"what was there before")

    code, out, err = models("pull", "--from", source)
    assert (code, out) == (1, "")
    assert "SHA-256" in err
    assert "Traceback" not in err
    assert (tmp_path / "models" / MODEL_FILE).read_bytes() == b"what was there before"
    assert [path.name for path in (tmp_path / "models").iterdir()] == [MODEL_FILE]


def test_a_source_without_the_files_is_refused(tmp_path: Path, models: Models) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.whl").write_text("no zip")
    wheel(tmp_path / "other.whl", {"readme.txt": b"another package"})
    for source in ("empty", "text.whl", "other.whl", "missing"):
        code, out, err = models("pull", "--from", tmp_path / source)
        assert (code, out) == (1, "")
        assert "Traceback" not in err
    assert not (tmp_path / "models").exists()


def test_a_damaged_wheel_is_refused(tmp_path: Path, models: Models) -> None:
    text = b"".join(hashlib.sha256(bytes([count])).hexdigest().encode() for count in range(256))
    path = wheel(tmp_path / "cut.whl", dict.fromkeys(CARRIER_FILES.values(), text), zipfile.ZIP_DEFLATED)
    damaged = bytearray(path.read_bytes())
    damaged[100:200] = b"\xff" * 100
    path.write_bytes(damaged)
    code, _, err = models("pull", "--from", path)
    assert code == 1
    assert "--from" in err


def test_a_read_only_folder_is_reported_in_one_line(tmp_path: Path, given: Path, models: Models) -> None:
    (tmp_path / "file").write_text("no folder")
    code, _, err = models("pull", "--from", given, "--models-dir", tmp_path / "file")
    assert code == 1
    assert err.splitlines()[-1].startswith("memory-mcp: ")


@pytest.mark.parametrize("arguments", [["pull", "--bogus"], ["pull", "--from"], ["fetch"], [], ["status", "extra"]])
def test_bad_usage_exits_with_2(models: Models, arguments: list[str]) -> None:
    assert models(*arguments)[0] == 2


def test_an_invalid_setting_exits_with_2(models: Models, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORY_MCP_EMBEDDER", "magic")
    for verb in ("pull", "status", "reindex"):
        code, _, err = models(verb)
        assert code == 2
        assert "magic" in err


def test_status_shows_installed_files(tmp_path: Path, models: Models) -> None:
    code, out, _ = models("status", "--json")
    before = json.loads(out)
    assert (code, before["installed"], before["total"], before["queue_size"]) == (0, False, 0, 0)
    assert before["folder"] == str(tmp_path / "models")

    install_model(tmp_path / "models")
    with server(tmp_path / "data", embedder="builtin", models_dir=tmp_path / "models") as notes:
        notes.create("The vet will treat our dog")
        eventually(NotesFile(tmp_path / "data").is_done)
    with server(tmp_path / "data", embedder="none") as notes:
        notes.create("No model embeds this one")

    after = json.loads(models("status", "--json")[1])
    assert after == before | {
        "installed": True,
        "total": 2,
        "total_with_embedding": 1,
        "queue_size": 1,
        "backend_name": f"builtin/{MODEL}",
        "backend_dim": 384,
        "enabled": True,
    }
    assert "1 of 2 notes have vectors" in models("status")[1]


def test_a_file_with_another_hash_does_not_count_as_installed(tmp_path: Path, models: Models) -> None:
    install_model(tmp_path / "models")
    (tmp_path / "models" / TOKENIZER_FILE).unlink()
    (tmp_path / "models" / TOKENIZER_FILE).write_text("{}")
    assert json.loads(models("status", "--json")[1])["installed"] is False
    assert models("pull", "--from", INSTALLED)[0] == 0
    assert json.loads(models("status", "--json")[1])["installed"] is True


def test_reindex_makes_a_running_server_embed_everything_again(
    tmp_path: Path, models: Models, short_timeouts: None
) -> None:
    file = NotesFile(tmp_path / "data")
    install_model(tmp_path / "models")
    with server(tmp_path / "data", embedder="builtin", models_dir=tmp_path / "models") as notes:
        for text in ("The vet will treat our dog", "The invoice is due on Friday"):
            notes.create(text)
        eventually(file.is_done)
        chosen = file.rows("SELECT chosen_at FROM embedding_space")
        code, out, _ = models("reindex", "--json")
        assert (code, json.loads(out)) == (0, {"waiting": 2})
        eventually(lambda: file.is_done() and file.rows("SELECT chosen_at FROM embedding_space") != chosen)
        assert notes.search("who looks after sick animals", "semantic")[0]["title"] == "The vet will treat our dog"
    (tmp_path / "other").mkdir()
    assert "0 notes" in models("reindex", "--data-dir", tmp_path / "other")[1]


def test_the_command_pulls(tmp_path: Path) -> None:
    done = subprocess.run(
        [*COMMAND, "models", "pull", "--from", str(INSTALLED), "--models-dir", str(tmp_path / "models")],
        capture_output=True,
        text=True,
        env=environment(MEMORY_MCP_DATA_DIR=str(tmp_path / "data")),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert is_installed(tmp_path / "models")
    assert not (tmp_path / "data").exists()


# Without --from


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder served in place of the model hub."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # its name in the base class
            pass

    folder = tmp_path / "hub"
    (folder / "onnx").mkdir(parents=True)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as served:
        threading.Thread(target=served.serve_forever, args=(0.01,), daemon=True).start()
        monkeypatch.setattr(model_files, "HUB", f"http://127.0.0.1:{served.server_address[1]}")
        yield folder
        served.shutdown()


def test_pull_from_the_hub(tmp_path: Path, hub: Path, models: Models) -> None:
    for name, path in model_files.HUB_FILES.items():
        shutil.copyfile(INSTALLED / name, hub / path)
    assert models("pull")[0] == 0
    assert is_installed(tmp_path / "models")


@pytest.mark.parametrize("has_pip", [True, False])  # environments of uv have none
def test_pull_through_pip_when_the_hub_has_another_file(
    tmp_path: Path, hub: Path, models: Models, monkeypatch: pytest.MonkeyPatch, has_pip: bool
) -> None:
    if not has_pip:
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    for path in model_files.HUB_FILES.values():
        (hub / path).write_bytes(b"something else")
    package = carrier(tmp_path / "bot_brain-0.8.0-py3-none-any.whl")
    monkeypatch.setattr(model_files, "PIP_DOWNLOAD", (*model_files.PIP_DOWNLOAD, "--find-links", str(tmp_path)))
    monkeypatch.setattr(model_files, "CARRIER_SHA256", hashlib.sha256(package.read_bytes()).hexdigest())
    code, _, err = models("pull")
    assert code == 0, err
    assert is_installed(tmp_path / "models")


def test_if_all_sources_fail_each_error_is_shown(tmp_path: Path, models: Models) -> None:
    code, out, err = models("pull")
    assert (code, out) == (1, "")
    for expected in ("the model hub", "the package index", "models pull --from"):
        assert expected in err
    assert not (tmp_path / "models").exists()
