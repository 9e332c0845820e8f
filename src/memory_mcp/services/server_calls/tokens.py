"""Signed tokens: they prove that a request comes from a server on the same database, for which caller it is, and that
it was not changed on the way. The secret itself is never sent."""

import time
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from hmac import compare_digest

from pydantic import TypeAdapter, ValidationError

from memory_mcp.caller import Caller

ALGORITHM = "HS256"
LIFETIME_S = 30
MAX_CLOCK_DIFFERENCE_S = 30


class TokenRefused(Exception):
    """The token was not made with the secret, is for another server or request, or too old."""


@cache
def _callers() -> TypeAdapter[Caller]:
    return TypeAdapter(Caller)


def sign(secret: str, server_id: str, caller: Caller, body: bytes) -> str:
    """A token for one request to one server."""
    import jwt

    claims = {
        "aud": server_id,
        "exp": int(time.time()) + LIFETIME_S,
        "caller": _callers().dump_python(caller, mode="json"),
        "body": sha256(body).hexdigest(),
    }
    return jwt.encode(claims, secret, ALGORITHM)


@dataclass(frozen=True)
class VerifiedToken:
    """What a token says that another server has signed. The body is compared when it has been read."""

    caller: Caller
    body_digest: str

    def check_body(self, body: bytes) -> None:
        """Raises TokenRefused."""
        if not compare_digest(sha256(body).hexdigest(), self.body_digest):
            raise TokenRefused("The body is not the one that was signed.")


def verify(secret: str, server_id: str, token: str) -> VerifiedToken:
    """Raises TokenRefused. The signature is compared in constant time, before anything of the token is believed."""
    import jwt

    try:
        claims = jwt.decode(
            token,
            secret,
            algorithms=[ALGORITHM],
            audience=server_id,
            leeway=MAX_CLOCK_DIFFERENCE_S,
            options={"require": ["aud", "exp", "caller", "body"]},
        )
        return VerifiedToken(_callers().validate_python(claims["caller"]), str(claims["body"]))
    except (jwt.InvalidTokenError, ValidationError) as exc:
        raise TokenRefused(str(exc)) from exc
