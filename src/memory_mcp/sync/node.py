"""The node: what a person says about syncing their notes, and the exchange with their hub."""

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
from memory_mcp.names import new_namespace
from memory_mcp.progress import ReportProgress, report_nothing
from memory_mcp.sync import encryption
from memory_mcp.sync.encryption import Seal
from memory_mcp.sync.hub_client import Answer, Forked, HubClient, checked_key, checked_url
from memory_mcp.sync.model import NamespaceCursor, Replica, ReplicaState, SetAside, Synced
from memory_mcp.sync.protocol import MAX_RECORDS
from memory_mcp.sync.records import Record, check_values

LINK_FILE = "sync.json"  # in a user's folder: never part of notes, of a backup or of an export
NO_NAMESPACE = "?"  # to ask whether a key may pull
MAX_PUSH_BYTES = 2_000_000  # of records in one push, about
MAX_RESTARTS = 5  # of an exchange that begins anew
MAX_WAITS = 20  # in a row, for a hub that says it is too often
MAX_PAUSE_S = 300.0  # in a row, likewise
MAX_PAGES = 10_000  # of one namespace in one exchange: what is left comes with the next
MAX_EXTRA_PUSHES = 50  # in one exchange, beyond one for each note that waits: merging may give more to send

"""Told of work under way: what it is, how much is done, of how much."""


class Busy(Unavailable):
    """Another process is at it."""


@dataclass(frozen=True)
class HubLink:
    """Which hub, and how to get in."""

    url: str
    key: str
    secret: str | None = None  # None: the hub can read what passes through it


@dataclass(frozen=True)
class SyncState:
    linked: bool
    url: str | None
    encrypted: bool
    node: str
    synced_at: str | None
    error: str | None
    outbox: int
    namespaces: list[Synced]
    set_aside: list[SetAside]  # records from the hub that could not be taken in, the latest

    @property
    def left(self) -> int:
        """How much there is to send and to take in, as far as this node knows."""
        return self.outbox + sum(one.to_pull for one in self.namespaces if one.enabled)


@dataclass(frozen=True)
class Exchanged:
    pushed: int
    pulled: int
    refused: int


