"""No secret and nothing private is stored."""

import base64
import json
from pathlib import Path

import pytest

from memory_mcp.app import App
from memory_mcp.caller import Caller
from memory_mcp.conversations.redaction import redact
from tests.conversations.conftest import Hook, stored

HEX = "0123456789abcdef" * 4
LETTERS = "aB3dE5gH7jK9mN1pQ3sT5vW7yZ0bC2dF4hJ6kL8nP0rS2uV4xY6zA8cE0gI2kM4o"
PEM = "-----BEGIN {0}PRIVATE KEY-----\n" + "\n".join([LETTERS] * 3) + "\n-----END {0}PRIVATE KEY-----"
JWT = ".".join(
    base64.urlsafe_b64encode(part).decode().rstrip("=") for part in (b'{"alg":"HS256"}', b'{"sub":"1"}', b"s" * 32)
)

# By the kind of secret: how it stands in a message, and the part that must not be on disk. Put together from pieces,
# so that no scanner takes this file for one with secrets.
SECRETS = {
    "AWS key id": ("AKIA" + "IOSFODNN7EXAMPL0", None),
    "AWS secret": ('aws_secret_access_key = "' + LETTERS[:40] + '"', LETTERS[:40]),
    "GitHub classic": ("ghp_" + LETTERS[:36], None),
    "GitHub fine-grained": ("github_pat_" + LETTERS[:50], None),
    "GitLab": ("glpat-" + LETTERS[:20], None),
    "Slack bot": ("xoxb-" + "123456789012-123456789012-" + LETTERS[:24], None),
    "Slack app": ("xapp-1-" + "A0123456789-1234567890123-" + HEX, None),
    "Slack webhook": ("https://hooks.slack.com/services/" + "T00000000/B00000000/" + LETTERS[:24], None),
    "Stripe": ("sk_live_" + LETTERS[:24], None),
    "Twilio": ("SK" + HEX[:32], None),
    "SendGrid": ("SG." + LETTERS[:22] + "." + LETTERS[:43], None),
    "Mailchimp": (HEX[:32] + "-us12", None),
    "npm": ("//packages.example.com/:_authToken=" + "npm_" + LETTERS[:36], LETTERS[:36]),
    "PyPI": ("pypi-" + "AgEIcHlwaS5vcmc" + LETTERS + LETTERS, None),
    "OpenAI": ("sk-proj-" + LETTERS, None),
    "Anthropic": ("sk-ant-api03-" + LETTERS, None),
    "Google API": ("AIza" + LETTERS[:35], None),
    "Google OAuth": ("ya29." + LETTERS[:40], None),
    "Hugging Face": ("hf_" + LETTERS[:34], None),
    "DigitalOcean": ("dop_v1_" + HEX, None),
    "Shopify": ("shpat_" + HEX[:32], None),
    "Databricks": ("dapi" + HEX[:32], None),
    "Discord": ("MTk4NjIyNDgzNDcxOTI1MjQ4" + ".Cl2FMQ." + LETTERS[:27], None),
    "Telegram": ("123456789:" + "AAE" + LETTERS[:32], None),
    "Square": ("sq0csp-" + LETTERS[:43], None),
    "JSON web token": (JWT, None),
    "basic auth": ("postgres://ann:" + "s3cr3tpass" + "@db.example.com/billing", "s3cr3tpass"),
    "RSA key": (PEM.format("RSA "), LETTERS),
    "OpenSSH key": (PEM.format("OPENSSH "), LETTERS),
    "PKCS 8 key": (PEM.format(""), LETTERS),
    "password in quotes": ('password = "' + "correct horse 9" + '"', "correct horse 9"),
    "password without quotes": ("DB_PASSWORD=" + "hunter2hunter2", "hunter2hunter2"),
    "bearer": ("Authorization: Bearer " + LETTERS[:40], LETTERS[:40]),
    "our own key": ("mmcp_" + LETTERS[:12] + "_" + LETTERS[:43], None),
    "Azure storage": ("AccountKey=" + LETTERS + LETTERS[:22] + "==", LETTERS[:40]),
    "Vault": ("hvs." + LETTERS[:40], None),
    "GitHub server": ("ghs_" + LETTERS[:36], None),
    "GitLab runner": ("glrt-" + LETTERS[:20], None),
    "Slack refresh": ("xoxe.xoxp-1-" + LETTERS, None),
    "Stripe test": ("sk_test_" + LETTERS[:24], None),
    "Stripe webhook": ("whsec_" + LETTERS[:32], None),
    "OpenAI without project": ("sk-" + LETTERS[:48], None),
    "Groq": ("gsk_" + LETTERS[:52], None),
    "xAI": ("xai-" + LETTERS, None),
    "Replicate": ("r8_" + LETTERS[:37], None),
    "Atlassian": ("ATATT3xFfGF0" + LETTERS, None),
    "Figma": ("figd_" + LETTERS[:40], None),
    "Airtable": ("pat" + LETTERS[:14] + "." + HEX, None),
    "Supabase": ("sbp_" + HEX[:40], None),
    "Netlify": ("nfp_" + LETTERS[:36], None),
    "Tailscale": ("tskey-auth-" + LETTERS[:16] + "-" + LETTERS[:32], None),
    "Docker": ("dckr_pat_" + LETTERS[:27], None),
    "RubyGems": ("rubygems_" + HEX[:48], None),
    "Terraform": (LETTERS[:14] + ".atlasv1." + LETTERS, None),
    "Pulumi": ("pul-" + HEX[:40], None),
    "CircleCI": ("CCIPAT_" + LETTERS[:22] + "_" + HEX[:40], None),
    "Sonar": ("squ_" + HEX[:40], None),
    "Mailgun": ("key-" + HEX[:32], None),
    "New Relic": ("NRAK-" + "ABCDEFGHIJKLMNOPQRSTUVWXYZ1", None),
    "AWS session": ("aws_session_token=" + LETTERS * 3, LETTERS),
    "Azure signature": ("https://a.blob.core.windows.net/c?sv=2020&sig=" + LETTERS[:43] + "%3D", LETTERS[:43]),
    "variable": ("export API_TOKEN=" + "abcd1234efgh5678", "abcd1234efgh5678"),
    "variable of letters": ("JWT_SECRET=" + "supersecretvalue", "supersecretvalue"),
    "escaped JSON": ('{\\"password\\": \\"' + "hunter3hunter3" + '\\"}', "hunter3hunter3"),
    "sentence": ("my password is " + "hunter4hunter4", "hunter4hunter4"),
    "another language": ("Passwort: " + "hunter5hunter5", "hunter5hunter5"),
    "passphrase": ("passphrase: " + "correct-horse-battery", "correct-horse-battery"),
    "option": ("tool --password " + "hunter6hunter6" + " --fast", "hunter6hunter6"),
    "curl": ("curl -u ann:" + "hunter7hunter7" + " https://example.com", "hunter7hunter7"),
    "MySQL": ("mysql -u root -p" + "hunter8hunter8" + " shop", "hunter8hunter8"),
    "netrc": ("machine example.com login ann password " + "hunter9hunter9", "hunter9hunter9"),
    "Redis": ("redis://:" + "hunter10hunter10" + "@localhost:6379/0", "hunter10hunter10"),
    "parameter": ("https://example.com/cb?access_token=" + "abcd1234efgh5679" + "&x=1", "abcd1234efgh5679"),
    "header": ("curl -H 'X-Api-Key: " + "abcd1234efgh5680" + "' https://example.com", "abcd1234efgh5680"),
    "basic authorization": ("Authorization: Basic " + "YW5uOmh1bnRlcjJodW50ZXIy", "YW5uOmh1bnRlcjJodW50ZXIy"),
    "cookie": ("Cookie: sessionid=" + "abcd1234efgh5681", "abcd1234efgh5681"),
    "password hash": ("root:$6$saltsalt$" + LETTERS + ":18000:0:99999:7:::", LETTERS),
    "Docker login": (
        '"auth": "' + "YW5uOmh1bnRlcjJodW50ZXIyaHVudGVyMg==" + '"',
        "YW5uOmh1bnRlcjJodW50ZXIyaHVudGVyMg==",
    ),
    "random text": ("take " + LETTERS[:32] + " for it", LETTERS[:32]),
}


