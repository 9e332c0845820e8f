"""A software bill of materials of what a user installs: `make sbom` writes dist/sbom-*.cdx.json, in CycloneDX.

From the pinned requirements with their hashes, so it names exactly what pip installs and checks.
"""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
SETS = {
    "base": "requirements.txt",
    "portals": "requirements-portals.txt",
    "postgres": "requirements-postgres.txt",
    "clickhouse": "requirements-clickhouse.txt",
    "clone": "requirements-run.txt",
}
"""What each way to install brings along: the package, each of its extras, and `make run` in a clone."""


def main() -> None:
    folder = ROOT / "dist"
    folder.mkdir(exist_ok=True)
    for name, requirements in SETS.items():
        target = folder / f"sbom-{name}.cdx.json"
        options = (
            "--pyproject",
            str(ROOT / "pyproject.toml"),
            "--output-reproducible",
            "--of",
            "JSON",
            "-o",
            str(target),
        )
        command = [sys.executable, "-m", "cyclonedx_py", "requirements", str(ROOT / requirements), *options]
        subprocess.run(command, check=True)
        components = json.loads(target.read_text(encoding="utf-8"))["components"]
        hashed = [one for one in components if _has_hash(one)]
        print(f"{target.relative_to(ROOT)}: {len(components)} packages, {len(hashed)} with hashes")
        if len(hashed) != len(components):
            raise SystemExit("A package has no hash.")


def _has_hash(component: dict[str, list[dict[str, list[object]]]]) -> bool:
    return any(reference.get("hashes") for reference in component.get("externalReferences", []))


if __name__ == "__main__":
    main()
