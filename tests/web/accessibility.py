"""Accessibility of pages, checked with axe."""

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Frame, Page

RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}


def assert_accessible(page: Page | Frame) -> None:
    found = Axe().run(page, options=RULES)
    assert found.violations_count == 0, found.generate_report()
