"""The OpenAPI document of the REST API."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from memory_mcp.server import error_encoding


def describe(app: FastAPI) -> dict[str, Any]:
    """As FastAPI makes it, but with errors described as what they are: problem details."""
    if app.openapi_schema is None:
        document = get_openapi(
            title=app.title,
            version=app.version,
            description=app.description,
            routes=app.routes,
        )
        for operations in document["paths"].values():
            for operation in operations.values():
                _describe_problems(operation["responses"])
        app.openapi_schema = document
    return app.openapi_schema


def _describe_problems(responses: dict[str, Any]) -> None:
    for status, response in responses.items():
        if int(status) >= 400 and "application/json" in response.get("content", {}):
            response["content"] = {error_encoding.MEDIA_TYPE: response["content"]["application/json"]}
