"""A file's text taken apart and put together: what is not ours stays to the byte."""

import re
import subprocess
import sys
import time

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from memory_mcp.errors import Conflict
from memory_mcp.families.stores import frontmatter
from memory_mcp.families.stores.frontmatter import File, parse, rewritten
from memory_mcp.families.stores.model import Metadata
from tests.processes import environment

NOW = "2030-01-01T12:00:00Z"
STAMPED = {"updated_at": NOW}

texts = st.text(st.characters(exclude_categories=["Cs"]))
lines = st.lists(st.sampled_from(["---", "--- ", "", "a: b", "- x", "\r", "...", "# h", "\ufeff", "\x85", " "]))
contents = texts | lines.map("\n".join) | lines.map("\r\n".join)
words = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1)


def fields(text: str) -> dict[str, object]:
    """What another program reads of the front matter."""
    found = yaml.safe_load(text.split("---")[1])
    assert isinstance(found, dict)
    return found


def can_be_changed(file: File) -> bool:
    """Nothing is put into broken front matter, nor into a mapping in braces, an indented one or one with an end."""
    return not file.is_broken and not re.search(r"^[ {%]|^\.\.\.", file.front, re.MULTILINE)


@given(contents)
@example("---\na: b\n---\nbody")
@example("\n\n---\n")
@example("\r\n")
@example("\ufeff---\n---\n")
def test_any_content_is_read_as_written_except_line_ends_at_its_end(content: str) -> None:
    text = frontmatter.new(Metadata(NOW, NOW), content)
    assert parse(text).content == content.rstrip("\r\n")
    assert parse(text).metadata == Metadata(NOW, NOW)
    assert text.endswith("\n")


@given(contents, contents)
@example("old", "\nnew")
def test_any_content_takes_the_place_of_any_other(old: str, new: str) -> None:
    for before in (frontmatter.new(Metadata(NOW, NOW), old), f"---\ntitle: t\n---\n{old}", old):
        file = parse(before)
        if can_be_changed(file):
            after = parse(rewritten(file, STAMPED, new))
            assert plain(after.content) == plain(new.rstrip("\r\n"))
            assert {**file.fields, **STAMPED} == after.fields


def plain(text: str) -> str:
    """With line ends of one kind: content gets those of its file."""
    return text.replace("\r\n", "\n")


@given(contents)
def test_metadata_alone_leaves_any_body_as_it_is(body: str) -> None:
    for before in (f"---\ntitle: t\n---\n{body}", body):
        file = parse(before)
        if can_be_changed(file):
            text = rewritten(file, STAMPED, None)
            assert text.endswith(file.body)
            assert parse(text).content == file.content


@given(contents)
def test_the_parts_of_a_text_joined_give_the_same_text(text: str) -> None:
    file = parse(text)
    assert file.opening + file.front + file.closing + file.body == text.removeprefix("" if file.opening else "\ufeff")


@given(st.lists(words), st.lists(words), words)
def test_any_metadata_is_read_as_written(tags: list[str], citations: list[str], source: str) -> None:
    metadata = Metadata(NOW, NOW, tags, source, NOW, citations)
    found = parse(frontmatter.new(metadata, "x")).metadata
    assert (found.tags, found.source, found.citations, found.expires_at) == (tags, source, citations, NOW)


@pytest.mark.parametrize(
    "text", ["see chapter 3...", "...", "null", "~", "a\u3000b", "👨‍👩‍👧", "naïve\u00a0tag", "a #b", "a, b"]
)
def test_a_tag_is_kept_as_it_is_and_readable(text: str) -> None:
    written = frontmatter.new(Metadata(NOW, NOW, [text], "mcp", None, [text]), "x")
    assert parse(written).metadata.tags == parse(written).metadata.citations == [text]
    assert text in written


def test_comments_of_keys_that_change_stay() -> None:
    before = (
        "---\ntags: [a] # mine\nupdated_at: 2020-01-01 # when\n# above\ncitations: # why\n# first\n- a\n# second\n- b\n"
        "last: 1\n---\nbody\n"
    )
    after = rewritten(parse(before), {"tags": ["x", "y"], "updated_at": NOW, "citations": ["n"]}, None)
    assert after == (
        f"---\ntags: [x, y] # mine\nupdated_at: '{NOW}' # when\n# above\ncitations: # why\n# first\n# second\n- n\n"
        "last: 1\n---\nbody\n"
    )


