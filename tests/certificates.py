"""HTTP clients share what they read of certificates: each would read all of them again, which takes 30 ms."""

from functools import cache

import httpx
import httpx2
import pytest


def share_certificates() -> None:
    """For this process and those that are forked from it."""
    for library in (httpx, httpx2):
        create = cache(library.create_ssl_context)
        pytest.MonkeyPatch().setattr(f"{library.__name__}._transports.default.create_ssl_context", create)
