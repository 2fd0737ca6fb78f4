"""What is said where App Engine's SDK is missing, and that it is not imported without need."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from pullqueue import InvalidTagError
from pullqueue.extras import install_command
from pullqueue.sdk.imports import remote_api
from pullqueue.services import bridge

RpcError = remote_api.RpcError

NO_SDK = """
import sys
sys.modules["google"] = None
from pullqueue import Emulator
from pullqueue.config.model import QueueConfig
from werkzeug.test import Client
from pullqueue.server.app import create_app
client = Client(create_app(Emulator(QueueConfig())))
sys.stdout.buffer.write(client.post("/rpc_http", data=b"").data)
try:
    from pullqueue.sdk import install
    install(Emulator(QueueConfig()))
except ImportError as error:
    print(error, file=sys.stderr)
"""
OPTIONS = """
import sys
sys.modules["google"] = None
from pullqueue.cli import main
for options in (["--services", "mail"], ["--data", "data"], ["--index-yaml", "index.yaml"]):
    assert main(["exec", *options, "--", "true"]) == 2
sys.exit(main(["exec", "--", sys.executable, "-m", "pullqueue", "server"]))
"""


@pytest.mark.slow
def test_a_missing_sdk_is_reported_with_the_extra_to_install() -> None:
    done = subprocess.run([sys.executable, "-c", NO_SDK], capture_output=True, check=True)

    answer = remote_api.Response.FromString(done.stdout)
    assert answer.rpc_error.code == RpcError.CAPABILITY_DISABLED
    missing = f"App Engine's SDK is not installed: {install_command('appengine')}"
    assert f"where the server runs, {missing}" in answer.rpc_error.detail
    assert done.stderr.decode().splitlines() == [missing] * 2


@pytest.mark.slow
def test_options_of_services_need_the_sdk(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", OPTIONS], cwd=tmp_path, capture_output=True, check=True, text=True
    )
    missing = f"cannot be used: App Engine's SDK is not installed: {install_command('appengine')}"
    for option in ("--services", "--data", "--index-yaml"):
        assert f"pullqueue: {option} {missing}\n" in done.stderr
    assert re.search(r"^services +none$", done.stdout, re.MULTILINE)


def test_long_details_are_readable_without_the_sdk() -> None:
    detail = str(InvalidTagError("x" * 500))

    answer = remote_api.Response.FromString(bridge._failure(5, detail))

    assert (answer.rpc_error.code, answer.rpc_error.detail) == (5, detail)
