"""Removes secrets, and text that the user marked as private, before a text is stored.

detect-secrets recognises the secrets. Its detectors are used as patterns alone: nothing is verified over a network.
It is imported with the first text, because only a capture needs it.
"""

import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, cast

PRIVATE = "[private]"
MAX_LINE_CHARS = 4000  # of a line that is searched for secrets at once
MIN_BARE_SECRET_CHARS = 6  # of a value without quotes

_PRIVATE = re.compile(r"<private>.*?(?:</private>|\Z)", re.DOTALL | re.IGNORECASE)
_PRIVATE_KEY = re.compile(r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----.*?(?:-----END [A-Z0-9 ]+-----|\Z)", re.DOTALL)
_PUTTY_KEY = re.compile(r"PuTTY-User-Key-File-\d.*?(?:Private-MAC: \S+|\Z)", re.DOTALL)
_VARIABLE = re.compile(r"[A-Za-z_]+(?:\.[A-Za-z_]+)+[\[(]?")  # such as process.env.API_KEY
_UNLIKELY = {"IPPublicDetector", "HexHighEntropyString", "Base64HighEntropyString", "PrivateKeyDetector"}
"""Detectors that are not used: addresses are no secrets, high entropy is that of every commit and path as well, and
private keys are left out as whole blocks."""

# Formats that their owners published and detect-secrets 1.5 does not know.
_FURTHER = {
    "Anthropic key": r"sk-ant-[\w-]{20,}",
    "OpenAI key": r"sk-(?:proj|svcacct|admin)-[\w-]{20,}",
    "Google API key": r"AIza[\w-]{35}",
    "Google OAuth token": r"ya29\.[\w-]{20,}|GOCSPX-[\w-]{20,}",
    "GitHub token": r"github_pat_\w{22,}",
    "Hugging Face token": r"hf_[A-Za-z0-9]{30,}",
    "DigitalOcean token": r"do[opr]_v1_[a-f0-9]{64}",
    "Shopify token": r"shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}",
    "Grafana token": r"gl(?:sa|c)_[\w=+/-]{32,}",
    "Databricks token": r"dapi[a-f0-9]{32}",
    "Linear key": r"lin_api_[A-Za-z0-9]{32,}",
    "Notion token": r"ntn_[A-Za-z0-9]{40,}|secret_[A-Za-z0-9]{43}",
    "Postman key": r"PMAK-[a-f0-9]{24}-[a-f0-9]{34}",
    "Vault token": r"hv[sbr]\.[\w-]{20,}",
    "Slack token": r"xapp-\d-[A-Z0-9]+-\d+-[a-z0-9]+",
    "Sentry token": r"sntry[su]_[\w=+/-]{30,}",
    "Doppler token": r"dp\.(?:pt|st|ct|sa)\.[A-Za-z0-9.]{40,}",
    "age key": r"AGE-SECRET-KEY-1[A-Z0-9]{50,}",
    "Memory MCP key": r"mmcp_[0-9A-Za-z]{12}_[\w-]{43}",
    "bearer token": r"(?i:bearer)\s+[\w.~+/=-]{20,}",
}


def redact(text: str) -> str:
    """The text without private parts, and with the kind of each secret in its place."""
    text = _PRIVATE.sub(PRIVATE, text)
    for block in (_PRIVATE_KEY, _PUTTY_KEY):
        text = block.sub(_mark("Private Key"), text)
    return "".join(_redact_line(piece) for line in text.splitlines(keepends=True) for piece in _pieces(line))


def _pieces(line: str) -> Iterator[str]:
    """Parts of a long line, cut at spaces, so that the patterns stay fast."""
    while len(line) > MAX_LINE_CHARS:
        end = line.rfind(" ", 1, MAX_LINE_CHARS)
        end = MAX_LINE_CHARS if end < 0 else end
        yield line[:end]
        line = line[end:]
    yield line


def _redact_line(line: str) -> str:
    for kind, pattern in _patterns():
        line = pattern.sub(_mark(kind), line)
    for secret in _named_secrets(line):
        line = line.replace(secret, _mark("Secret Keyword"))
    return line


def _mark(kind: str) -> str:
    return f"[secret: {kind}]"


@cache
def _patterns() -> list[tuple[str, re.Pattern[str]]]:
    from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class
    from detect_secrets.plugins.base import RegexBasedDetector

    further = [(kind, re.compile(pattern)) for kind, pattern in _FURTHER.items()]
    known = [
        (str(detector.secret_type), pattern)
        for detector in cast(Iterable[Any], get_mapping_from_secret_type_to_class().values())
        if issubclass(detector, RegexBasedDetector) and detector.__name__ not in _UNLIKELY
        for pattern in detector().denylist
    ]
    return further + known


def _named_secrets(line: str) -> Iterator[str]:
    """Values of names such as password. One without quotes must look like a secret, since prose has such names, too."""
    from detect_secrets.plugins import keyword

    if not _keywords().search(line):
        return
    yield from filter(None, keyword.KeywordDetector().analyze_string(line))
    for pattern, group in keyword.CONFIG_DENYLIST_REGEX_TO_GROUP.items():
        for found in pattern.finditer(line):
            value = (found[group] or "").split(maxsplit=1)[:1]
            if value and not value[0].startswith("[secret:") and _looks_secret(value[0]):
                yield value[0].rstrip(".,;)")


def _looks_secret(value: str) -> bool:
    bare = value.rstrip(".,;:!?)")
    return len(value) >= MIN_BARE_SECRET_CHARS and not bare.isalpha() and not _VARIABLE.fullmatch(bare)


@cache
def _keywords() -> re.Pattern[str]:
    from detect_secrets.plugins import keyword

    return re.compile("|".join(keyword.DENYLIST), re.IGNORECASE)
