"""Names that memories, categories and stores may have."""

import re
import unicodedata
from collections.abc import Iterable

from memory_mcp.errors import Conflict, Invalid
from memory_mcp.families.stores.model import PathParts
from memory_mcp.system import operating_system
from memory_mcp.text.names import hidden_character

STORE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
MAX_NAME_CHARS = 120
MAX_NAME_BYTES = 200  # with .md and the suffix of a temporary name, under the 255 of every file system
MAX_PATH_CHARS = 240
MAX_PATH_PARTS = 16

# Names that Windows reserves for devices, with any extension.
_DEVICES = {
    "CON",
    "PRN",
    "AUX",
    "NUL",
    "CONIN$",
    "CONOUT$",
    "CLOCK$",
    *(f"{name}{n}" for name in ("COM", "LPT") for n in "0123456789¹²³"),
}
_FORBIDDEN = re.compile(r'[<>:"|?*\\\x00-\x1f\x7f]')


def parse(path: str, field: str = "path") -> PathParts:
    """The parts of a path. Raises Invalid for one that could lead anywhere but into the store."""
    parts = tuple(path.split("/"))
    if not operating_system.THIS.is_relative(path):
        raise Invalid(f"{field}: give a path relative to the store, with '/' between its parts.", field=field)
    for part in parts:
        if part in ("", ".", ".."):
            raise Invalid(f"{field}: {path!r} has an empty part or one of '.' and '..'. Leave it out.", field=field)
        if part.startswith("."):
            raise Invalid(f"{field}: {part!r} is hidden. Names that start with a dot are not memories.", field=field)
        if "\0" in part:
            raise Invalid(f"{field}: a name cannot hold a NUL character.", field=field)
        if any("\ud800" <= sign <= "\udfff" for sign in part):
            raise Invalid(f"{field}: a name cannot hold half of a surrogate pair, which is not text.", field=field)
    return parts


def category(path: str | None) -> PathParts:
    """A category's parts; none for the top of the store."""
    return parse(path.removesuffix("/"), "category") if path else ()


def new(path: str, field: str = "path") -> PathParts:
    """The parts of a path for a new memory, without '.md' at its end. Raises Invalid for one that not every system can
    store."""
    parts = without_suffix(parse(path, field))
    check_new(parts, field)
    return parts


def without_suffix(parts: PathParts) -> PathParts:
    """A memory's path without the '.md' of its file."""
    return (*parts[:-1], re.sub(r"(?i)(?<=.)\.md$", "", parts[-1]))


def check_new(parts: PathParts, field: str = "path") -> None:
    """Raises Invalid unless the name works on Linux, macOS and Windows."""
    if len(parts) > MAX_PATH_PARTS or len("/".join(parts)) > MAX_PATH_CHARS:
        raise Invalid(
            f"{field}: at most {MAX_PATH_PARTS} parts and {MAX_PATH_CHARS} characters. Shorten it.", field=field
        )
    for part in parts:
        if why := _unsafe(part):
            raise Invalid(f"{field}: {part!r} {why}. Choose another name.", field=field)
    if parts[-1].lower().endswith(".md"):
        raise Invalid(f"{field}: leave out '.md', the file gets it anyway.", field=field)


def _unsafe(part: str) -> str | None:
    if len(part) > MAX_NAME_CHARS or len(part.encode()) > MAX_NAME_BYTES:
        return f"is longer than {MAX_NAME_CHARS} characters or {MAX_NAME_BYTES} bytes"
    if hidden := hidden_character(part):
        return f"holds {hidden}, which cannot be seen or changes how a line is shown"
    if found := _FORBIDDEN.search(part):
        return f"holds {found[0]!r}, which Windows does not allow in names"
    if part != part.strip() or part.endswith("."):
        return "starts or ends with a space, or ends with a dot, which not every system keeps"
    if part.split(".")[0].rstrip().upper() in _DEVICES:
        return "is a device on Windows"
    return None


def check_store(name: str) -> None:
    if not STORE.fullmatch(name) or _unsafe(name):
        raise Invalid(
            "store: a store's name has 1 to 64 letters, digits, '.', '_' and '-', starts with a letter or a digit, and "
            "is no device on Windows.",
            field="store",
        )


def nfc(name: str) -> str:
    """The name in the Unicode form of memories and categories. On disk it may have another."""
    return unicodedata.normalize("NFC", name)


def comparison_key(name: str) -> str:
    """A key that is equal for all names that a case-insensitive or normalising file system treats as one."""
    return nfc(nfc(name).casefold())


def check_clash(name: str, siblings: Iterable[str], field: str) -> None:
    """Raises Conflict if a sibling differs in upper and lower case only."""
    for sibling in siblings:
        if sibling != name and comparison_key(sibling) == comparison_key(name):
            raise Conflict(
                f"{field}: there is {sibling!r} already. On macOS and Windows {name!r} would be the same; use it, or "
                "choose another name.",
                field=field,
            )
