"""The operating-system account at the other end of a TCP connection on this machine. Only Linux shows it."""

import ipaddress
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from memory_mcp.server.request_connection import connection_of

_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_LOCAL, _REMOTE, _UID = 1, 2, 7  # fields of a line


def is_of_other_account(scope: Mapping[str, Any]) -> bool:
    """Whether another account than ours sent a request, from this machine. False if that is not known."""
    connection = connection_of(scope)
    if connection is None:
        return False
    client, server = (connection.transport.get_extra_info(name) for name in ("peername", "sockname"))
    uid = uid_of(client[:2], server[:2]) if client and server else None
    return uid is not None and uid not in (os.getuid(), 0)


def uid_of(client: tuple[str, int], server: tuple[str, int]) -> int | None:
    """The account of the client; None if it is on another machine, or the system does not show it."""
    wanted = set(zip(_shown(*client), _shown(*server), strict=True))
    for table in _TABLES:
        with suppress(OSError):
            for line in table.read_text(encoding="ascii").splitlines()[1:]:
                fields = line.split()
                if (fields[_LOCAL], fields[_REMOTE]) in wanted:
                    return int(fields[_UID])
    return None


def _shown(host: str, port: int) -> Iterator[str]:
    """An address as the tables write it: as IPv4, if it is one, and as IPv6."""
    address = ipaddress.ip_address(host.partition("%")[0])
    plain = getattr(address, "ipv4_mapped", None) or address
    mapped = ipaddress.IPv6Address(f"::ffff:{plain}") if plain.version == 4 else plain
    for one in (plain, mapped):
        words = (one.packed[at : at + 4] for at in range(0, len(one.packed), 4))
        number = "".join((word[::-1] if sys.byteorder == "little" else word).hex() for word in words)
        yield f"{number.upper()}:{port:04X}"
