"""The other servers on the same database, over HTTP."""

import json
import logging
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from memory_mcp.caller import Caller
from memory_mcp.cancellation import check_not_cancelled
from memory_mcp.errors import AppError, Invalid, Unavailable, Unusable
from memory_mcp.progress import ReportProgress, report_nothing
from memory_mcp.services.server_calls.protocol import ANSWER, CONTENT_TYPE, ERROR, PATH, PROGRESS, decode_error
from memory_mcp.services.server_calls.tokens import sign

CONNECT_TIMEOUT_S = 3.0
SILENCE_TIMEOUT_S = 15.0  # without a line: the other server, or the network, is gone
RETRY_AFTER_S = 5
IDLE_S = 2.0  # of a connection that is used again: the other server closes it later
_CERTIFICATE_FAULTS = {  # by OpenSSL's X509_V_ERR_… codes
    9: "it is not valid yet",
    10: "it has expired",
    **dict.fromkeys((7, 18, 19, 20, 21), "its issuer is not trusted"),
    **dict.fromkeys((62, 64), "it is for another name"),
}

log = logging.getLogger(__name__)


class CalledServer(Protocol):
    @property
    def id(self) -> str: ...

    @property
    def url(self) -> str: ...


class ServerClient:
    """Sends calls to other servers. The threads of a server share it."""

    def __init__(self, secret: Callable[[], str]) -> None:
        """Certificates of other servers are checked with the system's authorities, or those of SSL_CERT_FILE or
        SSL_CERT_DIR. Raises Unusable if these cannot be read."""
        import httpx2

        self._secret = secret
        limits = httpx2.Limits(max_connections=None, keepalive_expiry=IDLE_S)
        try:
            transport = httpx2.HTTPTransport(limits=limits)
        except OSError as exc:  # ssl.SSLError, too
            raise Unusable(f"The certificates of SSL_CERT_FILE or SSL_CERT_DIR cannot be read: {exc}") from exc
        timeout = httpx2.Timeout(SILENCE_TIMEOUT_S, connect=CONNECT_TIMEOUT_S)
        self._client = httpx2.Client(transport=transport, timeout=timeout, trust_env=False, follow_redirects=False)

    def close(self) -> None:
        self._client.close()

    def call(
        self,
        server: CalledServer,
        caller: Caller,
        operation: str,
        arguments: dict[str, Any],
        *,
        is_write: bool,
        progress: ReportProgress = report_nothing,
        cancelled: threading.Event | None = None,
    ) -> Any:
        """The answer of another server, as JSON. Raises its AppError, or Unavailable if it cannot be reached.

        `is_write`: if its answer is lost, the call may have changed something.
        """
        body = json.dumps({"operation": operation, "arguments": arguments}, ensure_ascii=False).encode()
        token = sign(self._secret(), server.id, caller, body)
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        with (
            _translate_errors(server, is_write=is_write),
            self._client.stream("POST", f"{server.url}{PATH}", content=body, headers=headers) as answer,
        ):
            if answer.status_code != 200 or answer.headers.get("content-type") != CONTENT_TYPE:
                # The body of anything else may never end: an event stream, for example.
                message = _message(answer.read()) if answer.status_code == 422 else ""
                raise _refusal(answer.status_code, message, is_write=is_write)
            for line in answer.iter_lines():
                check_not_cancelled(cancelled)  # leaving the block closes the connection, which stops the call there
                sent = json.loads(line)
                if ERROR in sent:
                    raise decode_error(sent[ERROR])
                if ANSWER in sent:
                    return sent[ANSWER]
                if PROGRESS in sent:
                    progress(*sent[PROGRESS])
        raise _lost(is_write=is_write)  # it ended before it had answered


@contextmanager
def _translate_errors(server: CalledServer, *, is_write: bool) -> Iterator[None]:
    import httpx2

    try:
        yield
    except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.InvalidURL, httpx2.UnsupportedProtocol) as exc:
        log.warning("The server at %s cannot be reached: %s", server.url, exc)
        if refused := _certificate_error(exc):
            fault = _CERTIFICATE_FAULTS.get(refused.verify_code, "it is not valid")
            raise Unavailable(
                f"The certificate of the server that has these portals was refused: {fault}. Nothing was changed, and "
                "everything else works. The operator of the servers must replace it or, if its issuer is private, "
                "trust that."
            ) from exc
        raise Unavailable(
            "The server that has these portals does not answer, so they cannot be read or written now. Nothing was "
            f"changed, and everything else works. Try again in {RETRY_AFTER_S} s.",
            retry_after=RETRY_AFTER_S,
        ) from exc
    except (httpx2.TransportError, ValueError) as exc:
        raise _lost(is_write=is_write) from exc


def _certificate_error(error: BaseException | None) -> ssl.SSLCertVerificationError | None:
    """The refused certificate that caused an error of the HTTP client."""
    while error is not None and not isinstance(error, ssl.SSLCertVerificationError):
        error = error.__cause__ or error.__context__
    return error


def _lost(*, is_write: bool) -> Unavailable:
    if is_write:
        return Unavailable(
            "The server that has these portals stopped before it had answered. The change may or may not have been "
            "saved. Look at what is stored before you repeat it.",
            retry_after=RETRY_AFTER_S,
            may_have_happened=True,
        )
    return Unavailable(
        "The server that has these portals stopped before it had answered. Nothing was changed; try again in "
        f"{RETRY_AFTER_S} s.",
        retry_after=RETRY_AFTER_S,
    )


def _message(body: bytes) -> str:
    """Of another server's refusal. Empty if something else answered."""
    try:
        return str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError):
        return ""


def _refusal(status: int, message: str, *, is_write: bool) -> AppError:
    """What an answer without lines means. `message` is that of the other server, if it sent one."""
    if status == 413:
        return Invalid("This is too much for one call. Send less at a time.", code="too_large")
    if message:
        return Unavailable(f"The server that has these portals refused the call: {message}")
    if status == 401:
        return Unavailable(
            "The server that has these portals refused this one, so nothing was changed. Another server may have its "
            "address, or their clocks differ: their --server-url and the logs of both say more."
        )
    if status in (429, 503):
        return Unavailable(
            f"The server that has these portals is busy or stopping (HTTP {status}). Nothing was changed; try again in "
            f"{RETRY_AFTER_S} s.",
            retry_after=RETRY_AFTER_S,
        )
    if status >= 500:  # of a proxy before it: it may have begun
        return _lost(is_write=is_write)
    return Unavailable(
        f"At the address of the server that has these portals, something else answers (HTTP {status}). Nothing was "
        "changed. Its --server-url must lead to that server alone, and a proxy before it must pass on "
        f"{PATH}."
    )