def test_thirty_kinds_of_secrets_are_nowhere_on_disk(
    app: App, caller: Caller, hook: Hook, elsewhere: Path, tmp_path: Path
) -> None:
    file = elsewhere / "t.jsonl"
    assert len(SECRETS) >= 30
    for number, (text, _) in enumerate(SECRETS.values()):
        tool = [{"type": "tool_result", "tool_use_id": "x", "content": f"found {text} here"}]
        for kind, content in (("m", f"Please use {text} for it."), ("t", tool)):
            message = {"role": "user", "content": content}
            record = {"type": "user", "uuid": f"{kind}{number}", "timestamp": "2029-12-31T00:00:00Z"}
            with file.open("a") as out:
                out.write(json.dumps(record | {"message": message}) + "\n")
    hook("SessionEnd", transcript_path=str(file))
    assert len(stored(app, caller)) == 2 * len(SECRETS)
    on_disk = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    found = [kind for kind, (text, part) in SECRETS.items() if (part or text).encode() in on_disk]
    assert found == []


@pytest.mark.parametrize(
    "text",
    [
        "The commit is 3f786850e387550fdab836ed7e6dc881de23001b in /usr/lib/python3.11/site-packages/memory_mcp.",
        "Our secret: always test first. The password: ask Ann for it.",
        "id 123e4567-e89b-12d3-a456-426614174000, port 5432, http://example.com:8080/path@v2",
        "def check(password: str) -> bool: ...",
        "MAX_TOKENS = 12_000; tokens = count_tokens(text); def sign_in(cookie: str, token: str | None) -> None:",
        "Send it as `Authorization: Bearer mmcp_…`. The token is optional. --token-file FILE, --password-stdin",
        "test_that_two_captures_at_once2_store_nothing_twice ConversationCursorFactoryBean2Builder3 utf8mb4_unicode_ci",
        "const apiKey = process.env.API_KEY; password = os.environ['DB_PASSWORD']",
    ],
)
def test_plain_text_stays_word_for_word(text: str) -> None:
    assert redact(text) == text


def test_private_parts_are_left_out() -> None:
    assert redact("a <private>b\nc</private> d <PRIVATE>never closed") == "a [private] d [private]"
    assert redact("a <private>b <private>c</private> d</private> e") == "a [private] e"
    assert redact('a <private reason="x">b</private> c < /private >') == "a [private] c < /private >"


@pytest.mark.parametrize("start", range(3940, 4020, 8))
def test_a_secret_is_recognised_wherever_a_long_line_is_cut(start: int) -> None:
    """Minified JSON has no space to cut at, and a name may be in another part than its value."""
    token = "ghp_" + LETTERS[:36]
    for text in (f'"{token}","', f'"password" : "{"correct horse 9"}","'):
        line = ('x",' * 2000)[:start] + text + 'y",' * 2000
        for secret in ("ghp_", LETTERS[10:25], "correct horse"):
            assert secret not in redact(line)


def test_a_long_line_takes_no_long_time() -> None:
    text = ('password = "' + "a b" * 5) * 20_000
    assert "a ba b" not in redact(text)[:100]
