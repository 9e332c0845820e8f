"""Refusals over HTTP outside MCP: problem details (RFC 9457), with our word and data beside the standard members."""

from http import HTTPStatus
from typing import Any

from pydantic import BaseModel, Field
from starlette.responses import JSONResponse

from memory_mcp.access import KeyRefused, NotSignedIn
from memory_mcp.errors import AppError, Conflict, Forbidden, Invalid, NotFound, RateLimited

MEDIA_TYPE = "application/problem+json"
STATUS_OF: tuple[tuple[type[AppError], int], ...] = (
    (NotSignedIn, 401),
    (KeyRefused, 401),
    (Forbidden, 403),
    (NotFound, 404),
    (Conflict, 409),
    (Invalid, 422),
    (RateLimited, 429),
)


class Problem(BaseModel):
    """What went wrong, and what to do about it."""

    type: str = Field("about:blank", description="Always about:blank: `error` is the word to go by.")
    title: str
    status: int
    detail: str = Field(description="What to do next.")
    error: str = Field(description="A word that programs can rely on.")
    data: dict[str, Any] = Field({}, description="What goes with the word, such as the field to blame.")


def problem(error: AppError) -> JSONResponse:
    return of(status_of(error), error.error, error.public_message, error.data)


def status_of(error: AppError) -> int:
    if error.error == "too_large":
        return 413
    return next((status for kind, status in STATUS_OF if isinstance(error, kind)), 503)


def of(status: int, word: str, message: str, data: dict[str, Any] | None = None) -> JSONResponse:
    data = data or {}
    told = Problem(title=HTTPStatus(status).phrase, status=status, detail=message, error=word, data=data)
    headers = {"Retry-After": str(data["retry_after"])} if "retry_after" in data else {}
    return JSONResponse(told.model_dump(), status, headers, MEDIA_TYPE)
