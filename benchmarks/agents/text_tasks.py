"""Tasks about single memories: remember, find, correct, forget, and when something happened."""

from typing import Any

from benchmarks.agents.model import Answers, Arguments, Step, first_hit, task


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

TEXT_TASKS = (
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
)
