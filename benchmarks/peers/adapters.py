"""How each server is installed, started, written to, searched and read, as data. One workload drives them all.

Requests are templates: "{text}", "{key}", "{kind}", "{id}", "{query}" and "{limit}" are filled in.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

Request = tuple[str, dict[str, Any]]
LIMIT = 10  # hits of a search


class Source(StrEnum):
    OURS = "this checkout"
    NPM = "npm"
    PYPI = "PyPI"


@dataclass(frozen=True)
class Adapter:
    name: str
    source: Source
    command: tuple[str, ...]
    write: Request
    search: Request
    read: Request
    """Shows one memory again, by its id or key where the server can."""
    next_to: str
    """The family of ours that a user would take instead: the one it is compared with."""
    package: str = ""
    environ: Mapping[str, str] = field(default_factory=dict)
    setup: tuple[Request, ...] = ()
    written_id: str = ""
    """The id in the answer to a write; empty if the key is the id."""
    returned_id: str = ""
    """The ids in the answer to a search; empty if it has none."""
    refusal: str = ""
    """What an answer holds that is not marked as an error, and is one."""
    model_folder: str = ""
    """Below ~/.cache: where it looks for all-MiniLM-L6-v2, which is put there once from a registry."""
    missing_model: str = ""
    """What its log says if it could not download its model and works without: then only its start is measured."""
    min_minor: int = 11
    needs_sqlite_extensions: bool = False
    """Whether its Python must be able to load them."""
    needs_prereleases: bool = False
    note: str = ""

    def is_refusal(self, text: str) -> bool:
        return bool(self.refusal and re.search(self.refusal, text))

    def id_of(self, key: str, answer: str) -> str:
        """The id of what was just written."""
        if not self.written_id:
            return key
        found = re.search(self.written_id, answer)
        return found[1] if found else ""

    def ids_in(self, answer: str) -> list[str]:
        """The best first."""
        return list(dict.fromkeys(re.findall(self.returned_id, answer))) if self.returned_id else []


def fill(request: Request, **values: Any) -> Request:
    tool, arguments = request
    return tool, {name: _filled(value, values) for name, value in arguments.items()}


def _filled(template: Any, values: Mapping[str, Any]) -> Any:
    if isinstance(template, dict):
        return {name: _filled(value, values) for name, value in template.items()}
    if isinstance(template, list):
        return [_filled(value, values) for value in template]
    if not isinstance(template, str):
        return template
    whole = re.fullmatch(r"\{(\w+)\}", template)
    return values[whole[1]] if whole else template.format(**values)
