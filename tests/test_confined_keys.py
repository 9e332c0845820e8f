"""A key that is confined to a namespace: nothing outside of it exists, in any tool, resource, completion, notification.

Ann keeps something in every family. Then three of her keys, each confined to an empty namespace, ask the same things in
the same order: one with the identifiers of what she keeps elsewhere, one with identifiers that nothing has, one with
the first again on a server where she keeps nothing. Their answers must be the same bytes.
"""

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any
from uuid import uuid4

import pytest
from typer.testing import CliRunner

from memory_mcp.cli.main import cli
from memory_mcp.families.registry import CONFINABLE, FAMILIES
from tests.conftest import ERAS
from tests.events import eventually
from tests.exhaustive import sample
from tests.test_tenants import (
    ADDRESSES,
    ANNS,
    CALLS,
    SECRET,
    House,
    Names,
    Visitor,
    bare_call,
    call,
    comparable,
    ear,
    everything_listed,
    fill,
    key_of,
    made,
    names_of,
    person,
    questions,
    substituted,
    without_suggestions,
    write_everywhere,
)
from tests.wire import Http, http_server

FLAGS = ("--embedder", "none", "--portal-joins")


@dataclass(frozen=True)
class Homes(House):
    elsewhere_user: str


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Homes]:
    with (
        http_server(tmp_path_factory.mktemp("home"), *FLAGS) as server,
        http_server(tmp_path_factory.mktemp("elsewhere"), *FLAGS) as elsewhere,
    ):
        user, other = (made(one.data_dir, "users", "add", "ann")["id"] for one in (server, elsewhere))
        ann = key_of(server, "ann")
        names = fill(ann, user)
        answers = (call(ann, "recall_memories", query=SECRET) for _ in range(100))
        assert any(not answer["incomplete"] for answer in answers)  # all of it is indexed
        listed = everything_listed(Visitor(ann, user, "2026-07-28"))
        yield Homes(server, ann, names, listed, elsewhere, other)


def confined(server: Http, user: str, era: str = "2026-07-28", namespace: str | None = None) -> Visitor:
    """A key of Ann's for a namespace, by itself an empty one."""
    own = namespace or f"stranger-{uuid4().hex[:8]}"
    visitor = Visitor(key_of(server, "ann", "--namespace", own, "--confined"), user, era)
    visitor.namespace = own
    if era == "legacy":
        visitor.connection = visitor.http.handshake()
    return visitor


@pytest.mark.parametrize("era", sample(ERAS, 2))
def test_no_answer_shows_whether_data_is_outside_or_missing(homes: Homes, era: str) -> None:
    nobodys = replace(homes.names.as_missing(), user=homes.names.user)
    elsewhere = replace(homes.names, user=homes.elsewhere_user, data_dir=homes.elsewhere.data_dir)
    answers: list[list[tuple[Any, str]]] = []
    for server, its in ((homes.server, homes.names), (homes.server, nobodys), (homes.elsewhere, elsewhere)):
        who = confined(server, its.user, era)
        listed = [substituted(uri, homes.names, its) for uri in homes.listed]
        responses = [
            (probe, who.ask(probe.method, probe.params, probe.session)) for probe in questions(who, listed, its)
        ]
        assert [probe.what for probe, answer in responses if SECRET in answer and SECRET not in str(probe)] == []
        masked = [(probe, comparable(answer, who, its, homes.names)) for probe, answer in responses]
        answers.append([(probe, answer.replace(who.namespace, "<own>")) for probe, answer in masked])

    with_anns, with_nobodys, without_ann = answers
    for (probe, answer), (_, of_nobodys), (_, answer_elsewhere) in zip(
        with_anns, with_nobodys, without_ann, strict=True
    ):
        assert without_suggestions(answer) == without_suggestions(of_nobodys), probe
        assert answer == answer_elsewhere, probe


def test_only_families_with_namespaces_are_open(homes: Homes) -> None:
    who = confined(homes.server, homes.names.user)
    own = {name for family in CONFINABLE for name, tool in FAMILIES[family].tools.items() if not tool.app_only}
    prefixes = tuple(prefix for family in CONFINABLE for prefix in FAMILIES[family].uri_prefixes)

    assert CONFINABLE == ("notes", "portals", "recall")
    assert names_of(who.http) == own
    made_up = json.dumps(bare_call(who.http, "made_up"))
    for name in sorted(set(CALLS) - own):
        assert json.dumps(bare_call(who.http, name)).replace(name, "made_up") == made_up, name
    templates = [one["uriTemplate"] for one in who.result("resources/templates/list")["resourceTemplates"]]
    assert templates == [template for template in ADDRESSES if template.startswith(prefixes)]
    assert "confined" in refusal(homes.server, "--namespace", "n", "--confined", "--families", "vault")


