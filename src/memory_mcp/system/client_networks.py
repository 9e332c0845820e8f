"""The network that a client's address counts as, wherever clients are limited by address."""

import ipaddress


def network_of(address: str | None) -> str:
    """An IPv6 address counts as its /64: one client usually has all of it."""
    if address is None:
        return ""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped is None:
        return str(ipaddress.ip_network((parsed, 64), strict=False))
    return address
