"""The tasks, and what is there before the first of them. They run in this order, on one server."""

from typing import Any

from benchmarks.agents.model import Answers, Arguments, Step, first_hit, task

TRIP = "mem://travel/trips"
SALES = "mem://shop/sales"

SEED = (
    Step("memory_create", {"content": "The staging database is restored every Sunday at 03:00.", "title": "Staging"}),
    Step(
        "memory_create", {"content": "Alice likes green tea and dislikes coffee.", "title": "Alice", "tags": ["people"]}
    ),
    Step("memory_create", {"content": "Deploys are frozen in December.", "title": "Freeze", "namespace": "work"}),
    Step("memory_create", {"content": "The wifi password at the cabin is on the fridge.", "title": "Cabin"}),
    Step("memory_create", {"content": "Old plan: move to Lisbon in 2024.", "title": "Lisbon"}),
    Step(
        "commit_memory", {"scope": "vault", "key": "editor", "content": "The user prefers Vim.", "tags": ["preference"]}
    ),
    Step("commit_memory", {"scope": "vault", "key": "timezone", "content": "Europe/Zurich"}),
    Step("commit_memory", {"scope": "vault", "key": "shoe-size", "content": "43"}),
    Step("add_memory", {"store": "recipes", "path": "soups/leek", "content": "# Leek soup\n\nLeeks, potatoes, cream."}),
    Step("add_memory", {"store": "recipes", "path": "bread", "content": "# Bread\n\nFlour, water, salt, yeast."}),
    Step("create_project", {"name": "company"}),
    Step(
        "create_entities",
        {
            "project": "company",
            "entities": [
                {"name": "Bob", "entity_type": "person", "observations": ["works in Berlin", "speaks Polish"]},
                {"name": "Billing", "entity_type": "service", "observations": ["written in Go"]},
            ],
        },
    ),
    Step(
        "create_relations",
        {"project": "company", "relations": [{"from": "Bob", "to": "Billing", "relation_type": "maintains"}]},
    ),
    Step("switch_project", {"name": "company"}),
    Step(
        "portal_write",
        {
            "portalUri": SALES,
            "table": "orders",
            "data": [
                {"day": "2026-11-02", "customer": "Ann", "amount": 12},
                {"day": "2026-11-03", "customer": "Ben", "amount": 30},
                {"day": "2026-10-05", "customer": "Ann", "amount": 7},
            ],
        },
    ),
)


def _id(answers: Answers) -> Any:
    return first_hit(answers)["id"]


def _changed(**fields: Any) -> Any:
    """Arguments that change the note found by the step before."""

    def arguments(answers: Answers) -> Arguments:
        return {"id": _id(answers), **fields}

    return arguments


def _ref(answers: Answers) -> Arguments:
    return {"ref": first_hit(answers)["ref"]}


KEEP = "commit_memory memory_create add_memory create_entities add_observations"
FIND = "recall_memories memory_search search_memories search_nodes"

