import json
import subprocess
import sys

LOADED = "import json, sys, memory_mcp.__main__, memory_mcp.relay.main; print(json.dumps(sorted(sys.modules)))"
SLOW = {"asyncio", "dataclasses", "logging", "pathlib", "subprocess", "threading", "tomllib", "typing"}


def test_the_relay_imports_the_standard_library_only_and_little_of_it() -> None:
    done = subprocess.run([sys.executable, "-S", "-c", LOADED], capture_output=True, check=True, env=_path())
    loaded = set(json.loads(done.stdout))

    foreign = {name for name in loaded if name.partition(".")[0] not in sys.stdlib_module_names | {"__main__"}}
    assert {name for name in foreign if not name.startswith("memory_mcp.relay")} == {
        "memory_mcp",
        "memory_mcp.__main__",
        "memory_mcp.system",
        "memory_mcp.system.unix_sockets",
    }
    assert not loaded & SLOW


def _path() -> dict[str, str]:
    """Without site-packages, an import of anything else fails."""
    from memory_mcp import relay

    return {"PYTHONPATH": str(relay.__path__[0]).removesuffix("/memory_mcp/relay")}
