"""What a page of another site, or a person with another's cookie, tries against the web app."""

from collections.abc import Callable, Iterator

import httpx
import pytest

from tests.wire import Http, http_server

COOKIE = "memory_mcp"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Http]:
    with http_server(tmp_path_factory.mktemp("browsers"), "--embedder", "none") as running:
        yield running


@pytest.fixture(scope="module")
def cookie(server: Http) -> tuple[str, str]:
    """Of a person who signed in after another had set a cookie of their choice."""
    with httpx.Client(base_url=server.url) as browser:
        answer = browser.get(
            server.link, headers={"Cookie": "session=fixed; memory_mcp=fixed; memory_mcp_session=fixed"}
        )
        assert answer.status_code == 303
        ((name, value),) = answer.cookies.items()
    return name, value


def test_a_cookie_chosen_by_another_is_never_signed_in(server: Http, cookie: tuple[str, str]) -> None:
    name, value = cookie
    assert value != "fixed"
    assert httpx.get(f"{server.url}/api/me", headers={"Cookie": f"{name}=fixed"}).status_code == 401
    assert httpx.get(f"{server.url}/api/me", headers={"Cookie": f"{name}={value}"}).status_code == 200


def test_a_form_of_another_site_writes_nothing_by_any_route(
    server: Http, cookie: tuple[str, str], record_property: Callable[[str, object], None]
) -> None:
    name, value = cookie
    document = httpx.get(f"{server.url}/api/openapi.json", headers={"Cookie": f"{name}={value}"}).json()
    attempts = 0
    for path, methods in document["paths"].items():
        for method in set(methods) & {"post", "put", "patch", "delete"}:
            for headers in ({"Origin": "http://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}):
                given = {"Cookie": f"{name}={value}", "Content-Type": "text/plain", **headers}
                url = server.url + path.replace("{", "").replace("}", "")
                answer = httpx.request(method, url, headers=given, content=b"{}")
                assert answer.status_code == 403, (method, path, headers, answer.status_code)
                attempts += 1
    assert attempts > 30
    record_property("attempts", attempts)


HEADERS = (
    ("Cookie", "=" * 5000),
    ("Cookie", ";" * 2000),
    ("Cookie", f"{COOKIE}=" + "a" * 7000),
    ("Cookie", f'{COOKIE}="\\"; {COOKIE}=x; {COOKIE}=y'),
    ("Cookie", "$Version=1; a=b"),
    ("Authorization", "Bearer " + "a" * 7000),
    ("Authorization", "bearer\tx"),
    ("Authorization", "Basic Og=="),
    ("X-Forwarded-For", "127.0.0.1, ' OR 1=1"),
    ("X-Forwarded-Host", "evil.example"),
    ("X-HTTP-Method-Override", "DELETE"),
    ("Content-Type", "multipart/form-data; boundary=" + "x" * 3000),
    ("Range", "bytes=0-," + ",".join(f"{n}-{n}" for n in range(500))),
    ("If-None-Match", '"' + "x" * 5000),
    ("Accept-Encoding", "gzip;q=" + "9" * 1000),
    ("Accept-Language", "a," * 2000),
)


@pytest.mark.parametrize(("name", "value"), HEADERS)
def test_no_header_breaks_an_answer_or_signs_in(server: Http, name: str, value: str) -> None:
    for route in ("/", "/api/me", "/mcp", "/healthz", "/sign-in"):
        answer = httpx.get(server.url + route, headers={name: value})
        assert answer.status_code < 500, (route, answer.text)
        assert not (route == "/api/me" and answer.is_success)
