"""What a note's body says to the machine: its #tags, its [[links]], its title."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_mcp.families.notes import markdown


@pytest.mark.parametrize(
    ("content", "tags"),
    [
        ("#tag", ["tag"]),
        ("(#tag), #other.", ["tag", "other"]),
        ("# Heading with #tag", ["tag"]),
        ("- item #tag\n> quoted #other", ["tag", "other"]),
        ("**#tag** *#other*", ["tag", "other"]),
        ("_#tag_", ["tag"]),
        ("#über #наука #标签 #हिन्दी", ["über", "наука", "标签", "हिन्दी"]),
        ("#a/b/c #x-y #x_y", ["a/b/c", "x-y", "x_y"]),
        ("#3d #q4", ["3d", "q4"]),
        ("#end/ #dash-", ["end", "dash"]),
        ("[#tag](https://example.org)", ["tag"]),
        ("#one #two #one", ["one", "two"]),
        ("line\r\n#tag\r\n", ["tag"]),
        ("`#code` #tag", ["tag"]),
        ("```\n#code\n```\n#tag", ["tag"]),
    ],
)
def test_tags_are_found_anywhere_in_text(content: str, tags: list[str]) -> None:
    assert list(markdown.marks(content).tags) == tags


@pytest.mark.parametrize(
    "content",
    [
        "`#code`",
        "`` a ` #code ``",
        "```\n#code\n```",
        "~~~python\n#code\n~~~",
        "```\n#code that never ends",
        "text\n\n    #code",
        "https://example.org/page#part",
        "https://example.org/#part",
        "https://example.org/?q=#part",
        "<https://example.org/a#part>",
        "[text](https://example.org/#part)",
        "[text]: https://example.org/#part",
        '<a href="#part">text</a>',
        "# heading",
        "## heading",
        "Heading\n=======",
        "issue #12 and #345",
        "C# code",
        "&#35;",
        "a#b",
        "##",
        r"\#escaped",
        "x" * 10 + " #" + "y" * 129,
    ],
)
def test_text_that_only_looks_like_a_tag_is_not_one(content: str) -> None:
    assert markdown.marks(content).tags == ()


@pytest.mark.parametrize(
    ("content", "links"),
    [
        ("[[Plan]]", ["Plan"]),
        ("see [[Plan]] and [[Other plan|that one]].", ["Plan", "Other plan"]),
        ("[[  Spaced   out  ]]", ["Spaced out"]),
        ("[[Plan]] [[Plan]]", ["Plan"]),
        ("# [[Plan]]\n\n- [[Item]]\n\n> [[Quote]]", ["Plan", "Item", "Quote"]),
        ("**[[Bold]]** *[[Italic]]* _[[Under]]_", ["Bold", "Italic", "Under"]),
        ("[[计划]] [[План|x]]", ["计划", "План"]),
        ("[[a](b)]]", ["a](b)"]),
        ("`[[code]]` [[Plan]]", ["Plan"]),
        ("[[" + "x" * 300 + "]]", ["x" * 300]),
    ],
)
def test_links_are_found_anywhere_in_text(content: str, links: list[str]) -> None:
    assert list(markdown.marks(content).links) == links


@pytest.mark.parametrize(
    "content",
    [
        "`[[code]]`",
        "```\n[[code]]\n```",
        "text\n\n    [[code]]",
        "[[]]",
        "[[ ]]",
        "[[|label]]",
        "[[never closed",
        "[[over\ntwo lines]]",
        "[single]",
        "[[" + "x" * 301 + "]]",
    ],
)
def test_text_that_only_looks_like_a_link_is_not_one(content: str) -> None:
    assert markdown.marks(content).links == ()


@pytest.mark.parametrize(
    ("content", "title"),
    [
        ("One line", "One line"),
        ("First\nSecond", "First"),
        ("\n\n  indented  \nrest", "indented"),
        ("# Heading\n\nbody", "Heading"),
        ("> ### Quoted", "Quoted"),
        ("- item\n- item", "item"),
        ("---\n\nafter a rule", "after a rule"),
        ("x" * 400, "x" * 300),
        ("###", "###"),
        ("🎉", "🎉"),
        ("-5 degrees outside", "-5 degrees outside"),
        ("--force is needed", "--force is needed"),
        ("#deploy is done", "#deploy is done"),
        ("*args and **kwargs", "*args and **kwargs"),
    ],
)
def test_the_first_line_with_text_is_the_title(content: str, title: str) -> None:
    assert markdown.first_line(content) == title


def test_a_title_in_bold_stays_whole() -> None:
    assert markdown.first_line("**Decision:** use SQLite") in ("**Decision:** use SQLite", "Decision: use SQLite")


pieces = st.sampled_from([*"#|`\n<>&\\()[]!*_", "#tag ", "[[", "]]", "```\n", "    ", "> ", "- "])
bodies = st.lists(pieces | st.text(max_size=5), max_size=30).map("".join)


@given(bodies)
def test_any_text_has_marks_and_a_title(content: str) -> None:
    found = markdown.marks(content)

    assert all(tag and len(tag) <= markdown.MAX_TAG_CHARS for tag in found.tags)
    assert all(title.strip() == title != "" and len(title) <= markdown.MAX_TITLE_CHARS for title in found.links)
    assert len(set(found.tags)) == len(found.tags)
    assert len(set(found.links)) == len(found.links)
    assert len(markdown.first_line(content)) <= markdown.MAX_TITLE_CHARS
    assert bool(markdown.first_line(content)) == bool(content.strip())


words = st.text(st.characters(whitelist_categories=["L"]), min_size=1, max_size=10)


@given(
    words,
    words,
    st.sampled_from(["`{}`", "```\n{}\n```\n", "~~~ x\n{}\n~~~\n", "para\n\n    {}\n\n", "<!-- {} -->\n\n"]),
)
def test_marks_in_code_are_ignored(inside: str, outside: str, code: str) -> None:
    content = code.format(f"#{inside} [[{inside}]]") + f"\n\n#{outside} [[{outside}]]"

    assert markdown.marks(content) == markdown.Marks((outside,), (outside,))
