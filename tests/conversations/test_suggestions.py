"""What a prompt gets: memories that clearly answer it, or nothing."""

from typing import Any

import pytest

from memory_mcp import tokens
from memory_mcp.app import App
from memory_mcp.caller import Caller
from memory_mcp.conversations.suggestions import MIN_CLOSENESS, MIN_LEXICAL, is_clear
from memory_mcp.families.notes.model import Author, NewNote
from memory_mcp.families.texts import Match
from memory_mcp.families.vault.model import NewMemory
from tests.conversations.conftest import TRANSCRIPTS, Hook, given


def test_a_prompt_gets_what_answers_it_once_in_a_conversation(app: App, caller: Caller, hook: Hook) -> None:
    app.notes.writer.create(
        caller, Author(), NewNote("Invoices are archived after ten years.", namespace="project/billing")
    )
    app.notes.writer.create(caller, Author(), NewNote("Invoices are blue.", namespace="project/shop"))
    prompt = "when are invoices archived?"
    text = given(hook("UserPromptSubmit", prompt=prompt))
    assert "- 2030-01-01 Invoices are archived after ten years." in text
    assert "blue" not in text
    again = hook("UserPromptSubmit", prompt=prompt)
    assert again["output"] is None
    assert "given before" in again["report"]["why"]
    assert given(hook("UserPromptSubmit", session="two", prompt=prompt)) == text
    [first, second], following = app.conversations.reader.given(caller, None, 2)
    assert (first.conversation, first.event) == ("claude-code:two", "UserPromptSubmit")
    assert (first.project, second.conversation, following) == ("billing", "claude-code:one", None)
    [memory] = first.memories
    assert memory.ref in text
    assert memory.why.startswith("has the words of the prompt (")


def test_a_message_comes_with_those_around_it(hook: Hook) -> None:
    hook("SessionEnd", transcript_path=str(TRANSCRIPTS / "claude-code.jsonl"))
    text = given(hook("UserPromptSubmit", session="two", prompt="which database for invoices"))
    assert "said in a conversation" in text
    assert (
        "Which database do we use for invoices?\n  Invoices live in PostgreSQL. I look at the schema.\n  user: Add"
        in text
    )
    assert tokens.estimate(text) <= 300


def test_other_families_are_searched_too(app: App, caller: Caller, hook: Hook) -> None:
    from memory_mcp.cli.common import new_session

    app.vault.commit(caller, new_session(caller), NewMemory("vault", "deploy-steps", "run make deploy on tuesdays", ()))
    assert "(memory://vault/deploy-steps)" in given(hook("UserPromptSubmit", prompt="what are the deploy steps"))


@pytest.mark.parametrize("prompt", ["continue", "yes please", "", "refactor the parser into smaller functions"])
def test_other_prompts_get_nothing(app: App, caller: Caller, hook: Hook, prompt: str) -> None:
    app.notes.writer.create(
        caller, Author(), NewNote("Invoices are archived after ten years.", namespace="project/billing")
    )
    assert hook("UserPromptSubmit", prompt=prompt)["output"] is None


@pytest.mark.parametrize(
    ("closeness", "lexical", "is_wanted"),
    [
        (MIN_CLOSENESS, 0.0, True),
        (MIN_CLOSENESS - 0.01, 0.9, False),
        (None, MIN_LEXICAL, True),
        (None, MIN_LEXICAL - 0.01, False),
    ],
)
def test_words_decide_only_where_meaning_is_unknown(closeness: float | None, lexical: float, is_wanted: bool) -> None:
    assert is_clear(Match("ref", "", "", 0.5, None, lexical, closeness=closeness)) is is_wanted


@pytest.mark.parametrize("options", [{"hook_prompt_tokens": "120"}])
def test_a_suggestion_keeps_to_its_limit(app: App, caller: Caller, hook: Hook, options: dict[str, Any]) -> None:
    for number in range(5):
        text = f"Invoices are archived after {number} years. " + "More of it. " * number
        app.notes.writer.create(caller, Author(), NewNote(text, namespace="project/billing"))
    text = given(hook("UserPromptSubmit", prompt="when are invoices archived?"))
    assert text
    assert tokens.estimate(text) <= 120
