"""The node: sync settings of a user, and the exchange with the hub."""

import json
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

from memory_mcp.clock import instant
from memory_mcp.engines.files import atomic_write
from memory_mcp.engines.files.lock import LOCK_TIMEOUT_S, FileLock
from memory_mcp.engines.files.rooted_folder import Root
from memory_mcp.errors import AppError, Conflict, Invalid, RateLimited, Unavailable, Unusable
from memory_mcp.progress import ReportProgress, report_nothing
from memory_mcp.services.sync import encryption
from memory_mcp.services.sync.encryption import Seal
from memory_mcp.services.sync.hub_client import HubAnswer, HubClient, NodeForked, checked_key, checked_url
from memory_mcp.services.sync.model import NamespaceCursor, Replica, ReplicaState, SkippedRecord, SyncedNamespace
from memory_mcp.services.sync.protocol import MAX_RECORDS
from memory_mcp.services.sync.records import NoteRecord, check_values
from memory_mcp.text.names import new_namespace

LINK_FILE = "sync.json"  # in a user's folder; never part of a backup or an export
NO_NAMESPACE = "?"  # to check whether a key may pull
MAX_PUSH_BYTES = 2_000_000  # of records in one push, approximately
MAX_RESTARTS = 5  # of one exchange
MAX_WAITS = 20  # in a row, for a hub that answers 429
MAX_PAUSE_S = 300.0  # total of these waits
MAX_PAGES = 10_000  # of one namespace in one exchange: the next one reads the rest
MAX_EXTRA_PUSHES = 50  # in one exchange, beyond one for each waiting note: merges may add notes to send


class SyncBusy(Unavailable):
    """Another process is syncing."""


@dataclass(frozen=True)
class HubLink:
    """The hub's address and the credentials for it."""

    url: str
    key: str
    secret: str | None = None  # None: the hub can read the notes


@dataclass(frozen=True)
class SyncState:
    linked: bool
    url: str | None
    encrypted: bool
    node: str
    synced_at: str | None
    error: str | None
    outbox: int
    namespaces: list[SyncedNamespace]
    set_aside: list[SkippedRecord]  # records from the hub that could not be merged, latest first

    @property
    def left(self) -> int:
        """How many records wait to be sent or pulled, as far as this node knows."""
        return self.outbox + sum(one.to_pull for one in self.namespaces if one.enabled)


@dataclass(frozen=True)
class ExchangeResult:
    pushed: int
    pulled: int
    refused: int


