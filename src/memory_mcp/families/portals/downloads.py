"""Files from the web, if a setting allows it: never from this machine or its network."""

from __future__ import annotations

import ipaddress
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit, urlunsplit

from memory_mcp.errors import Invalid, Unavailable

if TYPE_CHECKING:
    import httpx2

READ_TIMEOUT_S = 30.0  # without a byte
MAX_FETCH_S = 600.0
MAX_REDIRECTS = 5
_PLAIN = {"Accept-Encoding": "identity"}  # a small answer must not become a large file
# All other addresses are not public: loopback, private, link-local, multicast, IPv4-compatible, SIIT, and those that
# IANA has not assigned yet.
_GLOBAL_UNICAST = ipaddress.ip_network("2000::/3")
_TRANSLATED = ipaddress.ip_network("64:ff9b::/96")  # IPv4 addresses as NAT64 writes them
_NOT_OF_HOSTS = tuple(
    map(
        ipaddress.ip_network,
        # benchmarks, ORCHID twice, documentation twice, as the Pythons we run on do not know all of them
        ("2001:2::/48", "2001:10::/28", "2001:20::/28", "2001:db8::/32", "3fff::/20"),
    )
)
_NOT_OF_HOSTS_V4 = tuple(map(ipaddress.ip_network, ("192.88.99.0/24", "192.0.0.0/24")))  # relays, protocols


def is_url(source: str) -> bool:
    return source.partition(":")[0].strip().lower() in ("http", "https", "ftp", "s3", "file")


def fetch(url: str, target: Path | str, max_bytes: int) -> None:
    """Download a file. Raises Invalid for an address that is not public, and for a file that is too large.

    Runs in a worker process, which is killed if this takes too long."""
    import httpx2

    deadline = time.monotonic() + MAX_FETCH_S
    try:
        with httpx2.Client(timeout=READ_TIMEOUT_S, trust_env=False) as client:
            for _ in range(MAX_REDIRECTS + 1):
                url, headers, extensions = _pinned(url)
                with client.stream("GET", url, headers=headers, extensions=extensions) as answer:
                    if answer.has_redirect_location:
                        url = urljoin(_named(url, headers["Host"]), answer.headers["Location"])
                        continue
                    answer.raise_for_status()
                    _save(answer, Path(target), max_bytes, deadline)
                    return
    except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError) as exc:
        raise Unavailable("source: the address does not give the file. Check it, or try again later.") from exc
    raise Invalid("source: the address redirects too often. Give the last one.", field="source")


def _pinned(url: str) -> tuple[str, dict[str, str], dict[str, str]]:
    """The same URL with the IP address that was checked, so that no other is connected to."""
    try:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme.lower() == "https" else 80)
    except ValueError as exc:
        raise Invalid("source: this is not an address.", field="source") from exc
    if parts.scheme.lower() not in ("http", "https") or not parts.hostname:
        raise Invalid("source: only http and https addresses are possible.", field="source")
    number = _public_address(parts.hostname, port)
    host = f"[{number}]" if ":" in number else number
    pinned = urlunsplit((parts.scheme, f"{host}:{port}", parts.path or "/", parts.query, ""))
    return pinned, {"Host": parts.netloc.rsplit("@", 1)[-1], **_PLAIN}, {"sni_hostname": parts.hostname}


def _named(url: str, host: str) -> str:
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, host, parts.path, parts.query, ""))


def _public_address(host: str, port: int) -> str:
    """Raises Invalid unless every address of a host is public."""
    try:
        found = [str(entry[4][0]) for entry in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    except (OSError, UnicodeError) as exc:
        raise Invalid(f"source: the host {host!r} is not known. Check the address.", field="source") from exc
    if not found or not all(_is_public(address) for address in found):
        raise Invalid("source: this address is not public. Put the file into the imports folder.", field="source")
    return found[0]


def _is_public(address: str) -> bool:
    """Whether an address is public. One that contains an IPv4 address is as public as that one."""
    number = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(number, ipaddress.IPv4Address):
        return _is_public_v4(number)
    if number.ipv4_mapped is not None:
        return _is_public_v4(number.ipv4_mapped)
    if number in _TRANSLATED:
        return _is_public_v4(ipaddress.IPv4Address(number.packed[-4:]))
    if number not in _GLOBAL_UNICAST or any(number in network for network in _NOT_OF_HOSTS):
        return False
    held = (number.sixtofour, *(number.teredo or ()))
    return number.is_global and all(_is_public_v4(inner) for inner in held if inner is not None)


def _is_public_v4(number: ipaddress.IPv4Address) -> bool:
    return number.is_global and not number.is_multicast and not any(number in one for one in _NOT_OF_HOSTS_V4)


def _save(answer: httpx2.Response, target: Path, max_bytes: int, deadline: float) -> None:
    if answer.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise Invalid("source: the address gives a compressed file. Give one that is not.", field="source")
    size = 0
    with target.open("wb") as file:
        for chunk in answer.iter_raw():
            size += len(chunk)
            if size > max_bytes:
                raise Invalid(
                    f"source: the file is over {max_bytes} bytes. Split it.", code="too_large", field="source"
                )
            if time.monotonic() > deadline:
                raise Unavailable("source: the download is too slow. Put the file into the imports folder.")
            file.write(chunk)
