import pytest

from memory_mcp.engines.postgres.dialect import returns_rows, translate


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT :a, x FROM t WHERE y = :b AND z = :a", "SELECT $1, x FROM t WHERE y = $2 AND z = $1"),
        ("SELECT ':' || x, y::text, '12:30' FROM t", "SELECT ':' || x, y::text, '12:30' FROM t"),
        ("ON CONFLICT (id) DO NOTHING", "ON CONFLICT (tenant, id) DO NOTHING"),
        ("ON CONFLICT DO NOTHING", "ON CONFLICT DO NOTHING"),
        ("WHERE +archived = 0 AND 1 + x > 2", "WHERE archived = 0 AND 1 + x > 2"),
        ("FROM notes INDEXED BY by_time WHERE TRUE", "FROM notes  WHERE TRUE"),
        (
            "FROM json_each(texts) AS one CROSS JOIN t ON t.x = one.value",
            "FROM json_each(texts) AS one JOIN t ON t.x = one.value",
        ),
        ("substr(CAST(t.x AS BLOB), 2), CAST(y AS BIGINT)", "substr(convert_to(t.x, 'UTF8'), 2), CAST(y AS BIGINT)"),
        ("FROM a CROSS JOIN b WHERE TRUE", "FROM a CROSS JOIN b WHERE TRUE"),
    ],
)
def test_statements_are_translated(sql: str, expected: str) -> None:
    assert translate(sql, {"a": 1, "b": 2})[0].decode() == expected


def test_lists_become_arrays() -> None:
    sql = (
        "id IN (SELECT value FROM json_each(:ids)) AND seq NOT IN (SELECT CAST(value AS BIGINT) FROM json_each(:seqs))"
    )
    text, values = translate(sql, {"ids": '["a"]', "seqs": "[1, 2]"})
    assert text.decode() == "id = ANY ($1::text[]) AND seq <> ALL ($2::bigint[])"
    assert values == [["a"], "{1, 2}"]


def test_json_each_of_a_list_becomes_an_array_of_texts() -> None:
    text, values = translate(
        "SELECT wanted.key FROM json_each(:ids) AS wanted", {"ids": '["a", 1, {"x": "\u00fc"}, null]'}
    )
    assert "unnest($1::text[]) WITH ORDINALITY" in text.decode()
    assert values == [["a", "1", '{"x": "ü"}', None]]


def test_which_statements_return_rows() -> None:
    assert all(map(returns_rows, ("SELECT 1", "\n  WITH x AS (SELECT 1) SELECT 2", "DELETE FROM t RETURNING id")))
    assert not any(map(returns_rows, ("DELETE FROM t", "\n  UPDATE t SET x = 1", "INSERT INTO t SELECT 1")))
