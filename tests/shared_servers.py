"""Whether the tests run with shared servers."""

import os

SHARED = (
    {"MEMORY_MCP_SHARED": "auto", "MEMORY_MCP_SHARED_IDLE": "0"}
    if os.environ.get("MEMORY_MCP_TEST_SHARED")  # `make shared-tests`
    else {"MEMORY_MCP_SHARED": "off"}
)
"""Most tests are not about shared servers, and are faster without one."""
