"""The commands of docs/deploy.md for systemd, as written, in an overlay of this machine: `make install-check`."""

import re
import shlex
import subprocess
from pathlib import Path

import httpx
import pytest

from tests.deploy.image import NoNamespaces, engine
from tests.deploy.test_image import free_port
from tests.deploy.test_unit import ROOT, UNIT, options
from tests.events import eventually
from tests.exhaustive import IS_SOAK

PAGE = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
COMMANDS = PAGE.partition("## systemd\n\n```sh\n")[2].partition("```")[0]
NEEDS_SYSTEMD = re.compile(r"^systemctl .*\n", re.MULTILINE)


def test_a_service_is_set_up_and_its_user_signs_in(tmp_path: Path) -> None:
    """Instead of systemd, this test starts the command of the unit as the unit's user."""
    if not IS_SOAK:
        pytest.skip("`make install-check` runs the commands, which install 1.1 GB.")
    [start] = options(UNIT.read_text(encoding="utf-8"))["ExecStart"]
    port = free_port()
    try:
        with engine(tmp_path) as machine:
            stage = machine.start("service")
            machine.show_folder(stage, ROOT)
            printed = machine.run(stage, "bash", "-ec", NEEDS_SYSTEMD.sub("", COMMANDS).replace("URL", str(ROOT), 1))
            server = subprocess.Popen(
                machine.command(stage, *shlex.split(f"runuser -u memory-mcp -- {start} --port {port}"))
            )
            try:
                sign_in(printed, port)
            finally:
                server.terminate()
                server.wait()
    except NoNamespaces as exc:
        pytest.skip(str(exc))


def sign_in(printed: str, port: int) -> None:
    """With the link that was printed, through a proxy that ends TLS."""
    assert re.search(r"^mmcp_\S+$", printed, re.MULTILINE)
    [link] = re.findall(r"/sign-in\?token=\S+", printed)
    headers = {"Host": "memory.example.com", "X-Forwarded-Proto": "https"}
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=headers) as proxy:
        eventually(lambda: is_up(proxy))
        assert proxy.get(link).status_code == 303


def is_up(proxy: httpx.Client) -> bool:
    try:
        return proxy.get("/healthz").is_success
    except httpx.TransportError:
        return False