TASKS = (
    # Remember
    task(
        "remember",
        "Remember that my sister's birthday is on 4 May.",
        "4 May",
        Step("memory_create", {"content": "The user's sister has her birthday on 4 May."}),
        also=KEEP,
    ),
    task(
        "remember",
        "I prefer dark mode everywhere. Keep that in mind for good.",
        "true",
        Step("commit_memory", {"scope": "vault", "key": "theme", "content": "dark mode", "tags": "preference"}),
        also=KEEP,
    ),
    task(
        "remember",
        "Just for this session: I am working on ticket 4711.",
        "session",
        Step("commit_memory", {"scope": "session", "key": "ticket", "content": "4711"}),
    ),
    task(
        "remember",
        "Keep this for the project Apollo, in its own namespace: the launch is on 3 March 2027.",
        "apollo",
        Step("memory_create", {"content": "The launch is on 3 March 2027.", "namespace": "apollo"}),
        also=KEEP,
    ),
    task(
        "remember",
        "Note that our retro is on Fridays; tag it meetings and team.",
        "meetings",
        Step("memory_create", {"content": "Our retro is on Fridays.", "tags": ["meetings", "team"], "title": None}),
    ),
    task(
        "remember",
        "Remember until the end of 2026 that parking lot B is closed.",
        "2026-12-31",
        Step("memory_create", {"content": "Parking lot B is closed.", "expires_at": "2026-12-31"}),
        also=KEEP,
    ),
    task(
        "remember",
        "This matters a lot: never deploy on a Friday. Keep it with high importance.",
        "0.9",
        Step("memory_create", {"content": "Never deploy on a Friday.", "importance": "0.9"}),
    ),
    task(
        "remember",
        "Remember the wifi at the office: network 'blue', password 'heron'.",
        "heron",
        Step("memory_create", {"text": "Office wifi: network blue, password heron."}),
        also=KEEP,
    ),
    task(
        "remember",
        "Keep a note about the incident on Monday and link it to the note about staging.",
        "linked",
        Step("memory_search", {"query": "staging database"}),
        Step("memory_create", lambda answers: {"content": "Incident on Monday.", "metadata": {"about": _id(answers)}}),
        Step(
            "memory_link", lambda answers: {"source_id": answers[1]["id"], "target_id": answers[0]["memories"][0]["id"]}
        ),
        also="memory_create recall_memories",
    ),
    task(
        "remember",
        "My time zone is now America/New_York, no longer Zurich. Remember that under the same key.",
        "true",
        Step("commit_memory", {"scope": "vault", "key": "timezone", "content": "America/New_York"}),
        also="search_memories recall_memories",
    ),
    # Find
    task(
        "find",
        "What do we know about Alice's taste in drinks?",
        "green tea",
        Step("recall_memories", {"query": "What does Alice like to drink?"}),
        also=FIND,
    ),
    task("find", "Which editor do I prefer?", "Vim", Step("recall_memories", {"query": "preferred editor"}), also=FIND),
    task(
        "find",
        "What is kept in here altogether? Give me an overview.",
        "recipes",
        Step("recall_overview", {}),
        also="memory_stats",
    ),
    task(
        "find",
        "Find the leek soup recipe and read the whole of it.",
        "cream",
        Step("recall_memories", {"query": "leek soup recipe"}),
        Step("recall_open", _ref),
        also="get_memory list_memories",
    ),
    task(
        "find",
        "Look up everything tagged people.",
        "Alice",
        Step("memory_search", {"query": "", "tags": "people"}),
        also="recall_memories search_memories",
    ),
    task(
        "find",
        "When is the staging database restored?",
        "Sunday",
        Step("recall_memories", {"query": "when is the staging database restored", "limit": "5"}),
        also=FIND,
    ),
    task(
        "find",
        "What did I note in the namespace work?",
        "December",
        Step("memory_search", {"query": "", "namespace": "work"}),
        also="recall_memories memory_recent",
    ),
    task("find", "Which tags are in use?", "people", Step("memory_list_tags", {"namespace": None})),
    task("find", "What is my shoe size?", "43", Step("search_memories", {"query": "shoe size"}), also=FIND),
    task("find", "Find notes on Alice AND tea.", "Alice", Step("memory_search", {"query": "Alice AND tea"}), also=FIND),
    # Correct
    task(
        "correct",
        "Alice now likes oolong, not green tea. Correct that.",
        "oolong",
        Step("memory_search", {"query": "Alice tea"}),
        Step("memory_update", _changed(content="Alice likes oolong and dislikes coffee.")),
        also=FIND,
    ),
    task(
        "correct",
        "The deploy freeze note belongs in the namespace ops. Move it.",
        "ops",
        Step("memory_search", {"query": "deploys frozen December"}),
        Step("memory_update", _changed(namespace="ops")),
        also=FIND,
    ),
    task(
        "correct",
        "Add the tag travel to the note about the cabin.",
        "travel",
        Step("memory_search", {"query": "cabin wifi"}),
        Step("memory_update", _changed(add_tags="travel")),
        also=FIND,
    ),
    task(
        "correct",
        "Rename the note Staging to 'Staging restores'.",
        "Staging restores",
        Step("memory_search", {"query": "Staging"}),
        Step("memory_update", _changed(title="Staging restores")),
        also=FIND,
    ),
    task(
        "correct",
        "I switched to Emacs. Update what you know about my editor.",
        "true",
        Step("commit_memory", {"scope": "vault", "key": "editor", "content": "The user prefers Emacs."}),
        also=FIND,
    ),
    task(
        "correct",
        "Add chives to the leek soup file.",
        "updated",
        Step("get_memory", {"store": "recipes", "path": "soups/leek.md"}),
        Step(
            "update_memory",
            lambda answers: {"store": "recipes", "path": "soups/leek", "content": answers[0]["content"] + "\nChives."},
        ),
        also="update_memory recall_memories",
    ),
    task(
        "correct",
        "What did the note about Alice say before I changed it?",
        "green tea",
        Step("memory_search", {"query": "Alice oolong"}),
        Step("memory_get", _changed(version="1")),
        also=FIND,
    ),
    task(
        "correct",
        "The note about the cabin replaces the one on Lisbon. Mark it so.",
        "superseded",
        Step("memory_search", {"query": "Lisbon"}),
        Step("memory_search", {"query": "cabin wifi"}),
        Step("memory_update", lambda answers: {"id": _id(answers), "supersedes": answers[0]["memories"][0]["id"]}),
        Step("memory_get", lambda answers: {"id": answers[0]["memories"][0]["id"]}),
        also=FIND,
    ),
    # Forget
    task(
        "forget", "Forget my shoe size.", "1", Step("prune_memory", {"scope": "vault", "key": "shoe-size"}), also=FIND
    ),
    task(
        "forget",
        "Delete the note about Lisbon for good.",
        "true",
        Step("memory_search", {"query": "Lisbon"}),
        Step("memory_delete", _changed(soft="false")),
        also=FIND,
    ),
    task(
        "forget",
        "Archive the note about the cabin.",
        "true",
        Step("memory_search", {"query": "cabin wifi fridge"}),
        Step("memory_delete", _changed()),
        also=FIND,
    ),
    task(
        "forget",
        "Delete the file bread in the store recipes.",
        "removed",
        Step("remove_memory", {"store": "recipes", "path": "bread.md"}),
    ),
    task(
        "forget",
        "Forget that Bob speaks Polish.",
        "1",
        Step("delete_observations", {"deletions": {"entityName": "Bob", "observations": "speaks Polish"}}),
        also="search_nodes open_nodes recall_memories",
    ),
    task(
        "forget",
        "Bob no longer maintains Billing. Remove that relation.",
        "1",
        Step("delete_relations", {"relations": {"from": "Bob", "to": "Billing", "relationType": "maintains"}}),
    ),
    task(
        "forget",
        "Clear the scratchpad of this session.",
        "1",
        Step("prune_memory", {"scope": "session"}),
        also="search_memories",
    ),
    # When
    task(
        "when",
        "What did we write down today about deploys?",
        "deploy",
        Step("recall_memories", {"query": "deploys", "after": "today"}),
        also="memory_search memory_recent",
    ),
    task(
        "when",
        "Which notes are from the last week?",
        "staging",
        Step("memory_search", {"query": "staging", "created_after": "last week"}),
        also="recall_memories memory_recent",
    ),
    task(
        "when",
        "Was anything kept before 2020?",
        "notice",
        Step("recall_memories", {"query": "anything", "before": "2020-01-01"}),
        also="memory_search",
    ),
    task(
        "when",
        "What did I look at or write most recently?",
        "memories",
        Step("memory_recent", {"limit": 5}),
        also="recall_overview cortex_get_recent_memories",
    ),
    task(
        "when",
        "When did you last write anything in the store recipes?",
        "last_write",
        Step("recall_overview", {}),
        also="list_memories cortex_get_recent_memories",
    ),
    task(
        "when",
        "What is new since Monday on Alice?",
        "Alice",
        Step("recall_memories", {"query": "Alice", "after": "since Monday"}),
        also="memory_search",
    ),
    # Tables
    task(
        "tables",
        "Keep this table of trips: Rome on 2026-03-01 for 120.5 euros, Oslo on 2026-04-10 for 300.",
        "2",
        Step(
            "portal_write",
            {
                "portalUri": TRIP,
                "table": "trips",
                "data": [
                    {"city": "Rome", "day": "2026-03-01", "price": 120.5},
                    {"city": "Oslo", "day": "2026-04-10", "price": 300},
                ],
            },
        ),
    ),
    task(
        "tables",
        "Add a trip to Bern on 2026-05-02 for 45.",
        "1",
        Step(
            "portal_write",
            {"portalUri": TRIP, "table": "trips", "data": {"city": "Bern", "day": "2026-05-02", "price": 45}},
        ),
    ),
    task(
        "tables",
        "How much did each month of trips cost?",
        "465",
        Step(
            "portal_query",
            {"portalUri": TRIP, "sql": "SELECT sum(price) AS total, max(toMonth(day)) AS month FROM trips"},
        ),
        also="portal_view",
    ),
    task(
        "tables",
        "Who ordered the most in November 2026?",
        "Ben",
        Step(
            "portal_query",
            {
                "portalUri": SALES,
                "sql": "SELECT customer, sum(amount) AS total FROM orders "
                "WHERE day >= '2026-11-01' GROUP BY customer ORDER BY total DESC LIMIT 1",
            },
        ),
        also="portal_view",
    ),
    task(
        "tables",
        "An order by Cleo came in today for 19.90.",
        "1",
        Step(
            "portal_write",
            {
                "portalUri": SALES,
                "table": "orders",
                "data": [{"day": "2026-11-16", "customer": "Cleo", "amount": 19.9}],
            },
        ),
    ),
    task("tables", "Which tables are in the shop's portal?", "orders", Step("portal_view", {"portalUri": SALES})),
    task(
        "tables",
        "List all orders, compactly.",
        "Cleo",
        Step("portal_query", {"portalUri": SALES, "sql": "SELECT * FROM orders ORDER BY day", "format": "arrays"}),
    ),
    task(
        "tables",
        "Delete Ann's orders.",
        "2",
        Step("portal_delete", {"portalUri": SALES, "table": "orders", "where": {"customer": "Ann"}}),
        also="portal_query",
    ),
    task(
        "tables",
        "Export the trips as CSV to trips.csv.",
        "trips.csv",
        Step("portal_export", {"portalUri": TRIP, "destination": "trips.csv", "format": "csv", "table": "trips"}),
    ),
    # Files
    task(
        "files",
        "Save a markdown file shopping/weekly in the store household: milk, eggs, rye bread.",
        "true",
        Step(
            "add_memory", {"store": "household", "path": "shopping/weekly.md", "content": "- milk\n- eggs\n- rye bread"}
        ),
    ),
    task(
        "files",
        "What files are in the store recipes?",
        "soups",
        Step("list_memories", {"store": "recipes"}),
        also="recall_overview",
    ),
    task(
        "files",
        "Show me the weekly shopping list.",
        "rye bread",
        Step("get_memory", {"store": "household", "path": "shopping/weekly"}),
        also="recall_memories list_memories",
    ),
    task(
        "files",
        "Move the leek soup from soups to starters.",
        "true",
        Step("move_memory", {"store": "recipes", "from_path": "soups/leek", "to_path": "starters/leek"}),
    ),
    task(
        "files",
        "Save where the soup recipe comes from: https://example.org/leek",
        "true",
        Step("update_memory", {"store": "recipes", "path": "starters/leek", "citations": "https://example.org/leek"}),
        also="get_memory recall_memories",
    ),
    # Relations
    task(
        "relations",
        "Add Carla, a designer, to the company's graph; she reports to Bob.",
        "reports_to",
        Step(
            "create_entities",
            {"project": "company", "entities": {"name": "Carla", "entityType": "person", "observations": "designer"}},
        ),
        Step(
            "create_relations",
            {"project": "company", "relations": {"from": "Carla", "to": "Bob", "relationType": "reports_to"}},
        ),
    ),
    task(
        "relations",
        "Bob moved to Hamburg. Add that to the graph.",
        "Hamburg",
        Step("add_observations", {"observations": {"entityName": "Bob", "contents": "moved to Hamburg"}}),
        also="search_nodes open_nodes",
    ),
    task(
        "relations",
        "Who is connected with Bob?",
        "Carla",
        Step("open_nodes", {"names": "Bob"}),
        also="search_nodes read_graph recall_memories",
    ),
    task(
        "relations",
        "Which services do we have in the graph of the company?",
        "Billing",
        Step("search_nodes", {"query": "service", "project": "company"}),
        also="read_graph recall_memories",
    ),
    task("relations", "Which graphs are there?", "company", Step("list_projects", {}), also="recall_overview"),
)
