"""What secrets look like that detect-secrets 1.5 does not know: tokens in formats that their owners published, values
beside a name or an option that says what they are, and long random text."""

import re
from itertools import pairwise

# The whole match is the secret.
TOKENS = {
    "Anthropic key": r"sk-ant-[\w-]{20,}",
    "OpenAI key": r"sk-(?:proj|svcacct|admin)-[\w-]{20,}|sk-[A-Za-z0-9]{32,}",
    "xAI key": r"xai-[A-Za-z0-9]{40,}",
    "Groq key": r"gsk_[A-Za-z0-9]{40,}",
    "Perplexity key": r"pplx-[A-Za-z0-9]{32,}",
    "Replicate token": r"r8_[A-Za-z0-9]{30,}",
    "Hugging Face token": r"hf_[A-Za-z0-9]{30,}",
    "Google API key": r"AIza[\w-]{35}",
    "Google OAuth token": r"ya29\.[\w-]{20,}|GOCSPX-[\w-]{20,}",
    "GitHub token": r"github_pat_\w{22,}",
    "GitLab token": r"gl(?:dt|rt|cbt|ptt|ft|imt|agent|soat|ffct)-[\w-]{20,}",
    "Atlassian token": r"AT(?:ATT3|CTT3|BB)[\w=-]{24,}",
    "DigitalOcean token": r"do[opr]_v1_[a-f0-9]{64}",
    "Cloudflare token": r"v1\.0-[a-f0-9]{24}-[a-f0-9]{100,}",
    "Heroku key": r"HRKU-[\w-]{30,}",
    "Netlify token": r"nf[pcu]_[A-Za-z0-9]{30,}",
    "Fly token": r"fm[12][ra]?_[\w+/=-]{40,}",
    "Render key": r"rnd_[A-Za-z0-9]{24,}",
    "Supabase key": r"sb(?:p|_secret|_publishable)_[\w-]{20,}",
    "PlanetScale token": r"pscale_(?:tkn|pw|oauth)_[\w.=-]{32,}",
    "Tailscale key": r"tskey-[a-z]+-[\w-]{20,}",
    "Terraform token": r"[A-Za-z0-9]{14}\.atlasv1\.[\w=-]{40,}",
    "Pulumi token": r"pul-[a-f0-9]{40}",
    "CircleCI token": r"CCIP(?:AT|RJ)_[A-Za-z0-9]{10,}_[a-f0-9]{40}",
    "Buildkite token": r"bk(?:ua|ct|at|pt|rc)_[A-Za-z0-9]{20,}",
    "Sonar token": r"sq[upa]_[a-f0-9]{40}",
    "Docker token": r"dckr_(?:pat|oat)_[\w-]{20,}",
    "RubyGems key": r"rubygems_[a-f0-9]{48}",
    "crates.io token": r"\bcio[A-Za-z0-9]{32}\b",
    "NuGet key": r"\boy2[a-z0-9]{43}\b",
    "Shopify token": r"shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}",
    "Stripe key": r"(?:[rsp]k_(?:test|live)|whsec)_[A-Za-z0-9]{16,}",
    "Grafana token": r"gl(?:sa|c)_[\w=+/-]{32,}",
    "New Relic key": r"NR(?:AK|II|RA|AL|BR)-[A-Za-z0-9-]{20,}",
    "Databricks token": r"dapi[a-f0-9]{32}",
    "Linear key": r"lin_(?:api|oauth)_[A-Za-z0-9]{32,}",
    "Notion token": r"ntn_[A-Za-z0-9]{40,}|secret_[A-Za-z0-9]{43}",
    "Figma token": r"fig[du]r?_[\w-]{30,}",
    "Airtable token": r"\bpat[A-Za-z0-9]{14}\.[a-f0-9]{64}",
    "Postman key": r"PMAK-[a-f0-9]{24}-[a-f0-9]{34}",
    "Mailgun key": r"\bkey-[a-f0-9]{32}\b",
    "Segment token": r"sgp_[A-Za-z0-9]{40,}",
    "Facebook token": r"\bEAA[A-Za-z0-9]{30,}",
    "Vault token": r"hv[sbr]\.[\w-]{20,}",
    "1Password token": r"ops_eyJ[\w=+/-]{40,}",
    "Slack token": r"xapp-\d-[A-Z0-9]+-\d+-[a-z0-9]+|xoxe(?:\.xox[bp])?-\d-[\w-]{20,}",
    "Sentry token": r"sntry[su]_[\w=+/-]{30,}",
    "Doppler token": r"dp\.(?:pt|st|ct|sa)\.[A-Za-z0-9.]{40,}",
    "age key": r"AGE-SECRET-KEY-1[A-Z0-9]{50,}",
    "Memory MCP key": r"mmcp_[0-9A-Za-z]{12}_[\w-]{43}",
    "password hash": r"\$(?:apr1|1|2[abxy]|5|6|7|y|argon2\w*)\$[\w./$=,+-]{20,}",
}

