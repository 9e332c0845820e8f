"""How each family is searched."""

from memory_mcp.caller import Caller
from memory_mcp.families.notes import Notes
from memory_mcp.families.notes.model import DEFAULT_IMPORTANCE, Filter
from memory_mcp.families.notes.model import NoteQuery as NotesQuestion
from memory_mcp.families.notes.operations import note_uri
from memory_mcp.families.recall.index import Index
from memory_mcp.families.recall.model import Match, RecallQuery
from memory_mcp.families.recall.operations import Find
from memory_mcp.families.vault import Vault
from memory_mcp.families.vault.model import MemoryQuery as VaultQuestion
from memory_mcp.families.vault.model import session_uri
from memory_mcp.search import ranking, snippets
from memory_mcp.sessions import Session


def notes(room: Notes) -> Find:
    """Notes have an index of meanings of their own."""

    def find(caller: Caller, session: Session, question: RecallQuery, limit: int) -> list[Match]:
        found, _ = room.hits(caller, NotesQuestion(question.query, Filter(tags=question.tags), limit=limit))
        return [
            Match(
                note_uri(hit.id),
                hit.title,
                hit.snippet,
                hit.score,
                hit.score_breakdown.cosine,
                hit.score_breakdown.lexical,
            )
            for hit in found
        ]

    return find


def vault(room: Vault, index: Index) -> Find:
    """The vault by its copies; this session's scratchpad, which nobody copies, by its words."""

    def find(caller: Caller, session: Session, question: RecallQuery, limit: int) -> list[Match]:
        scratchpad = VaultQuestion(question.query, "session", question.tags, limit=limit)
        own = [
            Match(
                session_uri(session.id),
                hit.key,
                snippets.around(hit.content, question.query) or snippets.beginning(hit.content),
                ranking.score(None, hit.relevance, DEFAULT_IMPORTANCE),
                None,
                hit.relevance,
            )
            for hit in room.search(caller, session, scratchpad).results
        ]
        found = [*index.search(caller, "vault", question, limit), *own]
        return sorted(found, key=lambda match: -match.score)[:limit]

    return find


def copies(index: Index, family: str) -> Find:
    def find(caller: Caller, session: Session, question: RecallQuery, limit: int) -> list[Match]:
        return index.search(caller, family, question, limit)

    return find