def test_content_gets_the_line_ends_of_its_file() -> None:
    after = rewritten(parse("---\r\ntags: [a]\r\n---\r\n\r\none\r\n"), {}, "one\ntwo")
    assert after == "---\r\ntags: [a]\r\n---\r\n\r\none\r\ntwo\r\n"


def test_a_new_memory_has_its_keys_in_a_fixed_order() -> None:
    text = frontmatter.new(Metadata(NOW, NOW, ["a", "b"], "mcp", NOW, ["f.py:1"]), "body\n\n\n")
    assert text == (
        f"---\ncreated_at: '{NOW}'\nupdated_at: '{NOW}'\ntags:\n  - a\n  - b\nsource: mcp\nexpires_at: '{NOW}'\n"
        "citations:\n  - f.py:1\n---\n\nbody\n"
    )


KEPT = [
    "# a comment\ntitle: x # and another\n",
    "title: x\n\n# above\naliases:\n  - one\n  - two\n",
    "aliases:\n- at the margin\n- two\n",
    "single: 'it''s'\ndouble: \"a \\u00e9 b\"\n",
    "zebra: 1\napple: 2\nmango: 3\n",
    "yes: no\non: off\nB: TRUE\n",
    "phone: +491701234567\nzip: 01234\nversion: 1.10\nhex: 0x1F\nhuge: 1e1000\n",
    "nothing: ~\nempty:\nnull_: null\n",
    "date: 2026-1-5\nwhen: 2026-01-01T10:00:00+02:00\n",
    "birthday: 2026-02-30\n",
    "flow: [ a,b ]\nmap: {x: 1,y: 2}\n",
    "long: one line\n  and the next\n",
    "folded: >-\n  some\n  text\n\nliteral: |\n  # not a comment\n    deeper\n",
    "spaced:    out   # far\n",
    "anchor: &a [1, 2]\nalias: *a\n",
    "base: &b {x: 1}\nmerged:\n  <<: *b\n  y: 2\n",
    "? complex\n: value\n",
    "tagged: !mine value\n",
    "ключ: значение\nemoji: 🌱\n'quoted key': x\n",
    "# nothing but a comment\n",
    'wikilink: "[[Other note]]"\ncssclasses: []\n',
    "title: a\n# the end\n",
    "deep:\n  deeper:\n    - deepest: 1\n      more: 2\n",
]


@pytest.mark.parametrize("front", KEPT)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("bom", ["", "\ufeff"])
def test_lines_of_others_stay_to_the_byte(front: str, end: str, bom: str) -> None:
    text = f"{bom}---\n{front}---\nbody\nof two lines\n".replace("\n", end)
    after = rewritten(parse(text), {**STAMPED, "tags": ["t"]}, None)
    kept = [line for line in after.splitlines(keepends=True) if line in text.splitlines(keepends=True)]
    assert "".join(kept) == text
    assert parse(after).metadata.tags == ["t"]
    assert parse(after).metadata.updated_at == NOW
    assert after.replace("\r\n", "").count("\n") == (0 if end == "\r\n" else after.count("\n"))


def test_a_value_of_ours_is_replaced_where_it_stands() -> None:
    before = (
        "---\ntitle: x\ntags: # of mine\n  - a\n  # odd\n  - b\n# above\nupdated_at: 2020-01-01\nlast: 1\n---\n\nbody\n"
    )
    after = rewritten(parse(before), {**STAMPED, "tags": ["c"]}, None)
    order = list(fields(after))
    assert order == ["title", "tags", "updated_at", "last"]
    assert fields(after)["tags"] == ["c"]
    assert parse(after).metadata.updated_at == NOW
    assert "# above\nupdated_at" in after


def test_a_value_is_removed_with_all_its_lines() -> None:
    before = "---\nexpires_at: 2020-01-01\ncitations:\n  - a\n  - b\ntitle: x\n---\nbody\n"
    after = rewritten(parse(before), {"expires_at": None, "citations": None}, None)
    assert after == "---\ntitle: x\n---\nbody\n"


def test_the_last_value_can_be_removed() -> None:
    after = rewritten(parse("---\nexpires_at: 2020-01-01\n---\nbody\n"), {"expires_at": None}, None)
    assert parse(after).content == "body"
    assert parse(after).metadata == Metadata()