_NAME = (
    r"(?:token|secret|passw(?:or)?d|passwort|passphrase|pwd|credentials?"
    r"|(?:api|auth|access|private|secret|signing|encryption|account|master)[\s_-]?key|(?:client[\s_-])?key[\s_-]?data)"
)
_OPEN, _VALUE = r"""[\\"'`]*""", r"""([^\s"'`\\,;&|<>(){}\[\]$]{6,})"""

# The first group is the secret. Where a name stands in prose as well, the value must look like no word.
PLAIN_VALUES = {
    "password in an address": r"[a-z][a-z0-9+.-]*://[^\s/:@]*:([^\s/@]+)@",
    "parameter of an address": r"(?i:[?&](?:[\w-]*token|sig(?:nature)?|[\w-]*secret|passw(?:or)?d|[\w-]*api_?key"
    r"|x-amz-(?:signature|credential))=)([^\s&#\"'<>]{8,})",
    "parameter of an authorization": r"(?i:\bsig=)([^\s&#\"'<>]{20,})",
    "authorization": r"(?i:authorization[\"']?\s*[:=]\s*[\"']?(?:basic|bearer|digest|token|apikey|ssws|aws4-[\w-]+)\s+)"
    r"([^\s\"'`…<$]{8,})",
    "bearer token": r"(?i:bearer)\s+([\w.~+/=-]{20,})",
    "key of an API": r"(?i:\bx-(?:[a-z]+-)*(?:key|token|secret)[\"']?\s*:\s*[\"']?)([^\s\"']{8,})",
    "cookie": r"(?i:\b(?:set-)?cookie:\s*)([\w.-]+=[^\n\"']{8,})",
    "password of curl": r"(?i:\bcurl\b[^\n]*?\s(?:-u|--user)[\s=]+[\"']?[^\s:\"']+:)([^\s\"']+)",
    "password of MySQL": r"(?i:\b(?:mysql\w*|mariadb\w*)\b[^\n]*?\s-p)([^\s\"']{4,})",
    "password of a machine": r"(?i:\blogin\s+\S+\s+password\s+)(\S+)",
    "value of an option": rf"--?(?i:[\w-]*{_NAME})[\s=]+[\"']?(?!-)([^\s\"'$<]{{6,}})",
    "value of a variable": r"\b[A-Z][A-Z0-9_]*(?:TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|(?:API|ACCESS|PRIVATE"
    r"|SECRET|SIGNING|ENCRYPTION)_KEY)=[\"']?([^\s\"'$<({]{6,})",
    "login of a registry": r"(?:\"auth\"|_auth|_password)[\"']?\s*[:=]\s*[\"']?([A-Za-z0-9+/=]{16,})",
    "value in quotes": r"(?i:(?:secret|passw(?:or)?d|passwort|passphrase|pwd|api[\s_-]?key)[\"']?\s*[:=]\s*[\"'])"
    r"([^\"'\n]{6,})[\"']",
    "passphrase": r"(?i:passphrase\s*[:=]\s*)([^\s\"']*[-\d][^\s\"']*)",
}
WORDLIKE_VALUES = {
    "named value": rf"(?i:{_NAME}){_OPEN}\s*(?:=>|:=|=|:)\s*{_OPEN}{_VALUE}",
    "value in a sentence": rf"(?i:\b{_NAME}\s+(?:is|was|ist|lautet)\s*:?\s+){_OPEN}{_VALUE}",
}

RANDOM = re.compile(r"(?<![\w+/=-])[A-Za-z0-9_+/=-]{24,}(?![\w+/=-])")
MIN_CHANGES = 0.42
"""Of neighbouring characters, the share whose kind differs (small, capital, digit): about 0.6 in random text and up to
0.35 in names such as camelCase. Commits, digests and UUIDs have no capitals."""


def is_random(text: str) -> bool:
    """Whether a long word was made by a random generator: it mixes small letters, capitals and digits."""
    kinds = [0 if one.islower() else 1 if one.isupper() else 2 for one in text if one.isalnum()]
    changes = sum(before != after for before, after in pairwise(kinds))
    return len(set(kinds)) == 3 and len(kinds) >= 20 and changes / len(kinds) >= MIN_CHANGES
