"""Every page has its pictures, and the docs show them."""

from tests.web.pictures import PICTURES, SHOWN, THEMES


def test_every_picture_is_there_and_shown() -> None:
    names = {f"{name}-{theme}.png" for name in SHOWN for theme in THEMES}
    shown = (PICTURES.parent / "web.md").read_text("utf-8")
    assert {file.name for file in PICTURES.glob("*.png")} == names
    assert [name for name in sorted(names) if f"pictures/{name}" not in shown] == []