def refusal(server: Http, *arguments: str) -> str:
    done = CliRunner().invoke(
        cli, ["keys", "create", "--name", "x", *arguments, "--data-dir", str(server.data_dir)], env={"COLUMNS": "500"}
    )
    assert done.exit_code == 2
    return done.output


@dataclass(frozen=True)
class Mixed:
    """A namespace whose notes are linked with those of another."""

    who: Visitor
    inside: dict[str, str]
    outside: dict[str, str]


@pytest.fixture(scope="module")
def mixed(homes: Homes) -> Mixed:
    """Two notes inside, tied in every way to two outside; one note that came from outside, one that left."""
    ann, own, other = homes.ann, f"own-{uuid4().hex[:8]}", f"other-{uuid4().hex[:8]}"
    who = confined(homes.server, homes.names.user, namespace=own)
    outside: dict[str, Any] = {"namespace": other, "tags": ["wombat"]}
    first = call(ann, "memory_create", content="walnut one", title="first", namespace=own)["id"]
    far = call(ann, "memory_create", content="walnut wombat", title="wombat far", supersedes=[first], **outside)["id"]
    second = call(ann, "memory_create", content="walnut two", title="second", namespace=own, supersedes=[far])["id"]
    came = call(ann, "memory_create", content="walnut wombat came", title="came", **outside)["id"]
    call(ann, "memory_update", id=came, namespace=own, content="walnut came", tags=[])
    left = call(ann, "memory_create", content="walnut wombat left", title="wombat left", namespace=own)["id"]
    call(ann, "memory_update", id=left, namespace=other)
    for id_ in (first, came):
        call(ann, "memory_link", source_id=id_, target_id=far, bidirectional=True)
    call(ann, "memory_link", source_id=far, target_id=second)
    call(ann, "portal_write", portalUri=f"mem://{own}/p", table="t", data=[{"said": "walnut three"}])
    call(ann, "portal_write", portalUri=f"mem://{other}/p", table="t", data=[{"said": "walnut wombat"}])
    return Mixed(who, {"first": first, "second": second, "came": came}, {"far": far, "left": left, "namespace": other})


def test_data_inside_shows_no_links_to_the_outside(mixed: Mixed) -> None:
    http, ids = mixed.who.http, mixed.inside
    responses = [
        call(http, "memory_search", query="walnut"),
        call(http, "memory_search", tags=["memory"]),
        call(http, "memory_recent"),
        call(http, "memory_list_tags"),
        call(http, "memory_stats"),
        call(http, "recall_memories", query="walnut", limit=100),
        *(call(http, "memory_get", id=id_, include_links=True) for id_ in ids.values()),
        *(call(http, "memory_neighbors", id=id_, depth=3) for id_ in ids.values()),
        *(mixed.who.ask("resources/read", {"uri": f"memory://note/{id_}"}) for id_ in ids.values()),
        mixed.who.ask("resources/read", {"uri": "memory://recent"}),
        mixed.who.ask("resources/list", {}),
    ]
    output = json.dumps(responses)
    assert [text for text in ("wombat", *mixed.outside.values()) if text in output] == []
    assert {one["id"] for one in call(http, "memory_search", query="walnut")["memories"]} == set(ids.values())
    assert [node["id"] for node in call(http, "memory_neighbors", id=ids["first"], depth=3)["nodes"]] == [ids["first"]]
    assert call(http, "memory_get", id=ids["first"], include_links=True)["links"]["outgoing"] == []
    assert call(http, "memory_get", id=ids["first"])["superseded_by"] is None
    assert call(http, "memory_stats")["total"] == 3
    assert [one["count"] for one in call(http, "memory_list_namespaces")["namespaces"]] == [3]
    assert [
        hit["snippet"] for hit in call(http, "recall_memories", query="walnut three", families=["portals"])["hits"]
    ] == ["walnut three"]


