"""What a queue overrides in its HTTP tasks when they are sent: the `http_target` of Cloud Tasks."""

from __future__ import annotations

from functools import lru_cache
from urllib.parse import SplitResult, urlsplit

from pullqueue.config.model import HttpTarget
from pullqueue.tasks import HttpRequest

_NOTHING = "(none)"


def override(request: HttpRequest, target: HttpTarget) -> HttpRequest:
    """Return the request of an HTTP task with what its queue overrides."""
    names = {name.lower() for name, _ in target.headers}
    kept = tuple(header for header in request.headers if header[0].lower() not in names)
    return request._replace(
        url=override_url(request.url, target),
        method=target.method or request.method,
        headers=(*kept, *target.headers),
        token=target.token or request.token,
    )


@lru_cache(1_024)
def override_url(url: str, target: HttpTarget) -> str:
    """Return a URL with the parts that a queue overrides, or that only the queue has."""
    split = urlsplit(url)
    host, port = _host_and_port(split)
    path, query = split.path, split.query
    if not target.if_not_exists:
        scheme = target.scheme or split.scheme
        host = target.host or host
        port = port if target.port is None else str(target.port or "")
        path = path if target.path is None else target.path
        query = query if target.query is None else target.query
    else:
        # Every URL has a scheme and a host.
        scheme = split.scheme
        port = port or str(target.port or "")
        path = target.path or path if path in ("", "/") else path
        query = query or target.query or ""
    if path and not path.startswith("/"):
        path = f"/{path}"
    netloc = f"{host}:{port}" if port else host
    return f"{scheme}://{netloc}{path}" + (f"?{query}" if query else "")


def describe_target(target: HttpTarget) -> str:
    """Return what a queue overrides, in words: `host api.example.com, header X-Mine: 7`."""
    parts = [
        f"{name} {_NOTHING if value in ('', 0) else value}"
        for name in ("scheme", "host", "port", "path", "query")
        if (value := getattr(target, name)) is not None
    ]
    if parts and target.if_not_exists:
        parts[-1] += " (where the URL has none)"
    if target.method is not None:
        parts.append(f"method {target.method}")
    parts += [f"header {name}: {value}" for name, value in target.headers]
    if target.token is not None:
        kind, email, detail = target.token
        kinds = {"oidc_token": ("OIDC token", "audience"), "oauth_token": ("OAuth token", "scope")}
        token, what = kinds[kind]
        parts.append(f"{token} of {email}" + (f", {what} {detail}" if detail else ""))
    return ", ".join(parts)


def _host_and_port(split: SplitResult) -> tuple[str, str]:
    """Return host and port as they are written; the port is empty if there is none."""
    before, colon, port = split.netloc.rpartition(":")
    if colon and not port.endswith("]"):
        return before, port
    return split.netloc, ""
