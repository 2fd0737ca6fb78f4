"""The stubs of Google's SDK by service, and the messages of their calls."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from unittest.mock import patch

from pullqueue.observe.mail_log import Attachment, Mail
from pullqueue.sdk import DATASTORE
from pullqueue.sdk.imports import (
    api_base_pb2,
    apiproxy_errors,
    apiproxy_rpc,
    apiproxy_stub_map,
    full_app_id,
)
from pullqueue.sdk.protocol import DEADLINE_SECONDS
from pullqueue.sdk.startup.front_end import LOGIN_PATH, LOGOUT_PATH
from pullqueue.services import BLOBSTORE, MAIL, URLFETCH

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from pullqueue.observe.mail_log import MailLog
    from pullqueue.services.indexes import CompositeIndexes
    from pullqueue.services.journal import Journal

_client_lock = threading.Lock()
"""Held while the SDK's client of this process is replaced."""
_API = "google.appengine.api."
_MEMCACHE_SECONDS = 60
"""How often values of memcache that have expired are deleted."""


class _Host(Protocol):
    """What stubs need of what hosts them, which `Services` describes."""

    app_id: str
    eventual: bool
    project: str | None
    blobs: Path | None
    journal: Journal | None
    mails: MailLog

    @property
    def indexes(self) -> CompositeIndexes | None: ...
    def now(self) -> datetime: ...
    def seconds(self) -> float: ...
    def module_hosts(self) -> Iterable[tuple[str, str]]: ...
    def call(
        self, service: str, method: str, request: Any, response: Any, *, seconds: float
    ) -> object: ...


class _Service(NamedTuple):
    make: Callable[[_Host], Any]
    messages: str
    """The module of the messages."""
    prefix: str = ""
    """What the names of the messages begin with."""
    methods: dict[str, tuple[str, str]] = {}  # noqa: RUF012 - never changed
    """The messages of methods after which they are not named."""


def make_stub(service: str, services: _Host) -> Any:
    """Return the stub of a service; raise a FeatureNotEnabledError if it cannot work here."""
    with warnings.catch_warnings(action="ignore"):
        return _SERVICES[service].make(services)


@cache
def find_messages(service: str, method: str) -> tuple[Any, Any] | None:
    """Return the classes of the request and the response of a method; None: it has none.

    Raises:
        FeatureNotEnabledError: the SDK's module cannot be imported on this Python.
    """
    kind = _SERVICES[service]
    names = kind.methods.get(
        method, (f"{kind.prefix}{method}Request", f"{kind.prefix}{method}Response")
    )
    try:
        with warnings.catch_warnings(action="ignore"):
            module = import_module(kind.messages)
    except ImportError as error:
        problem = f"the service {service} does not work on this Python: {error}"
        raise apiproxy_errors.FeatureNotEnabledError(problem) from error
    found = [getattr(module, each, getattr(api_base_pb2, each, None)) for each in names]
    return None if None in found else (found[0], found[1])


@contextmanager
def use_local_client(services: _Host, blobstore: Any) -> Iterator[None]:
    """Make the SDK's client in this process call the services of a server, in the block.

    Some stubs write to the datastore by it.
    """
    # They ask who is signed in, for which the SDK needs a domain. Nobody is.
    os.environ.setdefault("AUTH_DOMAIN", "gmail.com")
    stubs = apiproxy_stub_map.APIProxyStubMap()
    stubs.RegisterStub(DATASTORE, _LocalDatastore(services))
    if blobstore is not None:
        stubs.RegisterStub(BLOBSTORE, blobstore)
    with (
        _client_lock,
        patch.object(apiproxy_stub_map, "apiproxy", stubs),
        patch.object(full_app_id, "get", lambda _environ=None: services.app_id),
    ):
        yield


