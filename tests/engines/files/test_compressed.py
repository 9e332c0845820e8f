"""Compressed files that become far more than they are."""

import gzip
import io
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest

from memory_mcp.engines.files import compressed
from memory_mcp.engines.files.compressed import BoundedZip, ExpansionBudget
from memory_mcp.errors import Invalid
from tests.processes import environment, run

MB = 1_000_000


@pytest.fixture(autouse=True)
def small_allowance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compressed, "MIN_EXPANDED_BYTES", MB)


def zipped(path: Path, **files: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def test_a_zip_is_read_as_far_as_it_may_become(tmp_path: Path) -> None:
    with BoundedZip(zipped(tmp_path / "x.zip", a=b"1\n" * 1000, b=b"2" * 900_000)) as archive:
        with archive.open("a") as lines:
            assert sum(1 for _ in lines) == 1000
        with archive.open("b") as stream:
            assert len(stream.read()) == 900_000
        with archive.open("b") as again, pytest.raises(Invalid) as caught:  # what is read twice counts twice
            again.read()
    assert caught.value.code == "too_large"


@pytest.mark.parametrize("count", [1, 30])
def test_a_zip_that_says_that_it_is_too_large_is_not_opened(tmp_path: Path, count: int) -> None:
    path = zipped(tmp_path / "x.zip", **{f"f{number}": bytes(60 * MB // count) for number in range(count)})
    with pytest.raises(Invalid) as caught:
        BoundedZip(path)
    assert caught.value.code == "too_large"


def test_a_zip_with_a_false_size_gives_no_more_than_it_states(tmp_path: Path) -> None:
    """The headers say 10 bytes, the content is 50 MB."""
    content = bytes(50 * MB)
    path = zipped(tmp_path / "x.zip", a=content)
    data = path.read_bytes().replace(len(content).to_bytes(4, "little"), (10).to_bytes(4, "little"))
    path.write_bytes(data)
    with BoundedZip(path) as archive, suppress(zipfile.BadZipFile):  # its checksum is that of all of it
        assert len(archive.open("a").read()) <= 10


def test_a_zip_of_too_many_files_or_of_another_method_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with zipfile.ZipFile(tmp_path / "lzma.zip", "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("a", "x")
    with pytest.raises(Invalid, match="other than deflate"):
        BoundedZip(tmp_path / "lzma.zip")
    monkeypatch.setattr(compressed, "MAX_ZIP_ENTRIES", 2)
    with pytest.raises(Invalid) as caught:
        BoundedZip(zipped(tmp_path / "x.zip", a=b"", b=b"", c=b""))
    assert caught.value.code == "too_large"


def test_a_gzip_file_is_read_as_far_as_it_may_become() -> None:
    packed = gzip.compress(b"x\n" * 5 * MB)
    with compressed.open_gzip(io.BytesIO(packed), len(packed)) as stream, pytest.raises(Invalid):
        for _ in compressed.lines(stream):
            pass


def test_a_line_that_is_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compressed, "MAX_LINE_BYTES", 10)
    assert list(compressed.lines(io.BytesIO(b"123456789\n1"))) == [b"123456789\n", b"1"]
    with pytest.raises(Invalid):
        list(compressed.lines(io.BytesIO(b"1234567890\n")))


def test_nested_zips_share_one_budget(tmp_path: Path) -> None:
    inner = zipped(tmp_path / "inner.zip", a=bytes(900_000)).read_bytes()
    with BoundedZip(zipped(tmp_path / "x.zip", one=inner, two=inner)) as outer:
        for name, is_left in (("one", True), ("two", False)):
            with BoundedZip(outer.open(name), outer.budget) as nested, nested.open("a") as stream:
                if is_left:
                    assert len(stream.read()) == 900_000
                else:
                    with pytest.raises(Invalid):
                        stream.read()


def test_how_much_a_file_may_become_grows_with_it() -> None:
    assert ExpansionBudget(10).max_bytes == MB
    assert ExpansionBudget(MB).max_bytes == 100 * MB


@pytest.fixture(scope="module")
def bomb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A zip of zeros, made without holding them in memory."""
    path = tmp_path_factory.mktemp("bomb") / "bomb.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name in ("conversations.json", "export.json"):
            with archive.open(name, "w") as file:
                for _ in range(510):
                    file.write(bytes(MB))
    return path


@pytest.mark.parametrize("format_", ["chatgpt", "memory-mcp"])
def test_the_command_line_unpacks_no_bomb(tmp_path: Path, bomb: Path, format_: str) -> None:
    arguments = ["import", format_, bomb, "--data-dir", tmp_path / "data", "--json"]
    done = run(*arguments, env=environment(TMPDIR=str(tmp_path)))
    assert done.returncode == 1
    assert "unpacks to more than" in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.glob("memory-mcp-*"))
