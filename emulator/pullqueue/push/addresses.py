"""Where a server sends push tasks: the addresses that its user has named, and no others."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import urlsplit

from pullqueue.address import SplitUrl, is_loopback, split_url, why_not_callable
from pullqueue.config.model import QueueSettings
from pullqueue.push.request import effective_request, find_target, list_targets
from pullqueue.push.tokens import missing_extra
from pullqueue.tasks import Task
from pullqueue.text import quoted

_BETWEEN = re.compile(r"(?<=.)=(?=https?://)", re.IGNORECASE | re.DOTALL)
"""What is between TARGET and URL; a target may be an origin, which is a URL itself."""
_TARGET = re.compile(r"[a-z0-9-]+(\.[a-z0-9-]+){0,2}|https?://[^/?#@=\s]+", re.ASCII)
_PATH = re.compile(r"[!-~]*", re.ASCII)

_EXAMPLE = "http://localhost:8080"
OPTION = f"--push-to {_EXAMPLE}"
KEPT = "kept, not delivered"


class PushAddresses:
    """The addresses of an app: that of each target, and one for all other tasks of App Engine.

    HTTP targets of Cloud Tasks are sent to loopback addresses, to these addresses, and to where
    their origin is named; those of other origins never to the default address.
    """

    def __init__(self, options: Iterable[str] = ()) -> None:
        """Parse `[TARGET=]URL`, as in `--push-to`; raise like `replace`."""
        self._addresses: dict[str | None, SplitUrl]
        self.awaited: frozenset[str]
        """The origins to which nothing is sent yet, since the app does not listen there."""
        self.proof: Mapping[str, str] = {}
        """A header that services of App Engine get beside those of production."""
        self.replace(options)

    def replace(self, options: Iterable[str], *, keep_others: bool = False) -> None:
        """Replace all addresses by others, each `[TARGET=]URL`.

        With `keep_others`, only the addresses of the same targets are replaced.

        Raises:
            ValueError: one is not valid, or two are for the same tasks; nothing is changed.
        """
        addresses: dict[str | None, SplitUrl] = {}
        for option in options:
            target, address = _parsed(option)
            if target in addresses:
                of = "without a target" if target is None else f"for target {quoted(target)}"
                raise ValueError(
                    f"two addresses {of}: {quoted(str(addresses[target]))} and "
                    f"{quoted(str(address))}: name one"
                )
            addresses[target] = address
        if keep_others:
            self.awaited -= {each.origin for each in addresses.values()}
            addresses = self._addresses | addresses
        else:
            self.awaited = frozenset()
        self._addresses = addresses

    def await_app(self) -> None:
        """Send nothing to the addresses on this machine, until each `has_begun_to_listen`."""
        own = [each for each in self._addresses.values() if is_loopback(each.host)]
        self.awaited = frozenset(each.origin for each in own)

    def has_begun_to_listen(self, origin: str) -> None:
        """Send what is for an origin from now on."""
        self.awaited -= {origin}

    def waiting(self, target: str | None) -> str | None:
        """Return that the address of a target is awaited; None: it is not, or there is none."""
        address = self.of(target)
        if address is None or address.origin not in self.awaited:
            return None
        return f"the server waits for the app to listen at {address.origin}"

    def __bool__(self) -> bool:
        return bool(self._addresses)

    def __str__(self) -> str:
        return ", ".join(self)

    def __iter__(self) -> Iterator[str]:
        """Yield each address, with its target."""
        for target, address in self._addresses.items():
            yield str(address) if target is None else f"{target} at {address}"

    def hosts(self) -> Iterator[tuple[str | None, str]]:
        """Yield services of App Engine with the `host:port` of each; None is the default one."""
        for target, address in self._addresses.items():
            if target is None or _is_service(target):
                yield target, address.netloc

    def unknown_targets(self, queues: Iterable[QueueSettings]) -> str | None:
        """Return which targets none of these queues has; None: there are none, or no queue has any.

        Tasks can have targets of their own, also versions of a queue's.
        """
        names = {name for each in queues for name in list_targets(each.target) if name}
        services = filter(_is_service, self._addresses)
        unknown = [target for target in services if names.isdisjoint(list_targets(target))]
        if not names or not unknown:
            return None
        return (
            f"no queue has the target {', '.join(map(quoted, unknown))}: only tasks that name it "
            f"are sent to its address; the targets of the queues are {', '.join(sorted(names))}"
        )

    def find(self, task: Task, settings: QueueSettings) -> SplitUrl | str:
        """Return the address to which a task of a queue is sent, or what is missing to send it."""
        if task.request is None:
            return (
                "it was added while the queue was a pull queue: delete it, or set `mode: pull` and "
                "lease it"
            )
        request = effective_request(task, settings)
        target = find_target(request, settings)
        address = self.of(target)
        if address is not None:
            return missing_extra(request) or self.waiting(target) or address
        if not self._addresses and not request.is_http_target:
            return add_address()
        if target is None:
            return f"there is no default address: {add_address()}"
        option = f"{target}={_EXAMPLE}"
        is_local = target.startswith("http://") or "." not in SplitUrl(target).host
        if request.is_http_target and is_local:
            # A name of a local network, such as of Docker Compose: a public host has https.
            option = f"{target}={target}" if None in self._addresses else target
        return f"there is no address for {quoted(target)}: {add_address(option)}"

    def find_url(self, url: str) -> SplitUrl | None:
        """Return the address to which an HTTP task is sent; None: it is kept."""
        split = split_url(url)
        return None if split is None else self.of(split.origin)

    def kept(self, settings: QueueSettings) -> str | None:
        """Return that tasks of a push queue are kept, and how to deliver them.

        None: they are not, or only those without a target; `missing` is exact.
        """
        if (waiting := self.waiting(settings.target)) is not None:
            return f"{KEPT}: {waiting}"
        if self.of(settings.target) is not None:
            return None
        if settings.target is None and any(map(_is_service, self._addresses)):
            return None
        option = f"{settings.target}=http://localhost:8081" if settings.target else _EXAMPLE
        return f"{KEPT}: {add_address(option)}"

    def missing(self, task: Task, settings: QueueSettings) -> str | None:
        """Return what is missing to send a task; None: nothing is."""
        found = self.find(task, settings)
        return found if isinstance(found, str) else None

    def of(self, target: str | None) -> SplitUrl | None:
        """Return the address of a service or an origin, or the default one of all services."""
        if target is not None and "://" in target:
            origin, named = SplitUrl(target), {each.origin for each in self._addresses.values()}
            is_permitted = is_loopback(origin.host) or origin.origin in named
            return self._addresses.get(target) or (origin if is_permitted else None)
        names = (*list_targets(target), None)
        return next((self._addresses[name] for name in names if name in self._addresses), None)


def add_address(option: str = _EXAMPLE) -> str:
    """Return the command that adds an address to those of a running server."""
    return f"run `pullqueue push-to {shlex.quote(option)}`"


def _is_service(target: str | None) -> bool:
    return target is not None and "://" not in target


def _parsed(option: str) -> tuple[str | None, SplitUrl]:
    *named, url = _BETWEEN.split(option, maxsplit=1)
    address = split_url(url)
    if address is None:
        raise ValueError(_invalid(option, "it must begin with http:// or https://"))
    problem = _find_problem(url)
    if problem is not None:
        raise ValueError(_invalid(option, problem))
    target = None
    if named:
        target = named[0].lower()
        origin = split_url(target)
        if not _TARGET.fullmatch(target) or (origin and why_not_callable(target)):
            raise ValueError(
                f"invalid target {quoted(target)}: use the name of a service, such as worker, or "
                "an origin, such as https://api.example.com"
            )
        target = target if origin is None else origin.origin
    return target, address._replace(path=address.path.rstrip("/"))


def _find_problem(address: str) -> str | None:
    """Return why tasks cannot be sent to an address; None: they can."""
    problem = why_not_callable(address)
    if problem is not None:
        return problem
    url = urlsplit(address)
    problems = {
        "it cannot have a user name or password": "@" in url.netloc,
        "its host is only a number": url.port is None and str(url.hostname).isdecimal(),
        "it cannot have a query or a fragment": url.query or url.fragment,
        "it must consist of printable ASCII characters without spaces": not _PATH.fullmatch(
            address
        ),
    }
    return next((problem for problem, is_so in problems.items() if is_so), None)


def _invalid(option: str, problem: str) -> str:
    return (
        f"invalid address {quoted(option)}: {problem}; use [TARGET=]URL, such as "
        "http://localhost:8080 or worker=http://localhost:8081"
    )
