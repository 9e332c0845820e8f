"""The graph against a plain model of it in memory, with restarts in between."""

import shutil
import tempfile
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path

import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from memory_mcp import settings
from memory_mcp.app import App, open_app
from memory_mcp.caller import ALL_SCOPES, LOCAL_USER, Caller
from memory_mcp.errors import Conflict, NotFound
from memory_mcp.families.graph.model import Facts, NamedRelation, NewEntity, Nodes
from memory_mcp.services.sessions import Connection, Session
from tests.exhaustive import rounds

ME = Caller(LOCAL_USER, ALL_SCOPES, frozenset({"graph"}))
HERE = Session("s", Connection(LOCAL_USER, "s"))

names = st.sampled_from(["ann", "bob", "cy", "dee"])
facts = st.sampled_from(["tall oak", "red brick", "green gate"])
kinds = st.sampled_from(["knows", "likes"])


class GraphMachine(RuleBasedStateMachine):
    app: App

    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.entities: dict[str, set[str]] = {}
        self.relations: set[tuple[str, str, str]] = set()
        self.archived = False
        self.stack = ExitStack()
        self.open()
        self.app.graph.create_project(ME, HERE, "p", "")

    def open(self) -> None:
        chosen = settings.load({"data_dir": self.folder, "families": "graph", "embedder": "none"}, environ={})
        self.app = self.stack.enter_context(open_app(chosen.settings))

    def teardown(self) -> None:
        if hasattr(self, "stack"):
            self.stack.close()
            shutil.rmtree(self.folder)

    @rule()
    def restart(self) -> None:
        self.stack.close()
        self.open()

    @rule()
    def archive(self) -> None:
        with self.refused_if(self.archived):
            self.app.graph.archive_project(ME, "p")
        self.archived = True

    @rule()
    def restore(self) -> None:
        with self.refused_if(not self.archived):
            self.app.graph.restore_project(ME, "p")
        self.archived = False

    @precondition(lambda self: self.archived)
    @rule(name=names)
    def nothing_can_be_done_with_what_is_archived(self, name: str) -> None:
        for attempt in (
            lambda: self.app.graph.create_entities(ME, HERE, "p", [NewEntity(name, "kind")]),
            lambda: self.app.graph.delete_entities(ME, HERE, "p", [name]),
            lambda: self.app.graph.search(ME, HERE, "p", name, 50),
            lambda: self.app.graph.switch_project(ME, HERE, "p"),
        ):
            with pytest.raises(Conflict):
                attempt()

    @staticmethod
    def refused_if(refused: bool) -> AbstractContextManager[object]:
        return pytest.raises(Conflict) if refused else nullcontext()

    @precondition(lambda self: not self.archived)
    @rule(new=st.lists(st.tuples(names, st.lists(facts, max_size=3)), min_size=1, max_size=3))
    def create(self, new: list[tuple[str, list[str]]]) -> None:
        new_entities = [NewEntity(name, "kind", tuple(observations)) for name, observations in new]
        made = self.app.graph.create_entities(ME, HERE, "p", new_entities)
        expected = []
        for name, observations in new:
            if name in self.entities:
                expected.append(name)
            else:
                self.entities[name] = set(observations)
        assert made.skipped == expected

    @precondition(lambda self: not self.archived)
    @rule(name=names, contents=st.lists(facts, min_size=1, max_size=3))
    def observe(self, name: str, contents: list[str]) -> None:
        new_facts = [Facts(name, tuple(contents))]
        if name not in self.entities:
            with pytest.raises(NotFound):
                self.app.graph.add_observations(ME, HERE, "p", new_facts)
            return
        added = self.app.graph.add_observations(ME, HERE, "p", new_facts)
        assert {one.content for one in added.observations} == set(contents) - self.entities[name]
        self.entities[name] |= set(contents)

    @precondition(lambda self: not self.archived)
    @rule(one=names, other=names, kind=kinds)
    def relate(self, one: str, other: str, kind: str) -> None:
        new_relations = [NamedRelation(one, other, kind)]
        if {one, other} <= self.entities.keys():
            made = self.app.graph.create_relations(ME, HERE, "p", new_relations)
            assert len(made.relations) == ((one, other, kind) not in self.relations)
            self.relations.add((one, other, kind))
        else:
            with pytest.raises(NotFound):
                self.app.graph.create_relations(ME, HERE, "p", new_relations)

    @precondition(lambda self: not self.archived)
    @rule(name=names)
    def delete(self, name: str) -> None:
        count = self.app.graph.delete_entities(ME, HERE, "p", [name]).deleted_count
        assert count == (self.entities.pop(name, None) is not None)
        self.relations = {one for one in self.relations if name not in one[:2]}

    @precondition(lambda self: not self.archived)
    @rule(name=names, contents=st.lists(facts, min_size=1, max_size=2, unique=True))
    def forget(self, name: str, contents: list[str]) -> None:
        count = self.app.graph.delete_observations(ME, HERE, "p", [Facts(name, tuple(contents))]).deleted_count
        held = self.entities.get(name, set())
        assert count == len(held & set(contents))
        held -= set(contents)

    @precondition(lambda self: not self.archived)
    @rule(one=names, other=names, kind=kinds)
    def unrelate(self, one: str, other: str, kind: str) -> None:
        count = self.app.graph.delete_relations(ME, HERE, "p", [NamedRelation(one, other, kind)]).deleted_count
        assert count == ((one, other, kind) in self.relations)
        self.relations.discard((one, other, kind))

    @precondition(lambda self: not self.archived)
    @rule(fact=facts)
    def search(self, fact: str) -> None:
        found = self.app.graph.search(ME, HERE, "p", fact.split()[0], 50)
        assert {one.name for one in found.entities} == {name for name, held in self.entities.items() if fact in held}

    @invariant()
    def the_graph_is_the_model(self) -> None:
        if not hasattr(self, "app"):
            return
        if self.archived:
            with pytest.raises(Conflict):
                self.app.graph.read_graph(ME, HERE, "p", 0)
            return
        read = self.app.graph.read_graph(ME, HERE, "p", 0)
        assert {one.name: set(one.observations) for one in read.entities} == self.entities
        assert ties(read) == self.relations


def ties(nodes: Nodes) -> set[tuple[str, str, str]]:
    return {(one.source, one.target, one.relation_type) for one in nodes.relations}


TestGraph = GraphMachine.TestCase
TestGraph.settings = hypothesis_settings(max_examples=rounds(12, soak=50), stateful_step_count=30, deadline=None)