class Sync:
    """The sync operations of a node."""

    def __init__(
        self,
        folder_of: Callable[[str], Path],
        replica_of: Callable[[str], Replica],
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        notify: Callable[[str], None] = lambda user: None,
    ) -> None:
        """`notify` is called with the user whenever their status may have changed."""
        self._folder_of = folder_of
        self._replica_of = replica_of
        self._now_ms = now_ms
        self._notify = notify

    # Settings

    def link(self, user: str, url: str, key: str, *, secret: str | None = None, encrypt: bool = False) -> HubLink:
        """Choose the hub. A request to it checks the address and the key first."""
        if encrypt and secret:
            raise Invalid("Encrypt with a new secret or with the one you have, not with both.", field="secret")
        secret = encryption.new_secret() if encrypt else secret
        if secret:
            encryption.Seal(secret)
        chosen = HubLink(checked_url(url), checked_key(key), secret)
        former, replica = self.linked(user), self._replica_of(user)
        with self._lock(user, LOCK_TIMEOUT_S):
            self._try(chosen, replica.state())
            if former and former.secret != chosen.secret:
                replica.start_over(chosen.url, new_node=True)
            self._write(user, chosen)
        self._notify(user)
        return chosen

    def unlink(self, user: str) -> None:
        """Stop syncing. The state of the namespaces stays, for the next hub."""
        if self.linked(user) is None:
            raise _not_linked()
        self._path(user).unlink(missing_ok=True)
        self._notify(user)

    def linked(self, user: str) -> HubLink | None:
        try:
            return HubLink(**json.loads(self._path(user).read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError) as exc:
            raise Unusable(f"{self._path(user).name} cannot be read. Delete it, and link again.") from exc

    def enable(self, user: str, namespace: str) -> None:
        """Stamp the notes of a namespace, and sync them from now on."""
        replica = self._replica_of(user)
        self._require_link(user)
        replica.enable(new_namespace(namespace))
        self._notify(user)

    def disable(self, user: str, namespace: str) -> None:
        """Stop sending and receiving. Changes wait until the namespace is enabled again."""
        self._replica_of(user).disable(namespace)
        self._notify(user)

    def resync(self, user: str, namespace: str) -> None:
        self._replica_of(user).resync(namespace)
        self._notify(user)

    def clear_state(self, user: str, namespace: str) -> None:
        self._replica_of(user).clear(namespace)
        self._notify(user)

    def status(self, user: str) -> SyncState:
        link, replica = self.linked(user), self._replica_of(user)
        state = replica.state()
        return SyncState(
            linked=link is not None,
            url=link.url if link else None,
            encrypted=bool(link and link.secret),
            node=state.node,
            synced_at=state.synced_at,
            error=state.error,
            outbox=state.to_send,
            namespaces=replica.namespaces(),
            set_aside=replica.skipped(),
        )

    # The exchange

    def is_needed(self, user: str, since: str) -> bool:
        """Whether changes wait to be sent, or the last successful exchange was before `since`."""
        replica = self._replica_of(user)
        state = replica.state()
        if state.to_send or not replica.cursors():
            return bool(state.to_send)
        return state.error is not None or state.synced_at is None or state.synced_at < since

    def run(
        self,
        user: str,
        report_progress: ReportProgress = report_nothing,
        *,
        wait: float = LOCK_TIMEOUT_S,
        pause: Callable[[float], object] = time.sleep,
    ) -> ExchangeResult:
        """Send and pull everything. Raises Busy if another process syncs for longer than `wait` seconds, and the errors
        of the hub client. `pause` waits when the hub limits the rate."""
        link = self._require_link(user)
        replica = self._replica_of(user)
        with self._lock(user, wait):
            try:
                done = self._exchange(link, replica, pause, report_progress)
            except AppError as exc:
                with suppress(Unavailable):
                    replica.finish_exchange(exc.message)
                raise
            else:
                replica.finish_exchange(None)
                return done
            finally:
                self._notify(user)

    @contextmanager
    def _lock(self, user: str, wait: float) -> Iterator[None]:
        """One exchange at a time for each user, across processes."""
        with ExitStack() as held:
            try:
                held.enter_context(FileLock(self._folder_of(user) / "sync.lock").acquire(wait))
            except Unavailable as exc:
                raise SyncBusy("Another process is syncing these notes. Try again in a moment.") from exc
            yield

    def _exchange(
        self, link: HubLink, replica: Replica, pause: Callable[[float], object], report_progress: ReportProgress
    ) -> ExchangeResult:
        with closing(HubClient(link.url, link.key)) as hub:
            for _ in range(MAX_RESTARTS):
                if replica.state().hub != link.url:
                    replica.start_over(link.url, new_node=False)
                try:
                    return _Exchange(hub, replica, _seal(link), self._now_ms, pause, report_progress).run()
                except NodeForked:
                    replica.start_over(link.url, new_node=True)
        raise Unavailable("The hub does not recognise this node, repeatedly. Is another node using its id?")

    def _try(self, link: HubLink, state: ReplicaState) -> None:
        ticket = state.ticket if state.hub == link.url else None
        with closing(HubClient(link.url, link.key)) as hub, suppress(NodeForked):  # the first exchange handles it
            hub.push(state.node, ticket, None, [])
            hub.pull(state.node, ticket, None, NO_NAMESPACE, 0, own=False, limit=1)

    def _require_link(self, user: str) -> HubLink:
        link = self.linked(user)
        if link is None:
            raise _not_linked()
        return link

    def _path(self, user: str) -> Path:
        return self._folder_of(user) / LINK_FILE

    def _write(self, user: str, link: HubLink) -> None:
        with Root(self._folder_of(user)).entry([LINK_FILE]) as entry:
            atomic_write.write(entry, json.dumps(asdict(link)).encode(), mode=0o600)


class _Exchange:
    """One exchange with the hub: pull first, so that the clocks agree, then push."""

    def __init__(
        self,
        hub: HubClient,
        replica: Replica,
        seal: Seal | None,
        now_ms: Callable[[], int],
        pause: Callable[[float], object],
        report_progress: ReportProgress,
    ) -> None:
        self._hub = hub
        self._replica = replica
        self._seal = seal
        self._now_ms = now_ms
        self._pause = pause
        self._report_progress = report_progress
        state = replica.state()
        self._node, self._ticket = state.node, state.ticket
        self._waits_in_a_row = 0
        self._paused_s = 0.0  # in a row

    def run(self) -> ExchangeResult:
        pulled = sum(self._pull(start) for start in self._replica.cursors())
        pushed, refused = self._push()
        return ExchangeResult(pushed, pulled, refused)

    def _pull(self, start: NamespaceCursor) -> int:
        taken = 0
        for _ in range(MAX_PAGES):
            answer = self._request(
                partial(
                    self._hub.pull,
                    self._node,
                    self._ticket,
                    self._fingerprint,
                    start.namespace,
                    start.cursor,
                    own=start.rereading,
                    limit=MAX_RECORDS,
                )
            )
            records, skipped = self._open_all(answer)
            self._replica.merge_page(start, records, answer.cursor, answer.ticket, answer.left, skipped)
            taken, start = taken + len(records), replace(start, cursor=answer.cursor)
            self._report_progress(f"receiving {start.namespace}", taken, taken + answer.left)
            if not answer.left:
                break
        return taken

    def _push(self) -> tuple[int, int]:
        sent = refused = after = 0
        waiting = self._replica.state().to_send
        for _ in range(waiting + MAX_EXTRA_PUSHES):
            outgoing = self._replica.outgoing(after, MAX_RECORDS, MAX_PUSH_BYTES)
            if not outgoing:
                break
            records = self._seal_all([one.record for one in outgoing])
            answer = self._request(partial(self._hub.push, self._node, self._ticket, self._fingerprint, records))
            merged, skipped = self._open_all(answer)
            self._replica.finish_push(outgoing, answer.refused, merged, answer.ticket, answer.hub_now, skipped)
            after = outgoing[-1].ticket
            sent += len(outgoing) - len(answer.refused)
            refused += len(answer.refused)
            self._report_progress("sending", sent, max(sent, waiting))
        return sent, refused

    def _request(self, send: Callable[[], HubAnswer]) -> HubAnswer:
        """Send a request, wait if the rate is limited, and adjust to the hub's clock."""
        while True:
            before = self._now_ms()
            try:
                answer = send()
            except RateLimited as exc:
                pause = float(exc.data["retry_after"]) * random.uniform(0.5, 1.5)  # noqa: S311  # no secret
                self._waits_in_a_row += 1
                self._paused_s += pause
                if self._waits_in_a_row > MAX_WAITS or self._paused_s > MAX_PAUSE_S:
                    raise
                self._pause(pause)
                continue
            self._waits_in_a_row, self._paused_s = 0, 0.0
            self._ticket = answer.ticket
            self._replica.set_clock(_ms(answer.hub_now), (before + self._now_ms()) // 2)
            return answer

    @property
    def _fingerprint(self) -> str | None:
        return self._seal.fingerprint if self._seal else None

    def _seal_all(self, records: Sequence[NoteRecord]) -> list[NoteRecord]:
        return [self._seal.seal(record) for record in records] if self._seal else list(records)

    def _open_all(self, answer: HubAnswer) -> tuple[list[NoteRecord], list[SkippedRecord]]:
        """The records of an answer that can be merged, and the skipped ones."""
        records, skipped = [], list(answer.skipped)
        for sealed in answer.records:
            try:
                record = self._seal.open(sealed) if self._seal else sealed
                check_values(record)
            except Invalid as exc:
                skipped.append(SkippedRecord(sealed.id, exc.message))
            else:
                records.append(record)
        return records, skipped


def _seal(link: HubLink) -> Seal | None:
    return Seal(link.secret) if link.secret else None


def _ms(moment: str) -> int:
    return int(instant(moment).timestamp() * 1000)


def _not_linked() -> Conflict:
    return Conflict("No hub is linked. Link one with `memory-mcp sync link URL --key KEY` and a key made at the hub.")
