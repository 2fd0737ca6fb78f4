"""Validation of the HTTP requests of push tasks, before anything is changed."""

from __future__ import annotations

import re
from dataclasses import fields

from pullqueue.address import why_not_callable
from pullqueue.errors import InvalidTaskError, is_expected_error
from pullqueue.limits import Limits
from pullqueue.tasks import HttpRequest, RequestToken, RetryParameters
from pullqueue.text import is_integer, is_number, quoted

__tracebackhide__ = is_expected_error

METHODS_WITH_BODY = ("PATCH", "POST", "PUT")
_METHODS = ("DELETE", "GET", "HEAD", "OPTIONS", *METHODS_WITH_BODY)
_is_printable = re.compile(r"[!-~]+").fullmatch
_TOKENS = ("oidc_token", "oauth_token")
_is_path = re.compile(r"/(?!/)").match
_is_absolute = re.compile(r"(?i)https?://[^/?]").match
is_target = re.compile(r"[A-Za-z0-9_.:-]{1,300}").fullmatch
_is_header_name = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+").fullmatch
_is_header_value = re.compile(r"[\t -~\x80-\xff]*").fullmatch


def check_request(request: object, limits: Limits, *, absolute_urls: bool) -> None:
    """Check the request of a push task.

    Raises:
        InvalidTaskError: a part of it is not valid; an absolute URL is, with `absolute_urls`.
    """
    if not isinstance(request, HttpRequest):
        raise InvalidTaskError(f"request is {quoted(request)}: pass a pullqueue.HttpRequest")
    if request.method not in _METHODS:
        raise InvalidTaskError(f"method is {quoted(request.method)}: use {', '.join(_METHODS)}")
    _check_url(request.url, limits, absolute_urls=absolute_urls)
    target: object = request.target
    if target is not None and not (isinstance(target, str) and is_target(target)):
        raise InvalidTaskError(
            f"target is {quoted(target)}: use a service, version.service or "
            "instance.version.service"
        )
    seconds: object = request.deadline_seconds
    lowest, highest = limits.min_deadline_seconds, limits.max_deadline_seconds
    if not is_number(seconds) or not lowest <= seconds <= highest:
        raise InvalidTaskError(
            f"deadline_seconds is {quoted(seconds)}: it must be a number of seconds from {lowest} "
            f"to {highest}"
        )
    _check_headers(request.headers)
    if request.retry is not None:
        check_retry(request.retry)
    token: object = request.token
    if token is not None and not (isinstance(token, RequestToken) and _is_absolute(request.url)):
        raise InvalidTaskError(
            f"token is {quoted(token)}: it must be a RequestToken, and url an absolute URL"
        )
    if isinstance(token, RequestToken) and token.kind not in _TOKENS:
        raise InvalidTaskError(f"kind of token is {quoted(token.kind)}: use {' or '.join(_TOKENS)}")


def _check_url(url: object, limits: Limits, *, absolute_urls: bool) -> None:
    if not isinstance(url, str) or not _is_printable(url):
        raise InvalidTaskError(
            f"url is {quoted(url)}: it must consist of printable ASCII characters without spaces; "
            "percent-encode others"
        )
    if len(url) > limits.url_characters:
        raise InvalidTaskError(
            f"url has {len(url)} characters; the maximum is {limits.url_characters}: send the data "
            "in the payload"
        )
    if "#" in url:
        raise InvalidTaskError(f"url is {quoted(url)}: it cannot have a fragment (#)")
    if not _is_path(url) and not (absolute_urls and _is_absolute(url)):
        rule = "it must begin with one /"
        if absolute_urls:
            is_of_web = url.lower().startswith(("http:", "https:"))
            no_host = "it has no host: write one after http:// or https://"
            rule = no_host if is_of_web else f"{rule} or http:// or https://"
        elif _is_absolute(url):
            rule += (
                "; tasks with HTTP targets can only be created through the Cloud Tasks API: call "
                "create_task of its client, or pass the path alone, as for an App Engine target"
            )
        raise InvalidTaskError(f"url is {quoted(url)}: {rule}")
    if _is_absolute(url) and (problem := why_not_callable(url)) is not None:
        raise InvalidTaskError(f"url is {quoted(url)}: {problem}")


def _check_headers(headers: object) -> None:
    if not isinstance(headers, tuple):
        raise InvalidTaskError(
            f"headers are {quoted(headers)}: pass a tuple of (name, value) pairs"
        )
    for header in headers:
        if not isinstance(header, tuple) or [*map(type, header)] != [str, str]:
            raise InvalidTaskError(f"header is {quoted(header)}: pass a tuple of name and value")
        name, value = header
        if not _is_header_name(name):
            raise InvalidTaskError(
                f"header name is {quoted(name)}: use letters, digits and any of !#$%&'*+-.^_`|~"
            )
        if not _is_header_value(value):
            raise InvalidTaskError(
                f"header {name} is {quoted(value)}: use characters of ISO 8859-1 without line "
                "breaks and other control characters"
            )


def check_retry(retry: object) -> None:
    """Check retry parameters; raise an InvalidTaskError if one of them is not valid."""
    if not isinstance(retry, RetryParameters):
        raise InvalidTaskError(f"retry is {quoted(retry)}: pass pullqueue.RetryParameters")
    for field in fields(retry):
        value: object = getattr(retry, field.name)
        whole = "" if field.name.endswith("backoff_seconds") else "whole "
        largest = 2**63 - 1 if field.name.endswith("_seconds") else 2**31 - 1
        if value is not None and not (
            (is_integer if whole else is_number)(value) and 0 <= value <= largest
        ):
            raise InvalidTaskError(
                f"retry parameter {field.name} is {quoted(value)}: use a {whole}number from 0 to "
                f"{largest}"
            )
    shortest, longest = retry.min_backoff_seconds, retry.max_backoff_seconds
    if shortest is not None and longest is not None and shortest > longest:
        raise InvalidTaskError(
            f"min_backoff_seconds is {shortest} and max_backoff_seconds is {longest}: the minimum "
            "must not exceed the maximum"
        )
