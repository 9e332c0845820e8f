"""ASGI middleware that every HTTP request passes."""
