"""What is said where App Engine's SDK is missing, and that it is not imported without need."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from forking import forked

from pullqueue import InvalidTagError
from pullqueue.extras import install_command
from pullqueue.sdk.imports import remote_api
from pullqueue.services import bridge

RpcError = remote_api.RpcError

PROGRAM = """
import sys
from pathlib import Path
from pullqueue import Emulator
from pullqueue.config.model import QueueConfig
from pullqueue.server.lifecycle import Server
from pullqueue.services.hosting import Services
from werkzeug.test import Client
emulator = Emulator(QueueConfig())
with Server(emulator, services=Services(clock=emulator.clock)):
    print([name for name in sys.modules if name.startswith(("google.", "grpc"))])

sys.modules["google"] = None
from pullqueue.cli import main
from pullqueue.sdk import install
from pullqueue.server.app import create_app
client = Client(create_app(emulator))
Path("response").write_bytes(client.post("/rpc_http", data=b"").data)
try:
    install(emulator)
except ImportError as error:
    print(error, file=sys.stderr)
for options in (["--services", "mail"], ["--data", "data"], ["--index-yaml", "index.yaml"]):
    assert main(["exec", *options, "--", "true"]) == 2
sys.exit(main(["exec", "--", *sys.argv[1:]]))
"""


@pytest.mark.slow
def test_a_server_imports_no_sdk_and_a_missing_one_is_reported(tmp_path: Path) -> None:
    """With the extra to install. The first call imports the SDK, or Google's client."""
    command = [sys.executable, "-c", PROGRAM, forked("pullqueue"), "server"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=True, text=True)

    assert done.stdout.startswith("[]\n")
    answer = remote_api.Response.FromString((tmp_path / "response").read_bytes())
    assert answer.rpc_error.code == RpcError.CAPABILITY_DISABLED
    missing = f"App Engine's SDK is not installed: {install_command('appengine')}"
    assert f"where the server runs, {missing}" in answer.rpc_error.detail
    assert done.stderr.splitlines()[:2] == [missing] * 2
    for option in ("--services", "--data", "--index-yaml"):
        assert f"pullqueue: {option} cannot be used: {missing}\n" in done.stderr
    assert re.search(r"^services +none$", done.stdout, re.MULTILINE)


def test_long_details_are_readable_without_the_sdk() -> None:
    detail = str(InvalidTagError("x" * 500))

    answer = remote_api.Response.FromString(bridge._failure(5, detail))

    assert (answer.rpc_error.code, answer.rpc_error.detail) == (5, detail)