def test_scores_do_not_reveal_words_outside(homes: Homes) -> None:
    """Of two words that one note each holds inside, one is also in many notes outside."""
    who = confined(homes.server, homes.names.user)
    portal = f"mem://{who.namespace}/p"
    for word in ("chestnut", "hazelnut"):
        call(who.http, "memory_create", content=f"{word} here")
    call(
        who.http, "portal_write", portalUri=portal, table="t", data=[{"said": "chestnut row"}, {"said": "hazelnut row"}]
    )

    def rows() -> list[dict[str, Any]] | None:
        """Once all of them are indexed."""
        found = call(who.http, "recall_memories", query="chestnut hazelnut", families=["portals"])
        return None if found["incomplete"] else found["hits"]

    def scores() -> list[float]:
        notes = call(who.http, "memory_search", query="chestnut hazelnut")["memories"]
        return sorted(hit["score"] for hit in [*notes, *eventually(rows)])

    before = scores()
    for number in range(20):
        call(homes.ann, "memory_create", content=f"chestnut {number} and more", namespace="elsewhere")
    outside = [{"said": f"chestnut {number}"} for number in range(20)]
    call(homes.ann, "portal_write", portalUri="mem://elsewhere/p", table="t", data=outside)
    assert len(before) == 4
    assert scores() == before


def test_versions_from_before_a_move_are_not_found(mixed: Mixed) -> None:
    answers = [
        mixed.who.ask(
            "tools/call", {"name": "memory_get", "arguments": {"id": mixed.inside["came"], "version": version}}
        )
        for version in (1, 9)
    ]
    assert "not_found" in answers[0]
    assert answers[0].replace("version 1", "version 9") == answers[1]


@pytest.mark.parametrize(
    "arguments",
    [
        {"name": "memory_create", "arguments": {"content": "x", "namespace": "{}"}},
        {"name": "memory_update", "arguments": {"id": "first", "namespace": "{}"}},
        {"name": "portal_write", "arguments": {"portalUri": "mem://{}/p", "table": "t", "data": [{"a": 1}]}},
        {"name": "portal_import", "arguments": {"portalUri": "mem://{}/p", "source": "a.csv", "format": "csv"}},
    ],
)
def test_nothing_is_written_outside(mixed: Mixed, homes: Homes, arguments: dict[str, Any]) -> None:
    def answer(namespace: str) -> str:
        probe = json.dumps(arguments).replace("{}", namespace).replace('"first"', f'"{mixed.inside["first"]}"')
        return mixed.who.ask("tools/call", json.loads(probe)).replace(namespace, "<namespace>")

    missing = f"other-{uuid4().hex[:8]}"
    before = call(homes.ann, "memory_stats", namespace=mixed.outside["namespace"])
    assert "not_found" in answer(mixed.outside["namespace"])
    assert answer(mixed.outside["namespace"]) == answer(missing)
    assert call(homes.ann, "memory_stats", namespace=mixed.outside["namespace"]) == before
    assert call(homes.ann, "memory_stats", namespace=missing)["total"] == 0
    assert missing not in json.dumps(everything_listed(Visitor(homes.ann, homes.names.user, "2026-07-28")))


def test_inside_everything_works(homes: Homes) -> None:
    who = confined(homes.server, homes.names.user)
    http, own = who.http, who.namespace
    note = call(http, "memory_create", content="plain [[other]]", title="note")
    other = call(http, "memory_create", content="plain", title="other", namespace=own)
    assert note["namespace"] == other["namespace"] == own
    assert call(http, "memory_link", source_id=other["id"], target_id=note["id"]) == {"linked": 1}
    assert len(call(http, "memory_neighbors", id=note["id"])["nodes"]) == 2
    assert call(http, "memory_update", id=note["id"], namespace=own, add_tags=["t"])["namespace"] == own
    assert call(http, "memory_search", query="plain", namespace=own)["memories"]
    assert call(http, "memory_delete", id=other["id"])["deleted"]
    portal = {"portalUri": f"mem://{own}/p"}
    call(http, "portal_write", **portal, table="t", data=[{"id": 1, "said": "plain"}])
    assert call(http, "portal_query", **portal, sql="SELECT said FROM t")["rows"] == [{"said": "plain"}]


