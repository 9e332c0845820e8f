"""deploy/Dockerfile: its text; and, in `make install-check`, its steps are executed and both images serve."""

import json
import re
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tools.distribution import ROOT

from memory_mcp import __version__, settings
from tests.deploy.image import Engine, NoNamespaces, Stage, engine, instructions
from tests.deploy.test_unit import served
from tests.events import eventually
from tests.exhaustive import IS_SOAK
from tests.wire import HELLO, Stdio


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """Without portals, which are 0.9 GB."""
    if not IS_SOAK:
        pytest.skip("`make install-check` executes the steps, which takes half a minute.")
    try:
        with engine(tmp_path_factory.mktemp("image")) as found:
            found.build(REQUIREMENTS="requirements.txt")
            yield found
    except NoNamespaces as exc:
        pytest.skip(str(exc))


def start(built: Engine, stage: Stage, *command: str) -> "subprocess.Popen[str]":
    whole = built.command(stage, *stage.entrypoint, *(command or stage.command))
    return subprocess.Popen(whole, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8")


def test_the_user_has_the_id_of_the_specification_and_owns_the_data(built: Engine) -> None:
    for stage in (built.stages["stdio"], built.stages["http"]):
        assert built.run(stage, "id", "-u") == "1000\n"
        assert built.run(stage, "stat", "-c", "%u %g %a", "/data") == "1000 1000 700\n"
        assert built.run(stage, "sh", "-c", "touch /opt/memory-mcp/x 2>/dev/null || echo refused") == "refused\n"


def test_the_wheel_is_installed_and_no_tool_that_built_it(built: Engine) -> None:
    stage = built.stages["http"]
    assert built.run(stage, "memory-mcp", "--version") == f"memory-mcp {__version__}\n"
    shown = built.run(stage, "python", "-m", "pip", "list", "--format=json", "--disable-pip-version-check")
    names = {package["name"] for package in json.loads(shown)}
    assert "five-memories" in names
    assert "hatchling" not in names
    assert built.run(stage, "sh", "-c", "ls -d /build /wheel 2>/dev/null || echo none") == "none\n"


def test_a_client_can_start_the_stdio_image(built: Engine) -> None:
    server = Stdio(start(built, built.stages["stdio"]))
    try:
        assert server.ask("initialize", HELLO)["result"]["serverInfo"]["version"] == __version__
        server.send({"method": "notifications/initialized"})
        created = server.call("memory_create", content="The hub is in Ghent")
        assert created["id"] in json.dumps(server.call("memory_search", query="Ghent"))
        assert server.close() == 0
    finally:
        server.kill()
    assert "notes.db" in built.run(built.stages["stdio"], "ls", "/data")


def test_the_http_image_starts_once_there_is_a_key_and_is_healthy(built: Engine) -> None:
    stage = built.stages["http"]
    refused = start(built, stage)
    refused.communicate(timeout=60)
    assert refused.returncode == 1
    assert built.run(stage, *stage.entrypoint, "keys", "create", "--name", "laptop")
    port = free_port()  # other servers of this machine may have 8765
    check = built.command(stage, *(part.replace("8765", str(port)) for part in stage.health))
    with start(built, stage, *stage.command, "--port", str(port)) as server:
        try:
            eventually(lambda: server.poll() is None and subprocess.run(check, capture_output=True).returncode == 0)
        finally:
            server.terminate()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as bound:
        return int(bound.getsockname()[1])


def test_it_copies_existing_files_that_its_context_has() -> None:
    listed = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    context = {line.removeprefix("!") for line in listed if line.startswith("!")}
    copied = {
        source
        for word, rest in instructions()
        if word == "COPY" and not rest.startswith("--from")
        for source in rest.split()[:-1]
    }
    assert copied == context
    assert all((ROOT / source).exists() for source in copied)


def test_it_installs_dependencies_by_hash() -> None:
    [chosen] = [rest.partition("=")[2] for word, rest in instructions() if word == "ARG"]
    assert re.search(r"^chdb==", (ROOT / chosen).read_text(encoding="utf-8"), re.MULTILINE)
    installs = [rest for word, rest in instructions() if word == "RUN" and "pip install" in rest]
    assert all("--require-hashes" in rest or "--no-index" in rest for rest in installs)
    all_pins, product, build = (_pins(ROOT / name) for name in (chosen, "requirements.txt", "requirements-build.txt"))
    assert product.items() <= all_pins.items()
    assert all_pins.items() | build.items() <= _pins(ROOT / "requirements-dev.txt").items()


def _pins(path: Path) -> dict[str, str]:
    return dict(re.findall(r"^([\w.-]+)==(\S+)", path.read_text(encoding="utf-8"), re.MULTILINE))


def test_it_serves_to_other_machines_as_an_unprivileged_user() -> None:
    last = dict(instructions())  # of each instruction the last one counts
    chosen = served(json.loads(last["CMD"]))
    assert (chosen.transport, chosen.host) == ("http", "0.0.0.0")
    assert last["USER"] not in ("root", "0")
    assert last["EXPOSE"] == str(chosen.port)
    assert f"127.0.0.1:{chosen.port}/healthz" in last["HEALTHCHECK"]
    names = dict(pair.split("=", 1) for word, rest in instructions() if word == "ENV" for pair in rest.split())
    assert names["MEMORY_MCP_DATA_DIR"] == last["VOLUME"]
    known = {name for field in settings.Settings.model_fields for name in settings.env_names(field)}
    assert {name for name in names if name.startswith(settings.ENV_PREFIX)} <= known