class Sync:
    """Everything a node can do about syncing."""

    def __init__(
        self,
        folder_of: Callable[[str], Path],
        replica_of: Callable[[str], Replica],
        wall_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        tell: Callable[[str], None] = lambda user: None,
    ) -> None:
        """`tell` is called with the user whenever a status may have changed."""
        self._folder_of = folder_of
        self._replica_of = replica_of
        self._wall_ms = wall_ms
        self._told = tell

    # What a person says

    def link(self, user: str, url: str, key: str, *, secret: str | None = None, encrypt: bool = False) -> HubLink:
        """Choose the hub. It is asked first, so that an address or a key that is wrong is noticed."""
        if encrypt and secret:
            raise Invalid("Encrypt with a new secret or with the one you have, not with both.", field="secret")
        secret = encryption.new_secret() if encrypt else secret
        if secret:
            encryption.Seal(secret)
        chosen = HubLink(checked_url(url), checked_key(key), secret)
        former, replica = self.linked(user), self._replica_of(user)
        with self._turn(user, LOCK_TIMEOUT_S):
            self._try(chosen, replica.standing())
            if former and former.secret != chosen.secret:
                replica.start_over(chosen.url, new_node=True)
            self._write(user, chosen)
        self._told(user)
        return chosen

    def unlink(self, user: str) -> None:
        """Sync with nobody. What is known about namespaces stays, for the next hub."""
        if self.linked(user) is None:
            raise _not_linked()
        self._path(user).unlink(missing_ok=True)
        self._told(user)

    def linked(self, user: str) -> HubLink | None:
        try:
            return HubLink(**json.loads(self._path(user).read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError) as exc:
            raise Unusable(f"{self._path(user).name} cannot be read. Delete it, and link again.") from exc

    def enable(self, user: str, namespace: str) -> None:
        """Stamp the notes of a namespace, and exchange them from now on."""
        self._require_link(user)
        self._replica_of(user).enable(new_namespace(namespace))
        self._told(user)

    def disable(self, user: str, namespace: str) -> None:
        """Nothing leaves and nothing comes. Changes wait until it is enabled again."""
        self._replica_of(user).disable(namespace)
        self._told(user)

    def resync(self, user: str, namespace: str) -> None:
        self._replica_of(user).resync(namespace)
        self._told(user)

    def clear_state(self, user: str, namespace: str) -> None:
        self._replica_of(user).clear(namespace)
        self._told(user)

    def status(self, user: str) -> SyncState:
        link, replica = self.linked(user), self._replica_of(user)
        standing = replica.standing()
        return SyncState(
            linked=link is not None,
            url=link.url if link else None,
            encrypted=bool(link and link.secret),
            node=standing.node,
            synced_at=standing.synced_at,
            error=standing.error,
            outbox=standing.to_send,
            namespaces=replica.namespaces(),
            set_aside=replica.set_aside(),
        )

    # The exchange

    def is_needed(self, user: str, since: str) -> bool:
        """Whether anything waits, or nobody has asked the hub since."""
        replica = self._replica_of(user)
        standing = replica.standing()
        if standing.to_send or not replica.places():
            return bool(standing.to_send)
        return standing.error is not None or standing.synced_at is None or standing.synced_at < since

    def run(
        self,
        user: str,
        report_progress: ReportProgress = report_nothing,
        *,
        wait: float = LOCK_TIMEOUT_S,
        pause: Callable[[float], object] = time.sleep,
    ) -> Exchanged:
        """Send and take in everything there is. Raises Busy if another process is at it for longer than `wait` seconds,
        and whatever the hub has against it. `pause` is how to wait for a hub that says it is too often."""
        link = self._require_link(user)
        replica = self._replica_of(user)
        with self._turn(user, wait):
            try:
                done = self._exchange(link, replica, pause, report_progress)
            except AppError as exc:
                with suppress(Unavailable):
                    replica.ended(exc.message)
                raise
            else:
                replica.ended(None)
                return done
            finally:
                self._told(user)

    @contextmanager
    def _turn(self, user: str, wait: float) -> Iterator[None]:
        """One exchange at a time for each user, among all processes."""
        with ExitStack() as held:
            try:
                held.enter_context(FileLock(self._folder_of(user) / "sync.lock").acquire(wait))
            except Unavailable as exc:
                raise Busy("Another process is syncing these notes. Try again in a moment.") from exc
            yield

    def _exchange(
        self, link: HubLink, replica: Replica, pause: Callable[[float], object], report_progress: ReportProgress
    ) -> Exchanged:
        with closing(HubClient(link.url, link.key)) as asking:
            for _ in range(MAX_RESTARTS):
                if replica.standing().hub != link.url:
                    replica.start_over(link.url, new_node=False)
                try:
                    return _Exchange(asking, replica, _seal(link), self._wall_ms, pause, report_progress).run()
                except Forked:
                    replica.start_over(link.url, new_node=True)
        raise Unavailable("The hub does not recognise this node, again and again. Is another one using its id?")

    def _try(self, link: HubLink, standing: ReplicaState) -> None:
        ticket = standing.ticket if standing.hub == link.url else None
        with closing(HubClient(link.url, link.key)) as asking, suppress(Forked):  # the first exchange sees to it
            asking.push(standing.node, ticket, None, [])
            asking.pull(standing.node, ticket, None, NO_NAMESPACE, 0, own=False, limit=1)

    def _require_link(self, user: str) -> HubLink:
        link = self.linked(user)
        if link is None:
            raise _not_linked()
        return link

    def _path(self, user: str) -> Path:
        return self._folder_of(user) / LINK_FILE

    def _write(self, user: str, link: HubLink) -> None:
        with Root(self._folder_of(user)).place([LINK_FILE]) as place:
            atomic_write.write(place, json.dumps(asdict(link)).encode(), mode=0o600)


class _Exchange:
    """One exchange with the hub: first what others wrote, so that clocks agree, then what was written here."""

    def __init__(
        self,
        asking: HubClient,
        replica: Replica,
        seal: Seal | None,
        wall_ms: Callable[[], int],
        pause: Callable[[float], object],
        report_progress: ReportProgress,
    ) -> None:
        self._asking = asking
        self._replica = replica
        self._seal = seal
        self._wall_ms = wall_ms
        self._pause = pause
        self._report_progress = report_progress
        standing = replica.standing()
        self._node, self._ticket = standing.node, standing.ticket
        self._waits_in_a_row = 0
        self._paused_s = 0.0  # in a row

    def run(self) -> Exchanged:
        pulled = sum(self._pull(place) for place in self._replica.places())
        pushed, refused = self._push()
        return Exchanged(pushed, pulled, refused)

    def _pull(self, place: NamespaceCursor) -> int:
        taken = 0
        for _ in range(MAX_PAGES):
            answer = self._asked(
                partial(
                    self._asking.pull,
                    self._node,
                    self._ticket,
                    self._fingerprint,
                    place.namespace,
                    place.cursor,
                    own=place.rereading,
                    limit=MAX_RECORDS,
                )
            )
            records, set_aside = self._opened(answer)
            self._replica.take_in(place, records, answer.cursor, answer.ticket, answer.left, set_aside)
            taken, place = taken + len(records), replace(place, cursor=answer.cursor)
            self._report_progress(f"{place.namespace}: taking in", taken, taken + answer.left)
            if not answer.left:
                break
        return taken

    def _push(self) -> tuple[int, int]:
        sent = refused = after = 0
        waiting = self._replica.standing().to_send
        for _ in range(waiting + MAX_EXTRA_PUSHES):
            outgoing = self._replica.outgoing(after, MAX_RECORDS, MAX_PUSH_BYTES)
            if not outgoing:
                break
            records = self._sealed([one.record for one in outgoing])
            answer = self._asked(partial(self._asking.push, self._node, self._ticket, self._fingerprint, records))
            merged, set_aside = self._opened(answer)
            self._replica.sent(outgoing, answer.refused, merged, answer.ticket, answer.hub_now, set_aside)
            after = outgoing[-1].ticket
            sent += len(outgoing) - len(answer.refused)
            refused += len(answer.refused)
            self._report_progress("sending", sent, max(sent, waiting))
        return sent, refused

    def _asked(self, ask: Callable[[], Answer]) -> Answer:
        """Ask, wait when that is too often, and set our clock by the hub's."""
        while True:
            before = self._wall_ms()
            try:
                answer = ask()
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
            self._replica.set_clock(_ms(answer.hub_now), (before + self._wall_ms()) // 2)
            return answer

    @property
    def _fingerprint(self) -> str | None:
        return self._seal.fingerprint if self._seal else None

    def _sealed(self, records: Sequence[Record]) -> list[Record]:
        return [self._seal.seal(record) for record in records] if self._seal else list(records)

    def _opened(self, answer: Answer) -> tuple[list[Record], list[SetAside]]:
        """What can be taken in of an answer, and what is set aside."""
        records, set_aside = [], list(answer.set_aside)
        for sealed in answer.records:
            try:
                record = self._seal.open(sealed) if self._seal else sealed
                check_values(record)
            except Invalid as exc:
                set_aside.append(SetAside(sealed.id, exc.message))
            else:
                records.append(record)
        return records, set_aside


def _seal(link: HubLink) -> Seal | None:
    return Seal(link.secret) if link.secret else None


def _ms(moment: str) -> int:
    return int(instant(moment).timestamp() * 1000)


def _not_linked() -> Conflict:
    return Conflict("No hub is linked. `memory-mcp sync link URL --key KEY` does it, with a key made at the hub.")
