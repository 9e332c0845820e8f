"""Every page has its pictures, and the docs show them."""

from tests.web.pictures import PICTURES, SHOWN, SIZES, THEMES


def test_every_picture_is_there_and_shown() -> None:
    names = {f"{name}{size}-{theme}.png" for name in SHOWN for size in SIZES for theme in THEMES}
    design = {f"design-{theme}.png" for theme in THEMES}
    shown = (PICTURES.parent / "web.md").read_text("utf-8")
    assert {file.name for file in PICTURES.glob("*.png")} == names | design
    of_design = (PICTURES.parent / "web-design.md").read_text("utf-8")
    assert [name for name in sorted(design) if f"pictures/{name}" not in of_design] == []
    assert [name for name in sorted(names) if f"pictures/{name}" not in shown] == []
