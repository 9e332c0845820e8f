import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import bcrypt
import pytest

from memory_mcp.clock import stamp
from memory_mcp.engines.transactions import SharedDatabase
from memory_mcp.errors import NotFound
from memory_mcp.services.access import Audit, KeyRefused, Keys
from memory_mcp.services.access import keys as keys_module
from tests.cheap_hashes import MIN_ROUNDS, ROUNDS_OF_KEYS, ROUNDS_OF_PASSWORDS
from tests.conftest import Clock
from tests.events import TIMEOUT_S
from tests.postgres import everything_stored


def word(keys: Keys, raw: str | None) -> str:
    with pytest.raises(KeyRefused) as caught:
        keys.check(raw)
    return caught.value.code


def test_a_key_has_the_format_of_the_contract_and_works(db: SharedDatabase, clock: Clock) -> None:
    keys = Keys(db, Audit(db), clock)
    issued = keys.create(name="laptop")

    assert keys_module.RAW_KEY.fullmatch(issued.raw)
    assert len(issued.raw) == 5 + 12 + 1 + 43
    assert issued.key.key_prefix == issued.raw[:13]
    assert keys.check(issued.raw).id == issued.key.id


def test_the_raw_key_is_stored_nowhere(
    db: SharedDatabase, clock: Clock, tmp_path: Path, chosen_engine_url: str | None
) -> None:
    keys = Keys(db, Audit(db), clock)
    issued = keys.create(name="laptop")
    keys.check(issued.raw)
    secret = issued.raw[18:].encode()

    assert secret not in everything_stored(tmp_path, chosen_engine_url)
    assert issued.key.secret_hash.startswith(f"$2b${MIN_ROUNDS:02}$")


def test_outside_of_tests_hashes_take_their_time() -> None:
    assert (ROUNDS_OF_KEYS, ROUNDS_OF_PASSWORDS) == (10, 12)


def test_refused_keys_say_why(db: SharedDatabase, clock: Clock) -> None:
    keys = Keys(db, Audit(db), clock)
    issued = keys.create(name="a", expires_at=stamp(clock.now + timedelta(hours=1)))

    assert word(keys, None) == "missing_bearer"
    assert word(keys, "") == "missing_bearer"
    assert word(keys, "nonsense") == "invalid_token"
    assert word(keys, issued.raw[:-1] + ("a" if issued.raw[-1] != "a" else "b")) == "invalid_token"
    assert word(keys, "mmcp_aaaaaaaaaaaa_" + "x" * 43) == "invalid_token"
    clock.now += timedelta(hours=2)
    assert word(keys, issued.raw) == "expired"
    keys.revoke(issued.key.id)
    assert word(Keys(db, Audit(db), clock), issued.raw) == "revoked"


def test_a_revocation_reaches_other_processes(
    db: SharedDatabase, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert keys_module.CACHE_TTL_S < 1  # the promise is one second
    monkeypatch.setattr(keys_module, "CACHE_TTL_S", 0.0)
    here, elsewhere = Keys(db, Audit(db), clock), Keys(db, Audit(db), clock)
    issued = here.create(name="a")
    elsewhere.check(issued.raw)

    here.revoke(issued.key.id)
    assert word(elsewhere, issued.raw) == "revoked"
    with pytest.raises(NotFound):
        here.revoke(issued.key.id)


def test_a_cached_key_needs_no_bcrypt(db: SharedDatabase, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = Keys(db, Audit(db), clock)
    issued = keys.create(name="a")
    keys.check(issued.raw)

    def forbidden(*_: object) -> bool:
        raise AssertionError("bcrypt ran again")

    monkeypatch.setattr("bcrypt.checkpw", forbidden)
    keys.check(issued.raw)


def test_a_key_is_accepted_from_memory_only_while_nothing_is_left_to_read_or_record(
    db: SharedDatabase, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keys_module, "CACHE_TTL_S", 1000.0)
    keys = Keys(db, Audit(db), clock)
    issued = keys.create(name="laptop", expires_at=stamp(clock.now + timedelta(hours=1)))

    assert keys.cached(None) is None
    assert keys.cached(issued.raw, "10.0.0.1") is None  # not verified yet
    keys.check(issued.raw, "10.0.0.1")
    assert keys.cached(issued.raw, "10.0.0.1") == issued.key
    assert keys.cached(issued.raw, "10.0.0.2") is None  # its use from there is to be audited
    clock.now += timedelta(hours=2)
    assert keys.cached(issued.raw, "10.0.0.1") is None  # expired
    clock.now -= timedelta(hours=2)
    monkeypatch.setattr(keys_module, "CACHE_TTL_S", 0.0)
    assert keys.cached(issued.raw, "10.0.0.1") is None  # it may have been revoked


def test_concurrent_requests_hash_a_new_key_once(
    db: SharedDatabase, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = Keys(db, Audit(db), clock)
    raw = keys.create(name="k").raw
    hashed: list[bytes] = []
    check = bcrypt.checkpw
    both_are_in = threading.Barrier(2)

    def count(password: bytes, digest: bytes) -> bool:
        hashed.append(password)
        return check(password, digest)

    def come(_: int) -> str:
        both_are_in.wait(TIMEOUT_S)
        return keys.check(raw).id

    monkeypatch.setattr(bcrypt, "checkpw", count)
    monkeypatch.setattr(keys, "_hashing", threading.Semaphore(1))
    assert keys.verified_id(raw) is None
    with ThreadPoolExecutor(2) as pool:
        [id_] = set(pool.map(come, range(2)))
    assert len(hashed) == 1
    assert (keys.verified_id(raw), keys.verified_id(raw[:-1] + "-"), keys.verified_id(None)) == (id_, None, None)
