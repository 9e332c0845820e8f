"""A month of demo data, for pictures: notes, facts, files, a graph and orders, by several clients."""

import random
import re
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from memory_mcp import settings
from memory_mcp.app import App, open_app
from memory_mcp.caller import ALL_SCOPES, LOCAL_USER, Caller
from memory_mcp.families.notes.model import Author, NewNote
from memory_mcp.families.registry import FAMILIES
from tests.events import eventually
from tests.web.conftest import Site

DAYS = 30
RESTART = "The staging server is restarted every night at {} o'clock."
VECTORS_TIMEOUT_S = 60.0
PORTAL = "mem://shop/orders"
ORDERS = 5_000
ME = Caller(LOCAL_USER, ALL_SCOPES, frozenset(FAMILIES))
CLIENTS = ("claude-code", "claude-code", "claude-code", "cursor", "claude-desktop", "zed")
NOTES = Path(__file__).with_name("demo_notes.md")  # each under a heading: its namespace and its title
THINGS = {
    "Ann": "person",
    "Bob": "person",
    "checkout": "service",
    "billing": "service",
    "queue": "service",
    "Postgres": "database",
}
OBSERVED = {
    "Ann": ["leads checkout", "likes tea, maps and short meetings"],
    "billing": ["sends invoices at night", "moved to the new queue in October"],
}
TIES = (
    ("Ann", "checkout", "owns"),
    ("Bob", "billing", "owns"),
    ("checkout", "queue", "writes to"),
    ("billing", "queue", "reads from"),
    ("billing", "Postgres", "stores in"),
)
FILES = {
    "people/ann": "# Ann\n\nLeads checkout. Likes tea, maps and short meetings.",
    "people/bob": "# Bob\n\nLeads billing. On call every second week.",
    "projects/checkout/plan": "# Plan\n\n1. Measure\n2. Cache\n3. Measure again",
    "projects/checkout/notes": "# Notes\n\nThe report job was the culprit.",
    "recipes/bread": "# Bread\n\n| what | how much |\n|---|---|\n| flour | 500 g |\n| water | 350 g |\n| salt | 10 g |",
}


@dataclass
class Past:
    """A clock for what happened before now."""

    now: datetime = field(default_factory=lambda: datetime.now(UTC) - timedelta(days=DAYS))

    def __call__(self) -> datetime:
        return self.now


def live_a_month(data_dir: Path) -> None:
    """Notes that come day by day, and the calls of a working week."""
    clock, lot = Past(), random.Random(7)
    loaded = settings.load({"data_dir": data_dir, "durability": "normal"}, environ={})
    notes = re.findall(
        r"^## (\w+): ([^\n]+)\n\n(.+?)\n*(?=^## |\Z)", NOTES.read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    with open_app(loaded.settings, clock=clock) as app:
        for day in range(DAYS):
            for namespace, title, content in notes[day * len(notes) // DAYS : (day + 1) * len(notes) // DAYS]:
                new = NewNote(content, title=title, namespace=namespace, importance=round(lot.uniform(0.3, 0.9), 1))
                client = lot.choice(CLIENTS)
                app.notes.writer.create(replace(ME, client=client), Author("mcp", client), new)
            wait_for_vectors(app)
            work_a_day(app, clock, lot)


def work_a_day(app: App, clock: Past, lot: random.Random) -> None:
    is_free = clock.now.weekday() >= 5
    for hour in range(24):
        busy = (3 if is_free else 40) if 8 <= hour <= 18 else 2
        for _ in range(lot.randint(0, busy)):
            app.analytics.count(LOCAL_USER, is_error=lot.random() < 0.03)
        app.analytics.flush()
        clock.now += timedelta(hours=1)


def wait_for_vectors(app: App) -> None:
    """If there is an embedder."""
    eventually(lambda: not (app.notes.reader.embed_stats(ME).enabled and app.notes.reader.totals(ME).waiting))


def fill(site: Site) -> None:
    """What the other families keep, and notes that need attention."""
    for hour in ("two", "four"):
        site.call("memory_create", title="Nightly restart", content=RESTART.format(hour), namespace="work")
    plan = site.call("memory_create", title="Team lunch", content="Team lunch is on Mondays.", namespace="work")
    site.call(
        "memory_create",
        title="Lunch now on Thursdays",
        content="Since March the team eats together on Thursdays, in the canteen.",
        namespace="work",
        supersedes=[plan["id"]],
    )
    for key, content in {"favourite-tea": "Darjeeling", "editor": "Zed, dark", "deploy": "make release"}.items():
        site.call("commit_memory", scope="vault", key=key, content=content)
    for path, content in FILES.items():
        site.call("add_memory", store="default", path=path, content=content, tags=[path.split("/")[0]])
    site.call("create_project", name="shop")
    entities = [
        {"name": name, "entity_type": kind, "observations": OBSERVED.get(name, [])} for name, kind in THINGS.items()
    ]
    site.call("create_entities", project="shop", entities=entities)
    relations = [{"from": one, "to": other, "relation_type": kind} for one, other, kind in TIES]
    site.call("create_relations", project="shop", relations=relations)
    site.call("portal_write", portalUri=PORTAL, table="orders", data=orders())
    for name, scopes in {"laptop": ["read_memory", "write_memory"], "phone": ["read_memory"]}.items():
        made = site.me.post("/api/mcp/keys", json={"name": name, "scopes": scopes, "expires": "90d"})
        assert made.status_code == 201, made.text


def orders() -> list[dict[str, Any]]:
    lot, start = random.Random(11), datetime(2026, 1, 1, tzinfo=UTC)
    things = {"tea": 9.5, "map": 14.0, "cup": 7.25, "bread": 4.2, "bicycle bell": 12.9}
    bought = (lot.choice(list(things)) for _ in range(ORDERS))
    return [
        {
            "id": number,
            "buyer": lot.choice(["Ann", "Bob", "Cleo", "Dan", "Eve"]),
            "thing": thing,
            "price": round(things[thing] * lot.choice([1, 1, 2, 3]), 2),
            "bought_at": (start + timedelta(hours=number * 1.5)).isoformat(),
        }
        for number, thing in enumerate(bought, 1)
    ]
