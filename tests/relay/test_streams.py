from memory_mcp.relay.streams import LineBuffer


def test_lines_are_found_across_chunks() -> None:
    lines = LineBuffer()
    chunks = (b"on", b"e\ntwo\n\nth", b"", b"ree", b"\n", b"rest")
    assert [lines.add(chunk) for chunk in chunks] == [[], [b"one", b"two", b""], [], [], [b"three"], []]
    assert lines.take_partial() == b"rest"
    assert lines.add(b"next\n") == [b"next"]
