"""Has @modelcontextprotocol/server-memory write a graph: python make_server_memory.py SERVER FOLDER."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

GRAPH: list[tuple[str, dict[str, Any]]] = [
    (
        "create_entities",
        {
            "entities": [
                {"name": "Ann", "entityType": "person", "observations": ["likes tea", "spielt Schach – gern"]},
                {"name": "Postgres", "entityType": "technology", "observations": []},
                {"name": "Bob", "entityType": "person", "observations": ["left the team"]},
            ]
        },
    ),
    ("add_observations", {"observations": [{"entityName": "Postgres", "contents": ["runs on port 5433"]}]}),
    (
        "create_relations",
        {
            "relations": [
                {"from": "Ann", "to": "Postgres", "relationType": "administers"},
                {"from": "Ann", "to": "Unknown", "relationType": "knows"},
            ]
        },
    ),
    ("delete_entities", {"entityNames": ["Bob"]}),
]


def main(server: str, folder: Path) -> None:
    environment = {**os.environ, "MEMORY_FILE_PATH": str(folder / "memory.jsonl")}
    command = ["node", server]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as running:
        client = {"name": "memory-mcp-tests", "version": "1"}
        ask(running, 0, "initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client})
        for number, (name, arguments) in enumerate(GRAPH, start=1):
            answer = ask(running, number, "tools/call", {"name": name, "arguments": arguments})
            assert not answer["result"].get("isError"), answer
        running.terminate()


def ask(running: "subprocess.Popen[str]", number: int, method: str, parameters: dict[str, Any]) -> dict[str, Any]:
    assert running.stdin is not None
    assert running.stdout is not None
    running.stdin.write(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": parameters}) + "\n")
    running.stdin.flush()
    for line in running.stdout:
        answer: dict[str, Any] = json.loads(line)
        if answer.get("id") == number:
            return answer
    raise AssertionError("the server is gone")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
