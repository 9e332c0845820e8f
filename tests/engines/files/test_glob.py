import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from memory_mcp.engines.files.glob import find


def test_a_folder_that_vanishes_during_the_search_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("stays", "vanishes"):
        (tmp_path / name / "staging").mkdir(parents=True)
        (tmp_path / name / "staging" / "export-1").touch()
    scandir = os.scandir

    def delete_first(path: Any) -> Any:
        if not isinstance(path, int) and Path(path) == tmp_path / "vanishes" / "staging":
            shutil.rmtree(tmp_path / "vanishes")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", delete_first)

    assert list(find(tmp_path, "*/staging/export-*")) == [tmp_path / "stays" / "staging" / "export-1"]


def test_hidden_files_and_a_missing_folder(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / ".lock").touch()

    assert list(find(tmp_path, "*/.lock")) == [tmp_path / "a" / ".lock"]
    assert list(find(tmp_path / "missing", "*")) == []
