"""Files from the web, for who has switched that on: never from this machine or its network."""

from __future__ import annotations

import ipaddress
import socket
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit, urlunsplit

from memory_mcp.engine.client import check_wanted
from memory_mcp.errors import Invalid, Unavailable

if TYPE_CHECKING:
    import httpx2

SECONDS = 30.0  # without a byte
LONGEST = 600.0  # seconds for all of a file
MOST_REDIRECTS = 5
_TRANSLATED = ipaddress.ip_network("64:ff9b::/96")  # IPv4 addresses as NAT64 writes them


def is_url(source: str) -> bool:
    return source.partition(":")[0].strip().lower() in ("http", "https", "ftp", "s3", "file")


def fetch(url: str, target: Path, most: int, cancelled: threading.Event | None = None) -> None:
    """Raises Invalid for an address that is not out in the web, and for a file that is too large."""
    import httpx2

    deadline = time.monotonic() + LONGEST
    try:
        with httpx2.Client(timeout=SECONDS, trust_env=False) as client:
            for _ in range(MOST_REDIRECTS + 1):
                url, headers, extensions = _pinned(url)
                with client.stream("GET", url, headers=headers, extensions=extensions) as answer:
                    if answer.has_redirect_location:
                        url = urljoin(_named(url, headers["Host"]), answer.headers["Location"])
                        continue
                    answer.raise_for_status()
                    _save(answer, target, most, deadline, cancelled)
                    return
    except httpx2.HTTPError as exc:
        raise Unavailable("source: the address does not give the file. Check it, or try again later.") from exc
    raise Invalid("source: the address leads on and on. Give the last one.", field="source")


def _pinned(url: str) -> tuple[str, dict[str, str], dict[str, str]]:
    """The same address by number: what was looked at is what is connected to."""
    try:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme.lower() == "https" else 80)
    except ValueError as exc:
        raise Invalid("source: this is no address.", field="source") from exc
    if parts.scheme.lower() not in ("http", "https") or not parts.hostname:
        raise Invalid("source: only http and https addresses are possible.", field="source")
    number = _public_address(parts.hostname, port)
    host = f"[{number}]" if ":" in number else number
    pinned = urlunsplit((parts.scheme, f"{host}:{port}", parts.path or "/", parts.query, ""))
    return pinned, {"Host": parts.netloc.rsplit("@", 1)[-1]}, {"sni_hostname": parts.hostname}


def _named(url: str, host: str) -> str:
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, host, parts.path, parts.query, ""))


def _public_address(host: str, port: int) -> str:
    """Raises Invalid unless every address of a host is out in the web."""
    try:
        found = [str(entry[4][0]) for entry in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    except (OSError, UnicodeError) as exc:
        raise Invalid(f"source: nobody knows the host {host!r}.", field="source") from exc
    if not found or not all(_is_public(address) for address in found):
        raise Invalid(
            "source: this address is not out in the web. Put the file into the imports folder.", field="source"
        )
    return found[0]


def _is_public(address: str) -> bool:
    number = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(number, ipaddress.IPv6Address):
        inner = number.ipv4_mapped or number.sixtofour or (number.teredo[1] if number.teredo else None)
        if number in _TRANSLATED:
            inner = ipaddress.IPv4Address(number.packed[-4:])
        if inner is not None and not inner.is_global:
            return False
    return number.is_global and not number.is_multicast


def _save(answer: httpx2.Response, target: Path, most: int, deadline: float, cancelled: threading.Event | None) -> None:
    size = 0
    with target.open("wb") as file:
        for chunk in answer.iter_bytes():
            size += len(chunk)
            if size > most:
                raise Invalid(f"source: the file is over {most} bytes. Split it.", word="too_large", field="source")
            if time.monotonic() > deadline:
                raise Unavailable("source: the file comes too slowly. Fetch it otherwise, into the imports folder.")
            check_wanted(cancelled)
            file.write(chunk)