class _LocalDatastore:
    """A stub that passes calls on to the datastore of a server."""

    def __init__(self, services: _Host) -> None:
        self._services = services

    def CreateRPC(self) -> Any:
        return apiproxy_rpc.RPC(stub=self)

    def MakeSyncCall(
        self, _service: str, method: str, request: Any, response: Any, _request_id: Any = None
    ) -> None:
        self._services.call(DATASTORE, method, request, response, seconds=DEADLINE_SECONDS)


def _imported(name: str) -> Any:
    return import_module(f"{_API}{name}")


def _simple(module: str, name: str) -> Callable[[_Host], Any]:
    """Return what makes a stub that needs nothing of a server."""
    return lambda _: getattr(_imported(module), name)()


def _blobstore(services: _Host) -> Any:
    from pullqueue.services.blobs import BlobFolder

    module = _imported("blobstore.blobstore_stub")
    if services.blobs is None:
        storage = _imported("blobstore.dict_blob_storage").DictBlobStorage()
    else:
        storage = BlobFolder(services.blobs)
    # Without `storage_dir`, which it does not use, it makes a temporary folder.
    return module.BlobstoreServiceStub(
        storage, request_data=_request_info(services), storage_dir=str(services.blobs)
    )


def _datastore(services: _Host) -> Any:
    from pullqueue.services.datastore import Datastore

    return Datastore(
        services.journal,
        eventual=services.eventual,
        project=services.project,
        indexes=services.indexes,
    )


def _images(_: _Host) -> Any:
    with suppress(ImportError):
        from PIL import Image  # may be missing

        if hasattr(Image, "ANTIALIAS"):  # until Pillow 10
            return _imported("images.images_stub").ImagesServiceStub()
    raise apiproxy_errors.FeatureNotEnabledError(
        "the service images needs a Pillow older than 10 where the server runs: "
        "pip install 'pillow<10'"
    )


def _mail(services: _Host) -> Any:
    stub = _imported("mail_stub")

    class Mails(stub.MailServiceStub):  # type: ignore[misc,name-defined]
        """Keeps mails where they are listed."""

        def MakeSyncCall(self, service: str, call: str, request: Any, *others: Any) -> None:
            super().MakeSyncCall(service, call, request, *others)
            self.Clear()  # it keeps all, with their attachments
            services.mails.add(_mail_of(request), services.now().isoformat())

    return Mails()


def _mail_of(message: Any) -> Mail:
    return Mail(
        sender=message.Sender,
        to=list(message.To),
        cc=list(message.Cc),
        bcc=list(message.Bcc),
        reply_to=message.ReplyTo or None,
        subject=message.Subject,
        attachments=[
            Attachment(name=each.FileName, bytes=len(each.Data)) for each in message.Attachment
        ],
        text=message.TextBody if message.HasField("TextBody") else None,
        html=message.HtmlBody if message.HasField("HtmlBody") else None,
    )


def _memcache(services: _Host) -> Any:
    stub = _imported("memcache.memcache_stub")

    class Memcache(stub.MemcacheServiceStub):  # type: ignore[misc,name-defined]
        """Deletes the values that have expired; Google's keeps those that nobody reads."""

        def MakeSyncCall(self, *call: Any) -> None:
            super().MakeSyncCall(*call)
            if abs(self._gettime() - self._cleaned) >= _MEMCACHE_SECONDS:
                self._clean()

        def _clean(self) -> None:
            self._cleaned = self._gettime()
            for namespace, entries in [*self._the_cache.items()]:
                for key in [*entries]:
                    self._GetKey(namespace, key, for_peek=True)  # deletes it if it has expired
                if not entries:
                    del self._the_cache[namespace]

        def _ResetStats(self) -> None:
            self._gettime = services.seconds  # `Clear` has made it the time of the machine
            self._cleaned = self._gettime()
            super()._ResetStats()

    return Memcache()


def _modules(services: _Host) -> Any:
    return _imported("modules.modules_stub").ModulesServiceStub(_request_info(services))


