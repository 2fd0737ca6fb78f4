"""Connect an app to bundled services outside App Engine, without changes to the app.

The SDK makes a call only where App Engine's front end gave a ticket for the request that is being
handled. The emulator checks no ticket, so any will do, but the SDK must have one.

`pullqueue exec` puts this file's folder on PYTHONPATH, so that Python runs it at start, before the
app. It waits until the app imports the SDK, which is slow and may never happen, and runs the
`sitecustomize` that it hides. It imports nothing of pullqueue, which need not be
installed where the app is.
"""

from __future__ import annotations

import os
import sys
from functools import partial, update_wrapper
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import PathFinder
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import TracebackType

    from _typeshed.wsgi import WSGIApplication

TICKET_VARIABLE = "HTTP_X_APPENGINE_API_TICKET"
TICKET = "pullqueue"
HOST_VARIABLE = "DEFAULT_VERSION_HOSTNAME"
HOST = "localhost"
"""The host of an app where nothing else is set."""

SWITCH_VARIABLE = "APPENGINE_USE_CLOUDTASK_PUSH_QUEUE"
"""With "true" the SDK sends push tasks to Cloud Tasks."""
WANTED_VARIABLE = "PULLQUEUE_USE_CLOUDTASK_PUSH_QUEUE"
"""What the switch becomes once the SDK's clients of Cloud Tasks are those of the emulator."""
_REGION = "us-central1"

APP_ID_VARIABLES = ("APPLICATION_ID", "GAE_APPLICATION")
APP_ID = "dev~my-app"
"""The application id where nothing else is set; ndb makes no key without one."""

variables: dict[str, str] = {}
"""What is set in the environment at each call.

`wrap_wsgi_app` copies the environment, as it was when the app was wrapped, for every request.
"""

_ADDRESS_VARIABLES = ("API_HOST", "API_PORT")

_API = "google.appengine.api"
_FRONT_END = "front_end"
_STUB_MAP = "google.appengine.api.apiproxy_stub_map"
_DEFAULT_STUB = "google.appengine.runtime.default_api_stub"
_CLOUD_TASKS = "google.appengine.api.taskqueue.cloudtask"
_ID_TOKENS = "google.oauth2.id_token"
_GOOGLE = "https://accounts.google.com"
_SDK_PACKAGES = ("google", "google.appengine")


def grant_tickets() -> None:
    """Add a ticket to every call of this process to bundled services, in any thread.

    Inside requests and outside. Doing so again changes nothing.
    """
    from google.appengine.api import apiproxy_stub_map, full_app_id
    from google.appengine.runtime import context, default_api_stub

    rpc = default_api_stub.DefaultApiRPC
    if not hasattr(rpc, "has_pullqueue_ticket"):
        rpc.has_pullqueue_ticket = True
        rpc._MakeCallImpl = _with_ticket(rpc._MakeCallImpl, default_api_stub)
        context.get = with_host(context.get)
        default = os.environ.get(APP_ID_VARIABLES[0], APP_ID)
        full_app_id.get = with_app_id(full_app_id.get, default)
    stub_map = apiproxy_stub_map.apiproxy
    if vars(stub_map)["_APIProxyStubMap__default_stub"] is None:
        # Otherwise only `wrap_wsgi_app` does that, which a worker does not need.
        default_api_stub.Register(default_api_stub.DefaultApiStub())


def use_cloud_tasks(cloudtask: Any) -> None:
    """Make the SDK's clients of Cloud Tasks call the server; doing so again changes nothing."""
    if hasattr(cloudtask, "has_pullqueue_clients"):
        return
    cloudtask.has_pullqueue_clients = True
    address = {name: os.environ[name] for name in _ADDRESS_VARIABLES if name in os.environ}
    for name, value in cloud_tasks_replaced(cloudtask, lambda m: _client(m, address)).items():
        setattr(cloudtask, name, value)
    if WANTED_VARIABLE in os.environ:
        os.environ[SWITCH_VARIABLE] = os.environ[WANTED_VARIABLE]


