"""Tasks about tables, files and relations."""

from benchmarks.agents.model import Step, task
from benchmarks.agents.seed import SALES, TRIP

DATA_TASKS = (
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
