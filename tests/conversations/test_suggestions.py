"""What a prompt gets: memories that clearly answer it, or nothing."""

from typing import Any

import pytest

from memory_mcp.app import App
from memory_mcp.caller import Caller
from memory_mcp.cli.common import new_session
from memory_mcp.conversations.suggestions import (
    MIN_CLOSENESS,
    MIN_CLOSENESS_BY_NAME,
    MIN_LEXICAL,
    is_clear,
    names_in,
)
from memory_mcp.errors import NotFound
from memory_mcp.families.notes.model import Author, NewNote
from memory_mcp.families.texts import Match
from memory_mcp.families.vault.model import NewMemory
from memory_mcp.text import tokens
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
    assert f"({memory.ref[:22]})" in text
    assert memory.why.startswith("has the words of the prompt (")


def test_a_message_comes_with_those_around_it(hook: Hook) -> None:
    hook("SessionEnd", transcript_path=str(TRANSCRIPTS / "claude-code.jsonl"))
    text = given(hook("UserPromptSubmit", session="two", prompt="which database for invoices"))
    assert " conversation (memory://note/" in text
    spoken = ("user: Which database do we use for invoices?", "assistant: Invoices live in PostgreSQL. I look at")
    assert "\n  ".join(spoken) in text
    assert "\n  … user: Add a column for the due date.\n" in text  # tool calls before it are left out
    assert tokens.estimate(text) <= 300


def test_other_families_are_searched_too(app: App, caller: Caller, hook: Hook) -> None:
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


@pytest.mark.parametrize(
    ("prompt", "text", "closeness", "is_wanted"),
    [
        ("What did Caroline buy?", "Caroline: I bought a lamp.", MIN_CLOSENESS_BY_NAME, True),
        ("What did Caroline buy?", "Caroline: I bought a lamp.", MIN_CLOSENESS_BY_NAME - 0.01, False),
        ("What did Caroline buy?", "Carolines: I bought a lamp.", MIN_CLOSENESS - 0.01, False),
        ("What did caroline buy?", "Caroline: I bought a lamp.", MIN_CLOSENESS - 0.01, False),
        ("Explain it to me. What is it?", "What did you Explain?", MIN_CLOSENESS - 0.01, False),
    ],
)
def test_a_memory_with_a_name_of_the_prompt_may_be_farther_away(
    prompt: str, text: str, closeness: float, is_wanted: bool
) -> None:
    match = Match("ref", "", text, 0.5, None, 0.0, closeness=closeness)
    assert is_clear(match, names_in(prompt)) is is_wanted


@pytest.mark.parametrize("options", [{"hook_prompt_tokens": "120"}])
def test_a_suggestion_keeps_to_its_limit(app: App, caller: Caller, hook: Hook, options: dict[str, Any]) -> None:
    for number in range(5):
        text = f"Invoices are archived after {number} years. " + "More of it. " * number
        app.notes.writer.create(caller, Author(), NewNote(text, namespace="project/billing"))
    text = given(hook("UserPromptSubmit", prompt="when are invoices archived?"))
    assert text
    assert tokens.estimate(text) <= 120


def test_the_messages_of_a_conversation_come_back_only_after_its_compaction(hook: Hook) -> None:
    transcript, prompt = str(TRANSCRIPTS / "claude-code.jsonl"), "which database for invoices"
    hook("SessionEnd", transcript_path=transcript)
    assert "none of 0 memories" in hook("UserPromptSubmit", prompt=prompt)["report"]["why"]
    hook("PreCompact", transcript_path=transcript)
    assert "PostgreSQL" in given(hook("UserPromptSubmit", prompt=prompt))


def test_a_reference_in_a_text_is_short_and_opens_the_note(app: App, caller: Caller, hook: Hook) -> None:
    note = app.notes.writer.create(caller, Author(), NewNote("Invoices are archived after ten years."))
    assert f"(memory://note/{note.id[:8]})" in given(hook("UserPromptSubmit", prompt="when are invoices archived?"))
    assert app.notes.reader.read(caller, note.id[:8]).id == note.id
    assert (
        app.recall.open(caller, new_session(caller), f"memory://note/{note.id[:8]}", 0).ref
        == f"memory://note/{note.id}"
    )
    for wrong in (note.id[:7], note.id[:8] + "zz"):
        with pytest.raises(NotFound):
            app.notes.reader.read(caller, wrong)


def test_a_prompt_gets_three_memories_each_text_once(app: App, caller: Caller, hook: Hook) -> None:
    for end in ("after ten years.", "by Ann.", "in Bonn.", "on Mondays."):
        for _ in range(2):
            app.notes.writer.create(
                caller, Author(), NewNote(f"Invoices are archived {end}", namespace="project/billing")
            )
    lines = given(hook("UserPromptSubmit", prompt="when are invoices archived?")).splitlines()
    texts = [line for line in lines if line.startswith("  Invoices")]
    assert (len(texts), len(set(texts))) == (3, 3)


def test_a_memory_that_matches_much_less_than_the_best_is_not_given(app: App, caller: Caller, hook: Hook) -> None:
    for text in ("Invoices are archived after ten years.", "Ann likes invoices."):
        app.notes.writer.create(caller, Author(), NewNote(text, namespace="project/billing"))
    text = given(hook("UserPromptSubmit", prompt="when are invoices archived after years?"))
    assert "ten years" in text
    assert "Ann" not in text


def test_a_prompt_is_searched_without_what_the_client_put_into_it(app: App, caller: Caller, hook: Hook) -> None:
    """Gemini CLI writes the digest of the start before the first prompt, in escaped form."""
    app.notes.writer.create(
        caller, Author(), NewNote("Invoices are archived after ten years.", namespace="project/billing")
    )
    digest = "&lt;memory-mcp&gt;\n" + "- Ann likes green tea. (memory://note/1)\n" * 100 + "&lt;/memory-mcp&gt;"
    prompt = f"<hook_context>{digest}</hook_context>\n\nwhen are invoices archived?"
    assert "ten years" in given(hook("BeforeAgent", client="gemini-cli", prompt=prompt))


@pytest.mark.parametrize(("trigger", "is_shown"), [("auto", False), ("manual", True)])
def test_an_automatic_compression_of_gemini_cli_may_be_none(
    app: App, caller: Caller, hook: Hook, trigger: str, is_shown: bool
) -> None:
    """Gemini CLI calls PreCompress in every turn, before it looks at how much was said."""
    transcript = str(TRANSCRIPTS / "gemini-cli.jsonl")
    hook("PreCompress", client="gemini-cli", trigger=trigger, transcript_path=transcript)
    answer = hook("BeforeAgent", client="gemini-cli", prompt="which database for invoices", transcript_path=transcript)
    assert bool(given(answer)) is is_shown