def test_a_flow_mapping_is_read_and_not_changed() -> None:
    file = parse("---\n{title: x, tags: [a]}\n---\nbody\n")
    assert (file.metadata.tags, file.content) == (["a"], "body")
    with pytest.raises(Conflict, match="by hand"):
        rewritten(file, {"tags": ["b"]}, None)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_file_without_front_matter_gets_some_with_its_own_line_ends(end: str) -> None:
    after = rewritten(parse(f"# Title{end}text{end}"), STAMPED, None)
    assert after.endswith(f"---{end}{end}# Title{end}text{end}")
    assert parse(after).metadata.updated_at == NOW
    assert after.count("\n") == after.count(end)


@pytest.mark.parametrize(
    ("front", "tags"),
    [
        ("tags: one", ["one"]),
        ("tags: one, two three", ["one", "two", "three"]),
        ("tags: [one, 'two three']", ["one", "two three"]),
        ("tags:\n- one\n- two", ["one", "two"]),
        ("tags: [yes, 12, 2026-01-01, null, ~]", ["yes", "12", "2026-01-01"]),
        ("tags: [[a], {b: c}, d]", ["d"]),
        ("tags:", []),
        ("tags: ''", []),
        ("tags: {a: b}", []),
        ("Tags: [a]", []),
    ],
)
def test_tags_are_read_as_people_write_them(front: str, tags: list[str]) -> None:
    assert parse(f"---\n{front}\n---\n").metadata.tags == tags


@pytest.mark.parametrize(
    ("text", "stamp"),
    [
        ("2026-01-31", "2026-01-31T00:00:00Z"),
        ("2026-01-31 10:00", "2026-01-31T10:00:00Z"),
        ("2026-01-31T10:00:00+02:00", "2026-01-31T08:00:00Z"),
        ("2026-01-31T10:00:00.25-01:30", "2026-01-31T11:30:00.250Z"),
        ("'2026-01-31T10:00:00Z'", "2026-01-31T10:00:00Z"),
        ('"2026-01-31T10:00:00Z"', "2026-01-31T10:00:00Z"),
        ("2026-01-31T10:00:00Z # done", "2026-01-31T10:00:00Z"),
        ("0001-01-01T00:00:00+14:00", None),
        ("9999-12-31T23:59:59-14:00", None),
        ("2026-02-30", None),
        ("soon", None),
        ("[2026-01-31]", None),
        ("", None),
    ],
)
def test_times_are_read_in_utc(text: str, stamp: str | None) -> None:
    for name in ("updated_at", "updated", "modified"):
        assert parse(f"---\n{name}: {text}\n---\n").metadata.updated_at == stamp
    for name in ("created_at", "created", "date"):
        assert parse(f"---\n{name}: {text}\n---\n").metadata.created_at == stamp
    last = "2026-01-31T23:59:59.999Z" if text == "2026-01-31" else stamp  # a day without a time ends with the day
    assert parse(f"---\nexpires_at: {text}\n---\n").metadata.expires_at == last


@pytest.mark.parametrize(
    "front",
    [
        "a: b: c",
        "just text",
        "- a\n- b",
        "a: [1",
        "a: 'x",
        "\ta: b",
        "a: *nowhere",
        "a: b\n...\nc: d",
        "a: &x [*x]",
        "[a]: b\n{c: d}: e",
        "a: \x01",
        "<<<<<<< HEAD\ntags: [a]\n=======\ntags: [b]\n>>>>>>> other",
    ],
)
def test_broken_front_matter_reads_as_it_stands_and_is_not_changed(front: str) -> None:
    text = f"---\n{front}\n---\nbody\n"
    file = parse(text)
    assert file.content == text.removesuffix("\n")
    assert file.metadata == Metadata()
    for content in (None, "new"):
        with pytest.raises(Conflict, match="by hand"):
            rewritten(file, STAMPED, content)


@pytest.mark.parametrize(
    "text", ["---", "---\n", "---\nno end", "----\na: b\n----\n", " ---\na: b\n---\n", "--\na\n--"]
)
def test_text_that_only_starts_like_front_matter_is_the_body(text: str) -> None:
    file = parse(text)
    assert not file.is_broken
    assert file.content == text.removesuffix("\n")


def test_front_matter_ends_at_the_first_line_of_dashes_and_may_be_empty() -> None:
    file = parse("---\ntitle: x\n---\n---\nrule above\n---\n")
    assert (dict(file.fields), file.content) == ({"title": "x"}, "---\nrule above\n---")
    assert parse("---\n---\nbody").content == "body"
    assert parse("---\ntitle: x\n---").content == ""


