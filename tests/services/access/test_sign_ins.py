from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from memory_mcp.caller import LOCAL_USER
from memory_mcp.engines.transactions import SharedDatabase
from memory_mcp.errors import Invalid, RateLimited
from memory_mcp.services.access import Audit, Limits, NotSignedIn, SignIns, Users
from memory_mcp.services.access import sign_ins as module
from tests.cheap_hashes import ROUNDS_OF_PASSWORDS
from tests.conftest import Clock
from tests.postgres import everything_stored

PASSWORD = "correct horse battery"
HOME = "127.0.0.1"


@pytest.fixture
def sign_ins(db: SharedDatabase, live: SharedDatabase, clock: Clock) -> SignIns:
    return SignIns(db, Limits(live, lambda: clock.now.timestamp()), Audit(db), clock)


@pytest.fixture
def users(db: SharedDatabase) -> Users:
    return Users(db, Audit(db))


def refused(attempt: Callable[[], object]) -> str:
    with pytest.raises(NotSignedIn) as caught:
        attempt()
    assert caught.value.code == "not_signed_in"
    return caught.value.message


def test_a_link_signs_in_once(sign_ins: SignIns) -> None:
    token = sign_ins.create_link_token(LOCAL_USER)
    cookie = sign_ins.sign_in_by_link(token, HOME)
    assert sign_ins.user_of(cookie).id == LOCAL_USER
    refused(lambda: sign_ins.sign_in_by_link(token, HOME))


def test_two_links_work_independently(sign_ins: SignIns, users: Users) -> None:
    ann = users.add("ann").id
    first, second, hers = (sign_ins.create_link_token(user) for user in (LOCAL_USER, LOCAL_USER, ann))
    assert sign_ins.user_of(sign_ins.sign_in_by_link(second, HOME)).id == LOCAL_USER
    assert sign_ins.user_of(sign_ins.sign_in_by_link(hers, HOME)).id == ann
    assert sign_ins.user_of(sign_ins.sign_in_by_link(first, HOME)).id == LOCAL_USER


def test_a_link_lasts_a_day_and_no_longer(sign_ins: SignIns, clock: Clock) -> None:
    early, late = sign_ins.create_link_token(LOCAL_USER), sign_ins.create_link_token(LOCAL_USER)
    clock.now += timedelta(hours=24, seconds=-1)
    sign_ins.sign_in_by_link(early, HOME)
    clock.now += timedelta(seconds=1)
    over = refused(lambda: sign_ins.sign_in_by_link(late, HOME))
    assert over == refused(lambda: sign_ins.sign_in_by_link("never was", HOME))


def test_a_cookie_lasts_thirty_days_and_until_signing_out(sign_ins: SignIns, clock: Clock) -> None:
    one, other = (sign_ins.sign_in_by_link(sign_ins.create_link_token(LOCAL_USER), HOME) for _ in range(2))
    clock.now += timedelta(days=30, seconds=-1)
    sign_ins.user_of(one)
    sign_ins.sign_out(one)
    refused(lambda: sign_ins.user_of(one))
    sign_ins.user_of(other)
    clock.now += timedelta(seconds=1)
    refused(lambda: sign_ins.user_of(other))
    refused(lambda: sign_ins.user_of("\ud800"))


def test_tokens_cookies_and_passwords_are_not_stored(
    sign_ins: SignIns, tmp_path: Path, chosen_engine_url: str | None
) -> None:
    waiting, used = sign_ins.create_link_token(LOCAL_USER), sign_ins.create_link_token(LOCAL_USER)
    sign_ins.set_password(LOCAL_USER, PASSWORD)
    cookie = sign_ins.sign_in_by_password("local", PASSWORD, HOME)
    stored = everything_stored(tmp_path, chosen_engine_url)
    for secret in (waiting, used, cookie, PASSWORD):
        assert secret.encode() not in stored


def test_sign_in_ignores_the_case_of_the_name(sign_ins: SignIns, users: Users) -> None:
    ann = users.add("Ann").id
    sign_ins.set_password(ann, PASSWORD)
    for name in ("Ann", "ann", "ANN"):
        assert sign_ins.user_of(sign_ins.sign_in_by_password(name, PASSWORD, HOME)).id == ann


def test_a_wrong_name_and_a_wrong_password_get_the_same_error(sign_ins: SignIns, users: Users) -> None:
    users.add("bob")  # has no password
    sign_ins.set_password(LOCAL_USER, PASSWORD)
    answers = {
        refused(lambda: sign_ins.sign_in_by_password("local", "wrong password", HOME)),
        refused(lambda: sign_ins.sign_in_by_password("stranger", PASSWORD, HOME)),
        refused(lambda: sign_ins.sign_in_by_password("bob", "", HOME)),
        refused(lambda: sign_ins.sign_in_by_password("", "", HOME)),
        refused(lambda: sign_ins.sign_in_by_password("local", "", HOME)),
    }
    assert len(answers) == 1


