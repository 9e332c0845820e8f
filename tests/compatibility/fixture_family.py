"""Fixtures of the conformance suite that are a family like any other: the server serves them as it serves the vault."""

from dataclasses import dataclass

from memory_mcp.caller import Scope
from memory_mcp.errors import Invalid, NotFound
from memory_mcp.families.family import Arguments, Call, Document, Family, ListedResource, ResourcePage, Template

STATIC_TEXT = "test://static-text"
STATIC_BINARY = "test://static-binary"  # read in profile.py: a family's documents are text
WATCHED = "test://watched-resource"
TEMPLATE = "test://template/{id}/data"

IDS = ("1", "12", "123")  # what completion knows of the template


def list_page(call: Call[None], cursor: str | None, limit: int) -> ResourcePage:
    return ResourcePage(
        (
            ListedResource(STATIC_TEXT, "static-text", "A text that never changes.", "text/plain"),
            ListedResource(STATIC_BINARY, "static-binary", "An image that never changes.", "image/png"),
            ListedResource(WATCHED, "watched-resource", "A resource to subscribe to.", "text/plain"),
        )
    )


def read(call: Call[None], uri: str) -> Document:
    if uri == STATIC_TEXT:
        return Document(uri, "This is the content of the static text resource.", "text/plain")
    if uri == WATCHED:
        return Document(uri, "Watched resource content", "text/plain")
    before, after = TEMPLATE.split("{id}")
    if uri.startswith(before) and uri.endswith(after):
        id_ = uri.removeprefix(before).removesuffix(after)
        return Document(uri, f'{{"id": "{id_}", "templateTest": true, "data": "Data for ID: {id_}"}}')
    raise NotFound("No resource has this address.")


def complete(call: Call[None], name: str, value: str) -> list[str]:
    return [id_ for id_ in IDS if name == "id" and id_.startswith(value)]


fixtures = Family[None](
    name="fixtures",
    open=lambda context: None,
    purpose="what the conformance suite calls by name",
    main_tools=(),
    errors="tool-result",
    uri_prefixes=("test://",),
    templates=(Template(TEMPLATE, "template", "Data under an id."),),
    list_resources=list_page,
    read_resource=read,
    subscription_uri=lambda call, uri: uri,
    complete=complete,
)


class Nothing(Arguments):
    pass


@dataclass(frozen=True)
class TextAnswer:
    text: str


@fixtures.tool(Nothing, answers=TextAnswer, title="Simple text", needs=Scope.READ)
def test_simple_text(call: Call[None], arguments: Nothing) -> TextAnswer:
    """Answer with a text."""
    return TextAnswer("This is a simple text response for testing.")


@fixtures.tool(Nothing, answers=TextAnswer, title="Error", needs=Scope.READ)
def test_error_handling(call: Call[None], arguments: Nothing) -> TextAnswer:
    """Refuse, always."""
    raise Invalid("This tool intentionally returns an error for testing")


@fixtures.tool(Nothing, answers=TextAnswer, title="Progress", needs=Scope.READ)
def test_tool_with_progress(call: Call[None], arguments: Nothing) -> TextAnswer:
    """Report progress three times, from the thread that families run in."""
    for done in (0, 50, 100):
        call.progress(f"Completed step {done} of 100", done, 100)
    return TextAnswer("All steps completed.")
