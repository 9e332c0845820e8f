"""Lists for people, over a real server: notes by what is known of them, and what was written last in every family."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.server.test_rest import Person, cli, signed_in
from tests.wire import Http, http_server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Http]:
    with http_server(tmp_path_factory.mktemp("lists"), "--embedder", "none") as running:
        yield running


@pytest.fixture(scope="module")
def me(server: Http) -> Person:
    person = signed_in(server, server.link)
    for number in range(7):
        call(
            person,
            "memory_create",
            title=f"Note {number}",
            content=f"Words {number} #{'odd' if number % 2 else 'even'}",
            namespace="work" if number < 3 else "home",
            folder="plans" if number == 5 else "",
            importance=number / 10,
        )
    gone = call(person, "memory_create", title="Gone", content="Was here once")
    call(person, "memory_delete", id=gone["id"])
    call(person, "commit_memory", scope="vault", key="tea", content="Darjeeling")
    call(person, "add_memory", store="default", path="people/bob", content="Bob leads.")
    call(person, "create_project", name="house")
    call(person, "create_entities", project="house", entities=[{"name": "Hall", "entity_type": "place"}])
    call(person, "portal_write", portalUri="mem://tests/shop", table="orders", data=[{"id": 1}])
    return person


def call(person: Person, tool: str, **arguments: object) -> dict[str, Any]:
    answer = person.ask("POST", f"/api/tools/{tool}", json=arguments)
    assert answer.status_code == 200, answer.text
    data: dict[str, Any] = answer.json()
    return data


def titles(person: Person, query: str = "") -> list[str]:
    answer = person.ask("GET", f"/api/notes?{query}")
    assert answer.status_code == 200, answer.text
    return [note["title"] for note in answer.json()["notes"]]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", [6, 5, 4, 3, 2, 1, 0]),
        ("namespace=work", [2, 1, 0]),
        ("folder=plans", [5]),
        ("title=note%20%205", [5]),
        ("title=note%205&namespace=work", []),
        ("title=note", []),
        ("tag=odd", [5, 3, 1]),
        ("tag=odd&tag=even", []),
        ("tag=odd&namespace=home&min_importance=0.4", [5]),
        ("source=ui&min_importance=0.6", [6]),
        ("source=import", []),
        ("since=2020-01-01&until=9999-12-31&folder=plans", [5]),
        ("until=2020-01-01", []),
        ("q=words&folder=plans", [5]),
        ("client=web-app&folder=plans", [5]),
        ("client=zed", []),
        ("order=created&namespace=home", [6, 5, 4, 3]),
        ("order=oldest", [0, 1, 2, 3, 4, 5, 6]),
        ("order=title&offset=5", [5, 6]),
        ("order=importance&limit=2&offset=1", [5, 4]),
        ("offset=5", [1, 0]),
        ("offset=70", []),
    ],
)
def test_notes_are_listed_by_filter(me: Person, query: str, expected: list[int]) -> None:
    assert titles(me, query) == [f"Note {number}" for number in expected]


def test_deleted_notes_have_a_list_of_their_own(me: Person) -> None:
    assert titles(me, "archived=true") == ["Gone"]
    assert titles(me, "archived=true&q=ONCE") == ["Gone"]
    assert titles(me, "archived=true&q=twice") == []


@pytest.mark.parametrize("query", ["", "archived=false&tag=even", "min_importance=0.1"])
def test_pages_follow_one_another(me: Person, query: str) -> None:
    seen: list[str] = []
    after = ""
    while True:
        page = me.ask("GET", f"/api/notes?{query}&limit=2{after}").json()
        seen += [note["title"] for note in page["notes"]]
        if page["next"] is None:
            break
        after = f"&after={page['next']}"
    assert seen == titles(me, query)


def test_notes_are_counted_by_their_properties(me: Person) -> None:
    def facets(query: str) -> dict[str, Any]:
        found: dict[str, Any] = me.ask("GET", f"/api/notes/facets?{query}").json()
        return found

    everything = facets("")
    assert (everything["total"], everything["namespaces"]) == (7, {"home": 4, "work": 3})
    assert everything["tags"] == {"even": 4, "odd": 3}  # no tag that the server adds
    assert (everything["clients"], everything["sources"]) == ({"web-app": 7}, {"ui": 7})
    assert sum(everything["days"].values()) == 7
    odd = facets("namespace=work&tag=odd&until=2020-01-01")
    assert (odd["total"], odd["namespaces"], sum(odd["days"].values())) == (0, {}, 1)  # the other choices
    assert facets("namespace=work")["namespaces"] == {"home": 4, "work": 3}
    assert facets("archived=true&q=once")["total"] == 1
    hits = me.ask("GET", "/api/notes?q=note&namespace=home&limit=2").json()["notes"]
    of_hits = facets("&".join(f"id={hit['id']}" for hit in hits))
    assert (of_hits["total"], of_hits["namespaces"]) == (2, {"home": 2})
    assert facets("id=unknown")["total"] == 0


def test_notes_that_need_attention_are_counted_and_listed(server: Http) -> None:
    cli(server.data_dir, "users", "add", "attentive")
    other = signed_in(server, cli(server.data_dir, "users", "link", "attentive")["link"])
    texts = ("Rent is due on Monday", "Rent is due on Friday", "rent is due  on friday")
    ids = [call(other, "memory_create", content=text)["id"] for text in texts]
    call(other, "memory_update", id=ids[1], supersedes=[ids[0]])
    call(other, "memory_create", title="Over", content="Was due once", expires_at="2020-01-01T00:00:00Z")
    found = other.ask("GET", "/api/notes/attention").json()
    assert found == {"superseded": 1, "expired": 1, "unembedded": 4}
    assert titles(other, "state=superseded") == ["Rent is due on Monday"]
    assert titles(other, "state=expired") == ["Over"]
    assert len(titles(other, "state=unembedded")) == 3
    assert other.ask("GET", "/api/notes/facets?state=expired").json()["total"] == 1
    [pair] = other.ask("GET", "/api/notes/pairs").json()["pairs"]
    assert (pair["kind"], {pair["newer"]["id"], pair["older"]["id"]}) == ("same", set(ids[1:]))
    assert other.ask("GET", "/api/notes/pairs?after=x").status_code == 422


def test_several_memories_are_changed_deleted_and_restored(me: Person) -> None:
    ids = [call(me, "memory_create", content=f"Batch {n}", namespace=f"n{n % 2}", importance=0.9)["id"] for n in (0, 1)]
    notes = [f"memory://note/{id_}" for id_ in ids]
    call(me, "memory_update", id=ids[0], add_tags=["Red"])

    def ask(path: str, **body: Any) -> dict[str, Any]:
        answer = me.ask("POST", f"/api/{path}", json=body)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def dates() -> list[tuple[str, str]]:
        found = [call(me, "memory_get", id=id_) for id_ in ids]
        return [(one["created_at"], one["updated_at"]) for one in found]

    before = dates()
    changed = ask("notes/change", refs=[*notes, "memory://note/none"], add_tags=["red", "new"], namespace="n0")
    assert (changed["refs"], [one["ref"] for one in changed["refused"]]) == (notes, ["memory://note/none"])
    assert titles(me, "namespace=n0&tag=red&tag=new") == ["Batch 1", "Batch 0"]
    assert changed["undo"] == [{"ref": notes[0], "version": 2}, {"ref": notes[1], "version": 1}]
    assert ask("notes/revert", notes=changed["undo"]) == {"refs": notes, "refused": []}
    assert (titles(me, "namespace=n0&tag=red"), titles(me, "namespace=n1")) == (["Batch 0"], ["Batch 1"])
    assert dates() == before
    again = ask("notes/revert", notes=changed["undo"])  # by now, another version is the last one
    assert (again["refs"], [one["ref"] for one in again["refused"]]) == ([], notes)

    call(me, "commit_memory", scope="vault", key="batch", content="A fact")
    refs = [*notes, "memory://vault/batch"]
    assert ask("memories/delete-many", refs=refs) == {"refs": refs, "refused": []}
    assert titles(me, "namespace=n0") == []
    assert ask("memories/restore-many", refs=refs) == {"refs": refs, "refused": []}
    assert [call(me, "memory_get", id=id_)["importance"] for id_ in ids] == [0.9, 0.9]
    assert dates() == before
    ask("memories/delete-many", refs=refs)


@pytest.mark.parametrize("query", ["after=x", "limit=0", "since=soon", "source=stranger", "min_importance=2"])
def test_bad_queries_are_refused(me: Person, query: str) -> None:
    assert me.ask("GET", f"/api/notes?{query}").status_code == 422


def test_recent_writes_show_every_family_and_no_other_user(server: Http, me: Person) -> None:
    found = me.ask("GET", "/api/recent?limit=100").json()
    assert {one["family"] for one in found["writes"]} == {"notes", "vault", "stores", "graph", "portals"}
    assert found["incomplete"] == []
    times = [one["at"] for one in found["writes"]]
    assert times == sorted(times, reverse=True)
    for one in found["writes"]:
        assert me.ask("GET", "/api/open", params={"ref": one["ref"]}).status_code == 200, one
    assert me.ask("GET", "/api/recent?limit=2&offset=1").json()["writes"] == found["writes"][1:3]
    assert [one["title"] for one in me.ask("GET", "/api/recent?family=graph").json()["writes"]] == ["Hall"]

    texts = {one["title"]: one for one in me.ask("GET", "/api/recent?limit=100&text=true").json()["writes"]}
    assert (texts["tea"]["text"], texts["tea"]["client"]) == ("Darjeeling", None)
    assert (texts["Note 1"]["text"], texts["Note 1"]["source"]) == ("Words 1 #odd", "ui")
    origins = {one["family"]: one["origin"] for one in texts.values()}
    assert origins == {
        "notes": "web app",
        "vault": "web app",
        "stores": "web app",
        "graph": "web app",
        "portals": "web app",
    }
    assert {one["origin"] for one in found["writes"]} == {None}, "only with their text"

    cli(server.data_dir, "users", "add", "ann")
    ann = signed_in(server, cli(server.data_dir, "users", "link", "ann")["link"])
    assert ann.ask("GET", "/api/recent").json() == {"writes": [], "incomplete": []}
    assert ann.ask("GET", "/api/notes").json() == {"notes": [], "next": None}


def test_who_wrote_a_memory_is_shown_of_every_family(server: Http, me: Person) -> None:
    def writes(ref: str) -> list[tuple[str, str, str]]:
        answer = me.ask("GET", "/api/memories/writes", params={"ref": ref})
        assert answer.status_code == 200, answer.text
        return [(one["action"], one["origin"], one["title"]) for one in answer.json()["writes"]]

    server.modern_call("commit_memory", scope="vault", key="desk", content="second floor")
    call(me, "commit_memory", scope="vault", key="desk", content="third floor")
    client = "wire with key first start"
    assert [one[:2] for one in writes("memory://vault/desk")] == [("updated", "web app"), ("created", client)]
    for project in ("farm", "barn"):
        call(me, "create_project", name=project)
        call(me, "create_entities", project=project, entities=[{"name": "Cow", "entity_type": "animal"}])
    observations = [{"entity_name": "Cow", "contents": ["says moo"]}]
    server.modern_call("add_observations", project="barn", observations=observations)
    assert writes("graph:barn/Cow") == [("created", client, "Cow: says moo"), ("created", "web app", "Cow (animal)")]
    assert writes("graph:farm/Cow") == [("created", "web app", "Cow (animal)")]
    call(me, "add_memory", store="default", path="people/eve-2", content="Eve")
    assert [one[:2] for one in writes("stores:default/people/eve-2")] == [("created", "web app")]
    assert writes("memory://vault/nothing") == []
    assert me.ask("GET", "/api/memories/writes", params={"ref": "what"}).status_code == 404


def test_a_project_is_drawn_from_its_best_connected_entities(server: Http, me: Person) -> None:
    call(me, "create_project", name="town")
    call(
        me, "create_entities", project="town", entities=[{"name": n, "entity_type": "t"} for n in ("a", "b", "c", "d")]
    )
    ties = [{"from": "a", "to": "d", "relation_type": "r"}, {"from": "b", "to": "d", "relation_type": "s"}]
    call(me, "create_relations", project="town", relations=ties)
    drawn = me.ask("GET", "/api/graph/town?limit=2").json()
    assert [(node["name"], node["degree"]) for node in drawn["nodes"]] == [("d", 2), ("a", 1)]
    assert drawn["edges"] == [{"source": "a", "target": "d", "type": "r"}]
    assert drawn["total"] == 4
    around = me.ask("GET", "/api/graph/town?around=a").json()
    assert [(node["name"], node["degree"]) for node in around["nodes"]] == [("a", 1), ("d", 2)]
    assert around["edges"] == [{"source": "a", "target": "d", "type": "r"}]
    for path in ("nowhere", "town?around=x"):
        assert me.ask("GET", f"/api/graph/{path}").status_code == 404


def test_a_graph_of_notes_has_the_best_connected_with_all_their_links(me: Person) -> None:
    hub = call(me, "memory_create", content="Hub", namespace="hub")["id"]
    ids = [call(me, "memory_create", content=f"See [[Hub]] {n}", namespace="hub")["id"] for n in range(3)]
    call(me, "memory_link", source_id=ids[0], target_id=ids[1])
    drawn = me.ask("GET", "/api/notes/graph?limit=2").json()
    assert [(node["id"], node["degree"]) for node in drawn["nodes"]] == [(hub, 3), (ids[1], 2)]
    assert drawn["edges"] == [{"source_id": ids[1], "target_id": hub}]
    assert drawn["total"] >= 4
    around = me.ask("GET", f"/api/notes/graph?around={ids[2]}&depth=2").json()
    shown = [(node["id"], node["degree"], node["depth"]) for node in around["nodes"]]
    assert shown == [(hub, 3, 1), (ids[0], 2, 2), (ids[1], 2, 2), (ids[2], 1, 0)]
    assert len(around["edges"]) == 4
    assert me.ask("GET", "/api/notes/graph?around=none").status_code == 404
    call(me, "memory_delete", id=ids[0])
    drawn = me.ask("GET", "/api/notes/graph?limit=2").json()
    assert [(node["id"], node["degree"]) for node in drawn["nodes"]] == [(hub, 2), (ids[2], 1)]  # an archived note


def kept(me: Person, address: str) -> dict[str, str]:
    """A file of a store, as it can be put back."""
    was = me.ask("GET", address).json()
    return {"data": was["data"], "changed_ns": was["changed_ns"]}


def test_a_deleted_store_file_is_restored_and_overwrites_nothing(server: Http, me: Person) -> None:
    place, file = "/api/stores/default/file", server.data_dir / "stores" / "default" / "people" / "eve.md"
    file.write_bytes("---\ncolour: grün\n---\n\nEve\r\n".encode())
    before, changed = file.read_bytes(), file.stat().st_mtime_ns
    was = kept(me, f"{place}?path=people/eve")
    there = me.ask("POST", place, json={"path": "people/eve", **was})
    assert (there.status_code, there.json()["error"]) == (409, "conflict")
    call(me, "remove_memory", store="default", path="people/eve")
    assert me.ask("GET", f"{place}?path=people/eve").status_code == 404

    back = me.ask("POST", place, json={"path": "people/eve", **was})
    assert (back.status_code, back.json()) == (201, {"store": "default", "path": "people/eve"})
    assert (file.read_bytes(), file.stat().st_mtime_ns) == (before, changed)
    for path in ("../eve", "/etc/eve", "people/../../eve"):
        assert me.ask("POST", place, json={"path": path, **was}).status_code == 422
    nobodys = me.ask("POST", "/api/stores/nobodys/file", json={"path": "people/eve", **was})
    assert nobodys.status_code == 404


def test_a_file_that_is_not_utf_8_is_restored_byte_for_byte(server: Http, me: Person) -> None:
    place, file = "/api/stores/default/file", server.data_dir / "stores" / "default" / "people" / "latin.md"
    file.write_bytes("Zoë".encode("latin-1"))
    was = kept(me, f"{place}?path=people/latin")
    call(me, "remove_memory", store="default", path="people/latin")
    assert me.ask("POST", place, json={"path": "people/latin", **was}).status_code == 201
    assert file.read_bytes() == "Zoë".encode("latin-1")


def test_only_store_files_are_restored(server: Http, me: Person) -> None:
    place = "/api/stores/default/file"
    half = r'{"path": "%s", "data": "%s", "changed_ns": "1"}'
    for path, data in ((r"people/\ud800", "YQ=="), ("people/half", r"\ud800"), ("people/half", "no base64")):
        answer = me.ask("POST", place, content=half % (path, data), headers={"Content-Type": "application/json"})
        assert answer.status_code == 422, answer.text
    assert me.ask("POST", place, json={"path": "C:\\x", "data": "YQ==", "changed_ns": "1"}).status_code == 422


def test_files_that_cannot_be_restored_say_so(server: Http, me: Person) -> None:
    folder = server.data_dir / "stores" / "default"
    (folder / f"{'n' * 130}.md").write_text("named elsewhere", encoding="utf-8")
    (folder / "long.md").write_text("x" * 4_000_000, encoding="utf-8")
    (folder / "plain.md").write_text("x", encoding="utf-8")
    comes_back = {
        path: me.ask("GET", "/api/stores/default/file", params={"path": path}).json()["comes_back"]
        for path in ("n" * 130, "long", "plain")
    }
    assert comes_back == {"n" * 130: False, "long": False, "plain": True}


def test_an_edit_does_not_overwrite_a_concurrent_change(server: Http, me: Person) -> None:
    place = "/api/stores/default/edit"
    call(me, "add_memory", store="default", path="people/kim", content="One")
    was = call(me, "get_memory", store="default", path="people/kim")["content"]
    mine = {"path": "people/kim", "content": "Two", "was": was}
    assert me.ask("POST", place, json=mine).status_code == 200
    late = me.ask("POST", place, json=mine | {"content": "Three"})
    assert (late.status_code, late.json()["error"]) == (409, "changed")
    assert call(me, "get_memory", store="default", path="people/kim")["content"].strip() == "Two"
    half = r'{"path": "people/kim", "content": "\ud800", "was": ""}'
    refused = me.ask("POST", place, content=half, headers={"Content-Type": "application/json"})
    assert refused.status_code == 422


def test_facts_and_entities_are_edited_deleted_and_restored_by_reference(server: Http, me: Person) -> None:
    entity, fact = "graph:village/Café", "memory://vault/tea%20time"
    call(me, "commit_memory", scope="vault", key="tea time", content="Four o'clock", tags=["day"])
    call(me, "create_project", name="village")
    entities = [
        {"name": "Café", "entity_type": "place", "observations": ["opens at \x7f 8"]},
        {"name": "Square", "entity_type": "place"},
    ]
    call(me, "create_entities", project="village", entities=entities)
    tie = {"from": "Café", "to": "Square", "relation_type": "is on"}
    call(me, "create_relations", project="village", relations=[tie])
    cli(server.data_dir, "users", "add", "stranger")
    stranger = signed_in(server, cli(server.data_dir, "users", "link", "stranger")["link"])
    for ref, was, text in (
        (fact, "Four o'clock", "Five"),
        (entity, '["opens at \\u007f 8"]', '["opens at 9", "x: y"]'),
    ):
        edit = {"ref": ref, "was": was, "text": text}
        assert me.ask("POST", "/api/memories/edit", json=edit).status_code == 200
        late = me.ask("POST", "/api/memories/edit", json=edit)
        assert (late.status_code, late.json()["error"]) == (409, "changed")
        before = me.ask("GET", "/api/open", params={"ref": ref}).json()
        deleted = me.ask("POST", "/api/memories/delete", json={"ref": ref})
        assert deleted.status_code == 200, deleted.text
        assert me.ask("GET", "/api/open", params={"ref": ref}).status_code == 404
        assert stranger.ask("POST", "/api/memories/restore", json=deleted.json()).status_code == 404
        assert me.ask("POST", "/api/memories/restore", json=deleted.json()).json()["lost"] is None
        assert timeless(me.ask("GET", "/api/open", params={"ref": ref}).json()) == timeless(before)
        again = me.ask("POST", "/api/memories/restore", json=deleted.json())
        assert again.status_code == 404
    logged = me.ask("GET", "/api/mcp/audit?limit=5").json()["entries"]
    assert [one["details"]["arguments"] for one in logged if one["action"] == "delete_memory"] == [
        {"ref": "graph:village/Caf%C3%A9"},
        {"ref": fact},
    ]
    for ref, status in (("graph:village", 422), ("mem://tests/shop", 422), ("memory://vault/none", 404)):
        assert me.ask("POST", "/api/memories/delete", json={"ref": ref}).status_code == status


def timeless(value: Any) -> Any:
    """Without ids and times, which a restored entity has new."""
    if isinstance(value, dict):
        return {name: timeless(one) for name, one in value.items() if name not in ("id", "created_at", "updated_at")}
    return [timeless(one) for one in value] if isinstance(value, list) else value