def test_files_are_shared_with_no_other_key(homes: Homes) -> None:
    who = confined(homes.server, homes.names.user)
    http, its = who.http, homes.names
    portal = {"portalUri": f"mem://{who.namespace}/p"}
    call(http, "portal_write", **portal, table="t", data=[{"id": 1, "said": "plain"}])
    call(http, "portal_export", **portal, destination=its.file, format="csv", table="t")  # Ann has one of this name
    folder = its.data_dir / "users" / its.user
    assert (folder / "exports" / "namespaces" / who.namespace / its.file).read_text().splitlines()[1:] == ['1,"plain"']
    answer = who.ask(
        "tools/call", {"name": "portal_import", "arguments": portal | {"source": its.file, "format": "csv"}}
    )
    assert "not_found" in answer
    own = folder / "imports" / "namespaces" / who.namespace
    own.mkdir(parents=True)
    (own / its.file).write_text("id,said\n2,mine\n")
    assert call(http, "portal_import", **portal, source=its.file, format="csv", table="t")["imported"] == 1


@pytest.mark.parametrize("era", sample(ERAS, 2))
def test_a_confined_client_gets_no_notifications_from_outside(homes: Homes, era: str) -> None:
    who = confined(homes.server, homes.names.user, era)
    shared, *own_tags = (f"memory://tag/{name}" for name in (homes.names.tag, "first", "next", "last"))
    own = call(who.http, "memory_create", content="mine", tags=[homes.names.tag])["id"]
    prefixes = ("memory://note", "memory://tag", "memory://recent", "mem:")
    watched = [f"memory://note/{own}", shared, *own_tags, *homes.listed]
    with ear(who, [uri for uri in dict.fromkeys(watched) if uri.startswith(prefixes)]) as heard:
        for name in ("first", "next"):  # the last notifications of the creation arrive before the second of them
            call(who.http, "memory_update", id=own, add_tags=[name])
            assert any(uri == f"memory://tag/{name}" for _, uri in heard)
        write_everywhere(homes.ann, homes.names)
        call(homes.ann, "memory_get", id=homes.names.note)
        call(homes.ann, "memory_link", source_id=homes.names.note, target_id=own)
        call(who.http, "memory_update", id=own, add_tags=["last"])
        responses = list(takewhile(lambda news: news[1] != own_tags[-1], heard))
    assert {uri for _, uri in responses} <= {"memory://recent", f"memory://note/{own}", shared, *own_tags}


def test_keys_say_whether_they_are_confined(homes: Homes) -> None:
    data_dir = str(homes.server.data_dir)
    done = CliRunner().invoke(
        cli, ["keys", "create", "--name", "narrow", "--namespace", "work", "--confined", "--data-dir", data_dir]
    )
    assert "'work'" in done.stderr
    assert "notes, portals, recall" in done.stderr
    assert done.stdout.startswith("mmcp_")
    listed = {key["name"]: key for key in made(homes.server.data_dir, "keys", "list")["keys"]}
    assert (listed["narrow"]["confined"], listed["narrow"]["families"]) == (True, ["notes", "portals", "recall"])


def test_rest_creates_confined_keys(homes: Homes) -> None:
    _, browser = person(homes.server)
    with closing(browser):
        probe = {"name": "narrow", "namespace": "work", "confined": True}
        key = browser.post("/api/mcp/keys", json=probe).json()
        wide = browser.post("/api/mcp/keys", json={"name": "wide"}).json()
        refused = browser.post("/api/mcp/keys", json=probe | {"families": ["vault"]})
        shown = browser.get("/api/mcp/keys").json()["keys"]
    assert {one["name"]: one["confined"] for one in shown} == {"narrow": True, "wide": False}
    assert (key["families"], wide["families"]) == (["notes", "portals", "recall"], [])
    assert (refused.status_code, refused.json()["error"]) == (422, "invalid")
    http = replace(homes.server, key=key["key"])
    assert call(http, "memory_create", content="x")["namespace"] == "work"
    assert http.modern_call("memory_create", content="x", namespace="home")["error"] == "not_found"


def test_an_unconfined_key_sees_everything(homes: Homes) -> None:
    """Otherwise the other tests could pass because nothing is stored."""
    its: Names = homes.names
    assert ANNS in json.dumps(call(homes.ann, "memory_list_namespaces"))
    assert call(homes.ann, "memory_get", id=its.note)["namespace"] == its.namespace
    default_only = key_of(homes.server, "ann", "--namespace", "somewhere")
    assert call(default_only, "memory_get", id=its.note)["namespace"] == its.namespace
