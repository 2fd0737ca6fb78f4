"""What the tests of Cloud Tasks share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from cloudtasks_api import GrpcApi, RestApi
from werkzeug.test import Client

from pullqueue import Emulator, Limits, ManualClock
from pullqueue.cloudtasks.versions import V2BETA2, Version
from pullqueue.config import loads
from pullqueue.server.app import create_app
from pullqueue.server.lifecycle import Server

CONFIG = loads("""
queue:
- name: pull
  mode: pull
- name: limited
  mode: pull
  retry_parameters:
    task_retry_limit: 2
- name: push
  rate: 5/s
  bucket_size: 10
  max_concurrent_requests: 3
  target: v1.worker
  retry_parameters:
    min_backoff_seconds: 0.5
    max_doublings: 4
""")


@pytest.fixture
def limits() -> Limits:
    return Limits()


@pytest.fixture
def emulator(clock: ManualClock, limits: Limits) -> Emulator:
    return Emulator(CONFIG, clock=clock, limits=limits)


@pytest.fixture
def client(emulator: Emulator) -> Client:
    """Return a client of the emulator's application, without a socket."""
    return Client(create_app(emulator))


@pytest.fixture
def server(emulator: Emulator) -> Iterator[Server]:
    with Server(emulator) as server:
        yield server


@pytest.fixture
def version(request: pytest.FixtureRequest) -> Version:
    """Return the version of the API that is called, which a module may name."""
    found: Version = getattr(request.module, "VERSION", V2BETA2)
    return found


@pytest.fixture
def call(client: Client, version: Version) -> RestApi:
    """Return what calls a method by its name, over REST; that gRPC answers the same is one test."""
    return RestApi(client, version=version)


@pytest.fixture
def grpc_api(server: Server) -> Iterator[GrpcApi]:
    api = GrpcApi(server)
    yield api
    api.channel.close()