def _urlfetch(_: _Host) -> Any:
    module = _imported("urlfetch_stub")
    # Only Google's development server sets it. None: certificates that Python trusts are valid.
    vars(module).setdefault("CERT_PATH", None)
    return module.URLFetchServiceStub()


def _user(_: _Host) -> Any:
    class Info:
        def get_request_url(self, _request_id: object) -> str:
            return ""  # a page of the app: with its path alone, it is on the host of the browser

    return _imported("user_service_stub").UserServiceStub(
        login_url=f"{LOGIN_PATH}?continue=%s",
        logout_url=f"{LOGOUT_PATH}?continue=%s",
        request_data=Info(),
    )


def _request_info(services: _Host) -> Any:
    """Return what stubs ask of the request of an app, and of its modules.

    A call over the bridge has no request; its app is where push tasks are sent.
    """
    info = _imported("request_info")
    hosts = dict(services.module_hosts())

    class Info(info._LocalRequestInfo):  # type: ignore[misc,name-defined]
        def get_request_url(self, _request_id: object) -> str:
            return f"http://{hosts['default']}/"

        def get_dispatcher(self) -> Any:
            return info._LocalFakeDispatcher(
                list(hosts),
                {module: ["1"] for module in hosts},
                dict.fromkeys(hosts, "1"),
                {module: {"1": host} for module, host in hosts.items()},
            )

    return Info()


_SERVICES = {
    "app_identity_service": _Service(
        _simple("app_identity.app_identity_stub", "AppIdentityServiceStub"),
        f"{_API}app_identity.app_identity_service_pb2",
        methods={
            "GetPublicCertificatesForApp": (
                "GetPublicCertificateForAppRequest",
                "GetPublicCertificateForAppResponse",
            )
        },
    ),
    BLOBSTORE: _Service(
        _blobstore,
        f"{_API}blobstore.blobstore_service_pb2",
        methods={"DeleteBlob": ("DeleteBlobRequest", "VoidProto")},
    ),
    "capability_service": _Service(
        _simple("capabilities.capability_stub", "CapabilityServiceStub"),
        f"{_API}capabilities.capability_service_pb2",
    ),
    DATASTORE: _Service(
        _datastore,
        "google.appengine.datastore.datastore_pb",
        methods={
            "AddActions": ("(none)", "(none)"),  # the bridge keeps the tasks of a transaction
            "BeginTransaction": ("BeginTransactionRequest", "Transaction"),
            "Commit": ("Transaction", "CommitResponse"),
            "CreateIndex": ("CompositeIndex", "Integer64Proto"),
            "DeleteIndex": ("CompositeIndex", "VoidProto"),
            "GetIndices": ("GetIndicesRequest", "CompositeIndices"),
            "Next": ("NextRequest", "QueryResult"),
            "Rollback": ("Transaction", "VoidProto"),
            "RunQuery": ("Query", "QueryResult"),
            "UpdateIndex": ("CompositeIndex", "VoidProto"),
        },
    ),
    "images": _Service(_images, f"{_API}images.images_service_pb2", "Images"),
    MAIL: _Service(
        _mail,
        f"{_API}mail_service_pb2",
        methods=dict.fromkeys(("Send", "SendToAdmins"), ("MailMessage", "VoidProto")),
    ),
    "memcache": _Service(
        _memcache,
        f"{_API}memcache.memcache_service_pb2",
        "Memcache",
        {"FlushAll": ("MemcacheFlushRequest", "MemcacheFlushResponse")},
    ),
    "modules": _Service(_modules, f"{_API}modules.modules_service_pb2"),
    "search": _Service(
        _simple("search.simple_search_stub", "SearchServiceStub"),
        f"{_API}search.search_service_pb2",
    ),
    URLFETCH: _Service(
        _urlfetch,
        f"{_API}urlfetch_service_pb2",
        methods={"Fetch": ("URLFetchRequest", "URLFetchResponse")},
    ),
    "user": _Service(_user, f"{_API}user_service_pb2"),
}
