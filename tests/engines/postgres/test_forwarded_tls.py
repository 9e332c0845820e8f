"""TLS between servers of portals: the file deploy/nginx-internal.conf in a real nginx, with certificates of a private
authority."""

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tests.deploy.test_nginx import MAIN, _free_ports, nginx
from tests.engines.postgres.test_forwarded_portals import CREW, PORTAL, Servers, error, names, portals_in, write
from tests.events import TIMEOUT_S, eventually
from tests.processes import COMMAND, environment
from tests.wire import Http

EXAMPLE = Path(__file__).parents[3] / "deploy" / "nginx-internal.conf"
HOST = "127.0.0.1"
DAY, NOW = timedelta(days=1), timedelta()
AUTHORITY = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "tests")])


@dataclass
class Authority:
    """Signs certificates for a day."""

    key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))

    def certificate(self) -> bytes:
        """Its own."""
        is_authority = x509.BasicConstraints(ca=True, path_length=None)
        signed = self._builder(AUTHORITY, self.key).add_extension(is_authority, critical=True)
        return signed.sign(self.key, hashes.SHA256()).public_bytes(Encoding.PEM)

    def sign(self, folder: Path, host: str = HOST, age: timedelta = NOW) -> None:
        """A certificate for an address, with its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = x509.SubjectAlternativeName([x509.IPAddress(ip_address(host))])
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "server")])
        signed = self._builder(subject, key, age).add_extension(names, critical=False)
        pem = signed.sign(self.key, hashes.SHA256()).public_bytes(Encoding.PEM)
        (folder / "server.pem").write_bytes(pem)
        (folder / "server-key.pem").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, age: timedelta = NOW
    ) -> x509.CertificateBuilder:
        begin = datetime.now(UTC) - timedelta(hours=1) - age
        builder = x509.CertificateBuilder().subject_name(subject).issuer_name(AUTHORITY).public_key(key.public_key())
        builder = builder.serial_number(x509.random_serial_number())
        return builder.not_valid_before(begin).not_valid_after(begin + DAY)


@dataclass
class Proxy:
    """nginx before server A, with the certificate that is in its folder when it starts."""

    folder: Path
    port: int
    server_port: int
    authority: Authority

    @property
    def url(self) -> str:
        return f"https://{HOST}:{self.port}"

    @contextmanager
    def running(self) -> Iterator[None]:
        process = subprocess.Popen([nginx(), "-p", str(self.folder), "-c", str(self.folder / "nginx.conf")])
        try:
            eventually(lambda: _accepts_connections(self.port))
            yield
        finally:
            process.terminate()
            process.wait(timeout=TIMEOUT_S)

    def configure(self) -> None:
        """The example, with nothing but addresses and paths replaced."""
        example = EXAMPLE.read_text(encoding="utf-8")
        for old, new in {
            "listen 8766 ssl;": f"listen {HOST}:{self.port} ssl;",
            "http://127.0.0.1:8765;": f"http://127.0.0.1:{self.server_port};",
            "/etc/memory-mcp/": f"{self.folder}/",
        }.items():
            assert old in example
            example = example.replace(old, new)
        (self.folder / "memory-mcp.conf").write_text(example, encoding="utf-8")
        user = "user root root;" if os.getuid() == 0 else ""
        (self.folder / "nginx.conf").write_text(MAIN.format(folder=self.folder, user=user), encoding="utf-8")


def _accepts_connections(port: int) -> bool:
    with socket.socket() as connection:
        return connection.connect_ex((HOST, port)) == 0


@pytest.fixture
def servers(tmp_path: Path, postgres_url: str) -> Iterator[Servers]:
    made = Servers(tmp_path, postgres_url, dict(zip("ab", _free_ports(2), strict=True)), {})
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def proxy(tmp_path: Path, servers: Servers) -> Proxy:
    folder = tmp_path / "nginx"
    folder.mkdir()
    proxy = Proxy(folder, _free_ports(1)[0], servers.ports["a"], Authority())
    (folder / "authority.pem").write_bytes(proxy.authority.certificate())
    proxy.configure()
    return proxy


@pytest.fixture
def a(servers: Servers, proxy: Proxy) -> Http:
    return servers.start("a", "--server-url", proxy.url, "--forwarded-allow-ips", HOST)


@pytest.fixture
def b(servers: Servers, proxy: Proxy, a: Http) -> Http:
    return servers.start("b", env=environment(SSL_CERT_FILE=str(proxy.folder / "authority.pem")))


def test_calls_are_forwarded_over_tls_with_a_private_authority(
    servers: Servers, proxy: Proxy, a: Http, b: Http
) -> None:
    proxy.authority.sign(proxy.folder)
    write(a, *CREW)
    with proxy.running():
        assert write(b, {"name": "Cem"})["written"] == 1
        assert names(b) == ["Ada", "Bob", "Cem"]
    assert portals_in(servers, "b") == set()


def test_a_certificate_that_is_not_valid_refuses_calls_until_it_is_replaced(proxy: Proxy, a: Http, b: Http) -> None:
    write(a, *CREW)
    for authority, host, age, reason in (
        (proxy.authority, HOST, 3 * DAY, "it has expired."),
        (proxy.authority, HOST, -3 * DAY, "it is not valid yet."),
        (proxy.authority, "10.9.8.7", NOW, "it is for another name."),
        (Authority(), HOST, NOW, "its issuer is not trusted."),
    ):
        authority.sign(proxy.folder, host, age)
        with proxy.running():
            calls = [
                error(b, "portal_write", portalUri=PORTAL, table="crew", data=[{"name": "Gus"}]),
                error(b, "portal_query", portalUri=PORTAL, sql="SELECT 1"),
            ]
            assert [call["error"] for call in calls] == ["unavailable"] * 2
            assert all(f"was refused: {reason} Nothing was changed" in call["message"] for call in calls), calls
            assert [call["data"] for call in calls] == [{}, {}]
            assert "certificate" in b.modern_call("recall_memories", query="zeppelin")["incomplete"][0]["error"]
    assert names(a) == ["Ada", "Bob"]
    proxy.authority.sign(proxy.folder)
    with proxy.running():
        assert names(b) == ["Ada", "Bob"]


def test_a_wrong_scheme_or_proxy_is_named(servers: Servers, proxy: Proxy, a: Http, b: Http) -> None:
    proxy.authority.sign(proxy.folder)
    write(a, *CREW)
    servers.kill("a")
    servers.start("a", "--server-url", proxy.url.replace("https", "http"))
    with proxy.running():
        assert "something else answers (HTTP 400). Nothing was changed." in query_error(b)
    servers.kill("a")
    a = servers.start("a", "--server-url", a.url.replace("http", "https"))
    assert "does not answer" in query_error(b)
    assert names(a) == ["Ada", "Bob"]


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        ("200 '<html>Welcome</html>'", 200),
        ("200 '[1]'", 200),
        ('422 \'{"detail": "no"}\'', 422),
        ("301 https://example.com", 301),
    ],
)
def test_something_else_that_answers_is_named(
    servers: Servers, proxy: Proxy, a: Http, b: Http, answer: str, status: int
) -> None:
    proxy.authority.sign(proxy.folder)
    write(a, *CREW)
    file = proxy.folder / "memory-mcp.conf"
    passed_on = f"proxy_pass http://127.0.0.1:{proxy.server_port};"
    text = file.read_text(encoding="utf-8")
    assert passed_on in text
    file.write_text(text.replace(passed_on, f"return {answer};"), encoding="utf-8")
    with proxy.running():
        assert f"something else answers (HTTP {status}). Nothing was changed." in query_error(b)


def query_error(server: Http) -> str:
    return str(error(server, "portal_query", portalUri=PORTAL, sql="SELECT 1")["message"])


def test_authorities_that_cannot_be_read_are_named_at_the_start(tmp_path: Path, postgres_url: str) -> None:
    flags = ["--database-url", postgres_url, "--families", "portals", "--server-url", "https://127.0.0.1:1"]
    env = environment(SSL_CERT_FILE=str(tmp_path / "missing.pem"))
    command = [*COMMAND, "serve", "--transport", "http", "--port", "0", "--data-dir", str(tmp_path), *flags]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 1
    assert "SSL_CERT_FILE" in done.stderr
    assert "Traceback" not in done.stderr