def cloud_tasks_replaced(cloudtask: Any, client: Callable[[Any], Any]) -> dict[str, Any]:
    """Return what to replace in the SDK's `cloudtask`: `client(module)` makes its clients.

    The SDK makes them without arguments, and asks the metadata server for the region if it has none
    in its cache.
    """
    replaced = {"_CLIENTS": {}, "_CACHED_REGION": _REGION}
    for name in ("tasks_v2", "tasks_v2beta3"):
        if getattr(cloudtask, name) is not None:  # google-cloud-tasks is installed
            module = import_module(f"google.cloud.{name}")
            copy = ModuleType(name)
            vars(copy).update(vars(module), CloudTasksClient=partial(client, module))
            replaced[name] = copy
    return replaced


def _client(module: Any, address: dict[str, str]) -> Any:
    from google.auth.credentials import AnonymousCredentials  # there with the SDK

    host, port = (variables.get(name) or address[name] for name in _ADDRESS_VARIABLES)
    return module.CloudTasksClient(
        transport="rest",
        client_options={"api_endpoint": _url(host, port)},
        credentials=AnonymousCredentials(),  # type: ignore[no-untyped-call]
    )


def _url(host: str | None, port: str | None) -> str:
    return f"http://[{host}]:{port}" if ":" in str(host) else f"http://{host}:{port}"


