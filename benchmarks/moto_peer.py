"""moto's SQS, the queue that tests of other clouds run against."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import requests

from benchmarks.rest_client import HOST

Call = Callable[..., dict[str, Any]]


@contextmanager
def moto() -> Iterator[Call]:
    """Run moto's server and give a function that calls SQS over a session."""
    with socket.socket() as free:
        free.bind((HOST, 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(  # noqa: S603 - the peer of this benchmark
        [sys.executable, "-m", "moto.server", "-H", HOST, "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    url = f"http://{HOST}:{port}/"

    def call(session: requests.Session, action: str, **parameters: object) -> dict[str, Any]:
        if action != "CreateQueue":
            parameters["QueueUrl"] = f"{url}123456789012/q"
        headers = {
            "X-Amz-Target": f"AmazonSQS.{action}",
            "Content-Type": "application/x-amz-json-1.0",
            "Authorization": "AWS4-HMAC-SHA256 Credential=x/20260101/us-east-1/sqs/aws4_request, "
            "SignedHeaders=host, Signature=x",
        }
        response = session.post(url, data=json.dumps(parameters), headers=headers)
        response.raise_for_status()
        return dict(response.json()) if response.content else {}

    try:
        _wait_until_it_listens(port, process)
        with requests.Session() as session:
            call(session, "CreateQueue", QueueName="q")
        yield call
    finally:
        process.terminate()
        process.wait()


def _wait_until_it_listens(port: int, process: subprocess.Popen[bytes]) -> None:
    while process.poll() is None:
        try:
            socket.create_connection((HOST, port)).close()
        except OSError:
            continue
        return
    raise SystemExit("moto_server does not start: install moto[server]")
