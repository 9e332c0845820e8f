"""Parts of statements that all modules share."""

# A record that does not fit is refused with its whole batch: no value is changed or dropped.
STRICT_SETTINGS = {
    "input_format_skip_unknown_fields": 0,
    "input_format_json_read_numbers_as_strings": 0,
    "input_format_json_read_bools_as_numbers": 0,
    "input_format_json_read_bools_as_strings": 0,
    "input_format_json_read_arrays_as_strings": 0,
    "input_format_json_read_objects_as_strings": 0,
    "input_format_try_infer_dates": 0,  # a text inside of an object stays the text it is
    "input_format_try_infer_datetimes": 0,
    "input_format_parallel_parsing": 0,
    "max_insert_block_size": 10_000_000,
    "async_insert": 0,
}
# For columns that the caller of an import wants as text
CONVERTING_SETTINGS = {
    "input_format_json_read_numbers_as_strings": 1,
    "input_format_json_read_bools_as_strings": 1,
}


def quote(name: str) -> str:
    return "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"


def quote_table(name: str, database: str | None) -> str:
    """A table of the portal, or of another database."""
    return f"{database}.{quote(name)}" if database else quote(name)


TEXT_TYPES = {"String", "Nullable(String)", "Array(String)", "Array(Nullable(String))"}
FORMATS = {"json": "JSONEachRow", "csv": "CSVWithNames", "parquet": "Parquet"}
UNKNOWN_TABLE = 60
NO_SUCH_COLUMN, COLUMN_TWICE = 16, 15  # of an INSERT that names its columns
NULL_ERROR = 349  # the code of a null where there must be none
INFERENCE_SETTINGS = """
    schema_inference_make_columns_nullable = 1, schema_inference_use_cache_for_file = 0,
    input_format_max_rows_to_read_for_schema_inference = 1000000,
    input_format_max_bytes_to_read_for_schema_inference = 268435456,
    input_format_try_infer_dates = 1, input_format_try_infer_datetimes_only_datetime64 = 1,
    input_format_json_try_infer_named_tuples_from_objects = 1,
    input_format_json_use_string_type_for_ambiguous_paths_in_named_tuples_inference_from_objects = 1
"""
