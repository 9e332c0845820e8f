"""The rule of `make bench-peers`, and what it writes. The servers themselves are measured by the benchmark."""

import re
from pathlib import Path

import pytest
from benchmarks.peers import report
from benchmarks.peers.adapters import Adapter, fill
from benchmarks.peers.chart import PANELS, chart
from benchmarks.peers.facts import Form, facts
from benchmarks.peers.installation import link_model
from benchmarks.peers.results import Kept, Recall, Result, ResultFiles, Searches, Spread, Writes
from benchmarks.peers.rows import Lead, excuse_for, excuses, leads
from benchmarks.peers.servers import FROM_REGISTRY, OURS, PEERS

OUR_NAME = "ours"
FAMILIES = "| row | peer | reason |\n| --- | --- | --- |\n"


def result(name: str, *, write_s: float = 0.003, search_s: float = 0.002, hits: float = 1.0, lost: int = 0) -> Result:
    """As of a server that was measured in every row."""
    return Result(
        name,
        version="1.0",
        tools=3,
        tools_tokens=900,
        start_s=Spread(0.5, 0.4, 0.6),
        first_answer_s=Spread(0.6, 0.5, 0.7),
        second_client_s=0.4,
        writes=Writes(1000, 0, Spread(write_s, write_s * 0.9, write_s * 1.1), write_s),
        searches={form: Searches(hits, Spread(search_s, search_s * 0.9, search_s * 1.1), search_s) for form in Form},
        memory_bytes=80_000_000,
        disk_bytes=2_000_000,
        two_clients=Kept(200, 200, 200 - lost),
        killed=Kept(200, 104, 104),
        recall=Recall(383, 0, 0.8, 0.7, 0.01, 1800),
    )


def led_rows(peer: Result, ours: Result) -> set[str]:
    return {lead.row for lead in leads({OUR_NAME: ours}, [(peer, OUR_NAME)])}


def test_a_peer_that_is_better_in_every_repeat_is_ahead() -> None:
    ours = result(OUR_NAME)
    assert led_rows(result("faster", write_s=0.002), ours) == {"write, p50", "write, CPU"}
    assert led_rows(result("equal"), ours) == set()
    # Its p50 overlaps with ours between repeats; CPU has no repeats, and 6 % count.
    assert led_rows(result("hardly", write_s=0.00281), ours) == {"write, CPU"}


def test_disk_is_compared_by_write() -> None:
    slow = result("slow")
    slow.writes, slow.disk_bytes = Writes(400, 0, Spread(0.6, 0.5, 0.7), 0.6), 1_000_000
    assert led_rows(slow, result(OUR_NAME)) == set()
    slow.disk_bytes = 700_000
    assert led_rows(slow, result(OUR_NAME)) == {"disk"}


def test_a_peer_that_loses_acknowledged_writes_is_never_ahead() -> None:
    assert led_rows(result("loses", write_s=0.001, lost=1), result(OUR_NAME)) == set()
    unknown = result("unknown", write_s=0.001)
    unknown.killed = None
    assert led_rows(unknown, result(OUR_NAME)) == set()


def test_on_a_busy_machine_only_cpu_times_are_compared() -> None:
    ours, peer = result(OUR_NAME), result("faster", write_s=0.002)
    peer.load = 1000.0
    assert led_rows(peer, ours) == {"write, CPU"}
    peer.load = 0.5
    assert led_rows(peer, ours) == {"write, p50", "write, CPU"}


def test_the_time_of_searches_that_find_little_is_no_lead() -> None:
    ours = result(OUR_NAME)
    searches = {f"search by {form}, {what}" for form in Form for what in ("p50", "CPU")}
    assert led_rows(result("finds", search_s=0.001, hits=0.95), ours) == searches
    assert led_rows(result("guesses", search_s=0.001, hits=0.5), ours) == set()


def test_excuses_are_read_from_the_page() -> None:
    page = f"""\
| write, p50 | outside | another table |

### Where a peer may be ahead

Text before the table.

{FAMILIES}| write, p50 | one, other | writes are durable |
| memory | every peer | five families |

### Measured

| disk | one | another table |
"""
    given = excuses(page)
    assert given == {
        ("write, p50", "one"): "writes are durable",
        ("write, p50", "other"): "writes are durable",
        ("memory", "every peer"): "five families",
    }
    assert excuse_for(Lead("write, p50", "other", 1, 2), given) == "writes are durable"
    assert excuse_for(Lead("memory", "third", 1, 2), given) == "five families"
    assert excuse_for(Lead("write, p50", "third", 1, 2), given) == ""


def test_an_excuse_for_a_row_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="no row 'speed'"):
        excuses(f"\n### Where a peer may be ahead\n{FAMILIES}| speed | one | it is fast |\n")


