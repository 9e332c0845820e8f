"""What is there before the first task."""

from benchmarks.agents.model import Step

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