def test_unknown_names_take_as_long_to_refuse(sign_ins: SignIns, users: Users, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each costs one bcrypt of the same strength."""
    import bcrypt

    monkeypatch.setattr(module, "BCRYPT_ROUNDS", ROUNDS_OF_PASSWORDS)
    sign_ins.set_password(LOCAL_USER, PASSWORD)
    strengths: list[bytes] = []
    check = bcrypt.checkpw

    def watched(password: bytes, hashed: bytes) -> bool:
        strengths.append(hashed[:7])
        return check(password, b"$2b$04$" + hashed[7:])

    monkeypatch.setattr(bcrypt, "checkpw", watched)
    for name in ("local", "stranger"):
        refused(lambda name=name: sign_ins.sign_in_by_password(name, "wrong password", HOME))  # type: ignore[misc]
    assert strengths == [b"$2b$12$"] * 2


@pytest.mark.parametrize("password", ["", "short", "x" * 9, "x" * 73, "ü" * 37])
def test_a_password_too_short_or_too_long_is_refused(sign_ins: SignIns, password: str) -> None:
    with pytest.raises(Invalid) as caught:
        sign_ins.set_password(LOCAL_USER, password)
    assert caught.value.data["field"] == "password"


@pytest.mark.parametrize("password", ["x" * 10, "x" * 72, "ü" * 36, "with a \0 inside", "  spaces  count  "])
def test_any_valid_password_works_and_no_other(sign_ins: SignIns, password: str) -> None:
    sign_ins.set_password(LOCAL_USER, password)
    sign_ins.sign_in_by_password("local", password, HOME)
    refused(lambda: sign_ins.sign_in_by_password("local", password + "x", HOME))
    refused(lambda: sign_ins.sign_in_by_password("local", password[:-1], HOME))


def test_a_new_password_ends_all_sign_ins_and_links(sign_ins: SignIns, users: Users) -> None:
    ann = users.add("ann").id
    hers = sign_ins.sign_in_by_link(sign_ins.create_link_token(ann), HOME)
    cookie, link = (
        sign_ins.sign_in_by_link(sign_ins.create_link_token(LOCAL_USER), HOME),
        sign_ins.create_link_token(LOCAL_USER),
    )
    sign_ins.set_password(LOCAL_USER, PASSWORD)
    refused(lambda: sign_ins.user_of(cookie))
    refused(lambda: sign_ins.sign_in_by_link(link, HOME))
    assert sign_ins.user_of(hers).id == ann

    sign_ins.set_password(LOCAL_USER, "another password")
    refused(lambda: sign_ins.sign_in_by_password("local", PASSWORD, HOME))
    sign_ins.sign_in_by_password("local", "another password", HOME)


def test_a_removed_user_is_signed_out(sign_ins: SignIns, users: Users) -> None:
    cookie = sign_ins.sign_in_by_link(sign_ins.create_link_token(users.add("ann").id), HOME)
    users.remove("ann")
    refused(lambda: sign_ins.user_of(cookie))


def test_attempts_are_limited_for_an_address(sign_ins: SignIns, clock: Clock) -> None:
    for number in range(module.MAX_ATTEMPTS_PER_ADDRESS):
        refused(lambda number=number: sign_ins.sign_in_by_link(f"guess {number}", HOME))  # type: ignore[misc]
    token = sign_ins.create_link_token(LOCAL_USER)
    with pytest.raises(RateLimited) as caught:
        sign_ins.sign_in_by_link(token, HOME)
    assert caught.value.data == {"retry_after": 6}
    with pytest.raises(RateLimited):
        sign_ins.sign_in_by_password("local", PASSWORD, HOME)
    sign_ins.sign_in_by_link(token, "192.0.2.7")  # a refusal has not used it up, and elsewhere it works
    clock.now += timedelta(seconds=6)
    refused(lambda: sign_ins.sign_in_by_link("guess", HOME))


def test_attempts_from_one_ipv6_network_count_together(sign_ins: SignIns) -> None:
    for number in range(module.MAX_ATTEMPTS_PER_ADDRESS):
        refused(lambda number=number: sign_ins.sign_in_by_link("guess", f"2001:db8::{number}"))  # type: ignore[misc]
    with pytest.raises(RateLimited):
        sign_ins.sign_in_by_link("guess", "2001:db8::ffff:0:0:1")
    refused(lambda: sign_ins.sign_in_by_link("guess", "2001:db8:0:1::1"))


def test_attempts_are_limited_for_a_name_from_all_addresses(sign_ins: SignIns, monkeypatch: pytest.MonkeyPatch) -> None:
    sign_ins.set_password(LOCAL_USER, PASSWORD)
    monkeypatch.setattr(module, "MAX_ATTEMPTS_PER_NAME", 6)  # each costs a bcrypt
    for number in range(6):
        name, address = "LOCAL" if number % 2 else "local", f"192.0.2.{number}"
        refused(lambda name=name, address=address: sign_ins.sign_in_by_password(name, "wrong", address))  # type: ignore[misc]
    with pytest.raises(RateLimited):
        sign_ins.sign_in_by_password("local", PASSWORD, "192.0.2.200")


def test_signing_in_and_a_new_password_are_in_the_audit_log(sign_ins: SignIns, db: SharedDatabase) -> None:
    sign_ins.set_password(LOCAL_USER, PASSWORD)
    sign_ins.sign_in_by_password("local", PASSWORD, "192.0.2.7")
    sign_ins.sign_in_by_link(sign_ins.create_link_token(LOCAL_USER), None)
    events = [(entry.event.action, entry.event.ip, entry.event.details) for entry in Audit(db).of(LOCAL_USER, None, 10)]
    assert events == [
        ("signed_in", None, {"by": "link"}),
        ("signed_in", "192.0.2.7", {"by": "password"}),
        ("password_set", None, {}),
    ]


def test_a_first_link_is_printed_until_the_local_user_can_sign_in(sign_ins: SignIns, users: Users) -> None:
    assert not sign_ins.is_set_up()
    sign_ins.sign_in_by_link(sign_ins.create_link_token(users.add("ann").id), HOME)
    assert not sign_ins.is_set_up()
    sign_ins.sign_in_by_link(sign_ins.create_link_token(LOCAL_USER), HOME)
    assert sign_ins.is_set_up()