def test_the_excuses_of_the_page_name_rows_and_peers_that_exist() -> None:
    known = {adapter.name for adapter in PEERS} | {"every peer"}
    assert {peer for _, peer in excuses(report.PAGE.read_text(encoding="utf-8"))} <= known


def test_tables_have_a_line_for_each_server_and_say_what_did_not_work() -> None:
    broken = Result("broken", problem="it did not start")
    text = report.tables([result(OUR_NAME), result("peer"), broken], {"peer": "Without its model."})
    lines = [line for line in text.splitlines() if line.startswith("| peer ")]
    assert len(lines) == len([line for line in text.splitlines() if line.startswith("**")]) == 5
    assert "0.50 (0.40–0.60)" in lines[0]
    assert "3.0 (2.7–3.3)" in lines[1]
    assert "200 of 200" in lines[3]
    assert "0.800" in lines[4]
    assert "| broken" not in text
    assert "- peer: Without its model." in text
    assert "- broken: it did not start" in text


def test_tables_replace_what_stood_between_the_marks() -> None:
    page = f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n"
    written = report.write_page(page, "new")
    assert written == f"before\n{report.BEGIN}\nnew\n{report.END}\nafter\n"
    assert report.write_page(written, "new") == written
    with pytest.raises(ValueError, match="lacks"):
        report.write_page("a page without marks", "new")


def test_leads_are_listed_with_whether_they_are_excused() -> None:
    table = report.leads_table([Lead("memory", "one", 5e7, 9e7), Lead("disk", "one", 1e6, 2e6)], {("disk", "one"): "r"})
    assert [line.split(" | ")[-1].strip(" |") for line in table.splitlines()[2:]] == ["**no**", "yes"]


def test_the_chart_has_a_bar_for_each_server_in_each_panel() -> None:
    drawn = chart([result(OUR_NAME), result("peer & more")], [OUR_NAME], "today")
    assert re.findall(r'<rect .*class="(\w+)"/>', drawn) == ["ours", "theirs"] * len(PANELS)
    assert drawn.count("peer &amp; more") == len(PANELS)


def test_facts_are_the_same_each_time_and_each_has_a_text_of_its_own() -> None:
    once = facts(1500)
    assert once == facts(1500)
    assert len({fact.text for fact in once}) == len({fact.key for fact in once}) == 1500
    assert all(fact.queries[Form.NAME] in fact.text for fact in once)


@pytest.mark.parametrize("adapter", [*OURS, *PEERS], ids=lambda adapter: adapter.name)
def test_every_part_of_a_request_is_filled_in(adapter: Adapter) -> None:
    for request in (adapter.write, adapter.search, adapter.read):
        _, arguments = fill(request, key="k", kind="fact", text="a {brace}", id="i", query="q")
        assert re.findall(r"\{\w+\}", str(arguments).replace("{brace}", "")) == []


def test_ids_are_recognized_in_answers() -> None:
    by_name = {adapter.name: adapter for adapter in PEERS}
    keeper, mnemosyne = by_name["mcp-memory-keeper"], by_name["mnemosyne-memory"]
    assert keeper.ids_in("Found 1 results:\n\n• [normal] Fjordmill-owner-3 (note)\n  The owner of...") == [
        "Fjordmill-owner-3"
    ]
    assert mnemosyne.id_of("key", '{"status": "stored", "memory_id": "b5a32f9a"}') == "b5a32f9a"
    assert mnemosyne.is_refusal('{"status": "error", "message": "database is locked"}')


def test_a_model_is_placed_where_a_peer_looks_for_it(tmp_path: Path) -> None:
    model, revision = tmp_path / "model", "0" * 40
    model.mkdir()
    (model / "model.onnx").write_bytes(b"weights")
    plain, snapshot = tmp_path / "onnx_models" / "onnx", tmp_path / "models--one--two" / "snapshots" / revision
    for folder in (plain, snapshot):
        link_model(model, folder)
        assert (folder / "model.onnx").samefile(model / "model.onnx")
    assert (tmp_path / "models--one--two" / "refs" / "main").read_text() == revision
    assert not (tmp_path / "refs").exists()


def test_a_peer_with_a_model_from_a_registry_says_so() -> None:
    assert [adapter.name for adapter in PEERS if adapter.model_folder and FROM_REGISTRY not in adapter.note] == []


def test_a_run_is_continued_with_the_results_of_as_many_writes(tmp_path: Path) -> None:
    files, measured = ResultFiles(tmp_path / "results", 1000), result("Memory MCP, notes")
    assert files.read(measured.name) is None
    files.save(measured)
    assert files.read(measured.name) == measured
    assert ResultFiles(tmp_path / "results", 50).read(measured.name) is None
    files.delete(measured.name)
    assert files.read(measured.name) is None
