"""Several tables in one zip: a file for each, called as its table is. Runs in a worker process."""

import zipfile
from pathlib import Path

PACKED_ALREADY = ".parquet"  # what the names of files end with that deflate makes no smaller


def add(path: Path | str, file: Path | str, name: str) -> None:
    """Add a file to a zip, which is made if it is missing."""
    method = zipfile.ZIP_STORED if name.endswith(PACKED_ALREADY) else zipfile.ZIP_DEFLATED
    with zipfile.ZipFile(path, "a") as archive:
        archive.write(file, name, compress_type=method)