def verify_own_tokens(id_token: Any) -> None:
    """Make google-auth accept the ID tokens that the server puts into HTTP tasks.

    Their issuer is the server, and it has their keys. All others are verified as before, and so
    are all where the code names certificates that are not those of Google's OAuth 2.0.
    """
    from inspect import signature

    from google.auth import jwt  # there with the module

    verify = id_token.verify_token
    googles = signature(verify).parameters["certs_url"].default

    def verify_token(token: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
        claims = jwt.decode(token, verify=False)  # type: ignore[no-untyped-call]
        host, port = (variables.get(name) or os.environ.get(name) for name in _ADDRESS_VARIABLES)
        issuer = str(claims.get("iss", ""))
        names = ("audience", "certs_url", "clock_skew_in_seconds")
        given = dict(zip(names, args, strict=False)) | kwargs
        own = issuer.startswith("http://") and issuer.endswith(f":{port}")
        if not own or given.get("certs_url", googles) != googles:
            return verify(token, request, *args, **kwargs)
        given["certs_url"] = f"{_url(host, port)}/oauth2/v1/certs"
        return {**verify(token, request, **given), "iss": _GOOGLE}

    id_token.verify_token = verify_token


def with_front_end(app: WSGIApplication) -> WSGIApplication:
    """Wrap a WSGI app so that its users sign in, and its blobs are stored and served."""
    # From Python 3.13 on the threads of a wrapped app begin with an empty environment.
    address = {name: os.environ.get(name) for name in _ADDRESS_VARIABLES}

    def find_address() -> tuple[str, int]:
        host, port = (variables.get(name) or address[name] for name in _ADDRESS_VARIABLES)
        return str(host), int(port or 0)

    spec = spec_from_file_location(_FRONT_END, Path(__file__).with_name(f"{_FRONT_END}.py"))
    if spec is None or spec.loader is None:
        return app
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    wrapped: WSGIApplication = module.FrontEnd(app, find_address, program_name)
    return wrapped


def _wrap_with_front_end(api: Any) -> None:
    """Make the SDK's `wrap_wsgi_app` add what App Engine's front end does, too."""
    wrap = api.wrap_wsgi_app

    def wrap_wsgi_app(app: Any, *args: Any, **kwargs: Any) -> Any:
        return with_front_end(wrap(app, *args, **kwargs))

    api.wrap_wsgi_app = update_wrapper(wrap_wsgi_app, wrap)


def with_app_id(get: Callable[..., str], default: str) -> Callable[..., str]:
    """Return the SDK's `full_app_id.get` with an id where the environment has none.

    In requests of a wrapped app the environment is that of the time when the app was wrapped. Any
    of the variables that was changed since counts.
    """

    def get_or_default(environ: Any = None) -> str:
        if environ is not None:
            return get(environ)
        given = filter(None, map(os.environ.get, APP_ID_VARIABLES))
        return next((each for each in given if each != default), default)

    return get_or_default


def with_host(get: Callable[..., Any]) -> Callable[..., Any]:
    """Return the SDK's `context.get` with a host outside of requests, too, and an app's own host.

    Without the first the SDK logs a warning for every task, without the second it loses the target
    of a push task, which it puts before that host.
    """
    hosts = {name: os.environ.get(name, HOST) for name in ("HTTP_HOST", HOST_VARIABLE)}

    def get_or_host(key: str, default: Any = None) -> Any:
        value = get(key, default)
        return hosts.get(key) if value is None else value

    return get_or_host


def ticket() -> str:
    """Return the ticket of this process, by which a server knows its app and its name."""
    app_id = next(filter(None, map(os.environ.get, APP_ID_VARIABLES)), APP_ID)
    return f"{TICKET}:{app_id} {program_name()}"


def program_name() -> str:
    """Return what this process is called: program and process id."""
    script = sys.argv[0]  # `-c` or `-` where there is none
    return f"{'python' if script[:1] in ('', '-') else Path(script).name} (pid {os.getpid()})"


def _with_ticket(make_call: Callable[[Any], None], default_api_stub: Any) -> Callable[[Any], None]:
    address = {name: os.environ[name] for name in _ADDRESS_VARIABLES if name in os.environ}

    def make_call_with_ticket(rpc: Any) -> None:
        default_api_stub.DefaultApiStub.SetUseRequestSecurityTicketForThread(value=True)
        for name, value in address.items():
            # From Python 3.13 on the threads of a wrapped app begin with an empty environment.
            os.environ.setdefault(name, value)
        os.environ.update(variables)
        _have_ticket(default_api_stub.context)
        make_call(rpc)

    return make_call_with_ticket


def _have_ticket(context: Any) -> None:
    """Set a ticket where the SDK reads it: in the environment, or in its context variables."""
    if context.READ_FROM_OS_ENVIRON:
        # Also that of the process that started this one.
        if os.environ.get(TICKET_VARIABLE, TICKET).startswith(TICKET):
            os.environ[TICKET_VARIABLE] = ticket()
        return
    # As the SDK reads it, by mistake: with the request's id as the default.
    headers = context.gae_headers
    if not headers.API_TICKET.get(headers.DEV_REQUEST_ID.get(None)):
        headers.API_TICKET.set(ticket())


class _AfterImport(MetaPathFinder):
    """Finds some modules of the SDK as usual, and acts when they are loaded.

    Any program that uses bundled services imports that of stubs. The one of their default imports
    it, so it may be half loaded when the first is there: it can be changed only when it is
    complete.
    """

    def __init__(self) -> None:
        self._actions: dict[str, Callable[[], object]] = {
            _API: lambda: _wrap_with_front_end(sys.modules[_API]),
            _STUB_MAP: lambda: import_module(_DEFAULT_STUB),
            _DEFAULT_STUB: grant_tickets,
            _CLOUD_TASKS: lambda: use_cloud_tasks(sys.modules[_CLOUD_TASKS]),
            _ID_TOKENS: lambda: verify_own_tokens(sys.modules[_ID_TOKENS]),
        }

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a module that is waited for, and None for any other."""
        action = self._actions.pop(name, None)
        if action is None:
            return None
        if not self._actions:
            sys.meta_path.remove(self)
        spec = PathFinder.find_spec(name, path)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def load_and_act(module: ModuleType) -> None:
                load(module)
                action()

            spec.loader.exec_module = load_and_act  # type: ignore[method-assign]  # of this one
        return spec


def _explain_a_missing_sdk() -> None:
    """Make a program that ends because the SDK is missing print what to install, and where."""
    show = sys.excepthook

    def show_and_explain(
        kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        show(kind, error, trace)
        if isinstance(error, ModuleNotFoundError) and error.name in _SDK_PACKAGES:
            sys.stderr.write(
                f"pullqueue: {sys.executable} has no App Engine SDK: install it there with "
                "pip install appengine-python-standard\n"
            )

    sys.excepthook = show_and_explain


def _run_the_other() -> None:
    """Run the `sitecustomize` that would have been run without this one."""
    here = Path(__file__).resolve().parent
    sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != here]
    spec = PathFinder.find_spec("sitecustomize")
    if spec is not None and spec.loader is not None:
        module = module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


if __name__ == "sitecustomize":
    sys.meta_path.insert(0, _AfterImport())
    _explain_a_missing_sdk()
    _run_the_other()