def test_of_two_keys_alike_nothing_is_lost_silently() -> None:
    text = "---\ntitle: one\ntags: [a]\ntitle: two\ntags: [b]\n---\nbody\n"
    file = parse(text)
    assert file.metadata.tags == ["b"]
    after = rewritten(file, STAMPED, None)
    assert "title: one\n" in after
    assert "title: two\n" in after
    assert parse(after).metadata.tags == ["b"]


@pytest.mark.parametrize(
    ("text", "summary"),
    [
        ("---\nsummary: summed up\ntitle: t\n---\nbody", "summed up"),
        ("---\ndescription: described\n---\nbody", "described"),
        ("---\ntitle: named\n---\nbody", "named"),
        ("---\ntitle:\n---\n\n\n## First  line\nsecond", "First line"),
        ("> - quoted", "quoted"),
        ("x" * 500, "x" * 119 + "…"),
        ("\n \n", ""),
    ],
)
def test_the_summary_is_the_first_description_found(text: str, summary: str) -> None:
    assert parse(text).summary == summary


def test_large_front_matter_takes_no_age() -> None:
    front = "".join(f"key{count}: a value of some length {count}\n" for count in range(2500))
    assert len(front) > 80_000
    started = time.thread_time()
    file = parse(f"---\n{front}---\nbody\n")
    after = rewritten(file, STAMPED, None)
    assert time.thread_time() - started < 5
    assert len(parse(after).fields) == 2501


@pytest.mark.parametrize(
    "text",
    [
        "---\n" * 200_000,
        "---\n" + "a\n" * 500_000,
        "---\n" + "-" * 1_000_000,
        "---" + " \t" * 500_000 + "x",
        "---\n" + "--- x\n" * 200_000,
        "\n" * 1_000_000,
        "---\n" + "\r\n" * 500_000 + "---\n" + "\r" * 500_000,
        "---\nx: " + " " * 1_000_000 + "\n---\n",
        "#" * 1_000_000,
        "---\ntags: '" + ", " * 300_000 + "'\n---\n",
    ],
    ids=range(10),
)
def test_no_text_is_slow_to_read(text: str) -> None:
    started = time.thread_time()
    file = parse(text)
    assert file.opening + file.front + file.closing + file.body == text
    assert len(file.summary) <= frontmatter.MAX_SUMMARY_CHARS
    assert file.metadata.updated_at is None
    assert time.thread_time() - started < 3


def test_ten_anchors_of_ten_are_not_a_billion_texts() -> None:
    levels = [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10) if n else 'lol'}]" for n in range(30)]
    front = "\n".join([*levels, "tags: *l29", "citations: *l0", ""])
    started = time.thread_time()
    file = parse(f"---\n{front}---\nbody")
    assert (file.metadata.tags, file.metadata.citations) == ([], ["lol"])
    after = rewritten(file, STAMPED, None)
    assert front in after
    assert time.thread_time() - started < 2


LEVELS = ["[", "{a: ", "- ", "? ", "a:\n"]
DEEP = """
import sys
from memory_mcp.errors import Conflict
from memory_mcp.families.stores.frontmatter import parse, rewritten
from memory_mcp.families.stores.index_files import author

depth, *levels = sys.argv[1:]
for level in levels:
    closing = {"[": "]", "{a: ": "}"}.get(level, "")
    if level.endswith("\\n"):
        front = "".join(" " * n + level for n in range(min(int(depth), 3000)))
    else:
        front = "a: " * bool(closing) + level * int(depth) + closing * int(depth)
    file = parse(f"---\\n{front}\\n---\\nbody")
    author(front)
    try:
        rewritten(file, {"tags": ["t"]}, None)
    except Conflict:
        pass
    print("alive after", repr(level), file.content.endswith("body"), flush=True)
"""


@pytest.mark.parametrize("depth", [50, 1000, 100_000])
def test_no_depth_of_nesting_ends_the_process(depth: int) -> None:
    """In a process of its own: it is the C stack that overflows."""
    done = subprocess.run(
        [sys.executable, "-c", DEEP, str(depth), *LEVELS],
        capture_output=True,
        text=True,
        check=False,
        env=environment(),
    )
    assert done.stdout.splitlines() == [f"alive after {level!r} True" for level in LEVELS], done.stderr[-500:]
