"""The container image and the compose sample, checked without a container engine: the commands they
hold are run as they stand, and the sample's programs work together.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import tomllib
from configparser import ConfigParser
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
import yaml
from documents import blocks_of
from forking import forked
from programs import running
from push_app import Control, push_app, until
from served import Served, free_port, serving

ROOT = Path(__file__).parents[2]
CONTAINERS = ROOT / "docs" / "how-to" / "containers.md"
PAGE = CONTAINERS.read_text("utf-8")
SAMPLE = ROOT / "samples" / "compose"
UNIT = ROOT / "samples" / "systemd" / "pullqueue.service"
DOCKERFILE = (ROOT / "Dockerfile").read_text("utf-8")


def compose() -> dict[str, Any]:
    document = yaml.safe_load((SAMPLE / "compose.yaml").read_text("utf-8"))
    return dict(document["services"])


def listed(pattern: str) -> list[str]:
    """Return the one list in the Dockerfile that is behind a pattern."""
    (found,) = re.findall(rf"{pattern} (\[.*\])$", DOCKERFILE, re.MULTILINE)
    return [str(argument) for argument in json.loads(found)]


def run_service(command: list[str], data: Path) -> AbstractContextManager[Served]:
    """Run the command of a container, or of a service, on this machine, at any port."""
    places = {"/etc/pullqueue": str(SAMPLE), "/var/lib/pullqueue": str(data)}
    for there, place in places.items():
        command = [argument.replace(there, place) for argument in command]
    assert command[0] == "serve"
    return serving(*command[1:], folder=data)


def test_the_image_s_command_and_health_check(tmp_path: Path) -> None:
    with run_service(listed("^CMD"), tmp_path) as server:
        check = listed(r"^HEALTHCHECK .*\\\n\s+CMD")
        health = [argument.replace("http://127.0.0.1:8124", server.url) for argument in check]
        well = subprocess.run([forked("pullqueue"), *health[1:]], check=False)
    gone = subprocess.run(
        [forked("pullqueue"), *health[1:-1], "0"], check=False, stderr=subprocess.DEVNULL
    )

    assert health[0] == "pullqueue"
    assert (well.returncode, gone.returncode) == (0, 1)


def test_the_image_does_not_run_as_root() -> None:
    assert re.search(r"^USER [1-9]\d+$", DOCKERFILE, re.MULTILINE)
    assert listed("^ENTRYPOINT") == ["pullqueue"]
    ignored = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    assert ignored[0] == "*"
    for kept in (line[1:] for line in ignored if line.startswith("!")):
        assert (ROOT / kept).exists(), kept


def test_app_and_worker_of_the_compose_file(tmp_path: Path) -> None:
    services = compose()
    assert services["app"]["environment"] == {"PULLQUEUE_EMULATOR_HOST": "pullqueue:8124"}
    assert ".:/etc/pullqueue:ro" in services["pullqueue"]["volumes"]
    assert services["app"]["depends_on"]["pullqueue"]["condition"] == "service_healthy"
    with run_service(services["pullqueue"]["command"], tmp_path) as server:
        url = server.url
        by_name = Request(f"{url}/_emulator/ready", headers={"Host": "pullqueue:8124"})  # noqa: S310
        with urlopen(by_name, timeout=60) as answer:  # noqa: S310
            assert answer.status == 200
        host = url.removeprefix("http://")
        app_command = (sys.executable, SAMPLE / "picture_app.py")
        worker_command = (sys.executable, "-u", SAMPLE / "picture_worker.py")
        with (
            running(*app_command, PORT="0", PULLQUEUE_EMULATOR_HOST=host) as app,
            running(*worker_command, PULLQUEUE_EMULATOR_HOST=host) as worker,
        ):
            assert app.stdout is not None
            assert worker.stdout is not None
            port = app.stdout.readline().split()[-1]
            post = Request(f"http://127.0.0.1:{port}/", b"resize cat.png")
            with urlopen(post, timeout=60) as answer:  # noqa: S310
                name = answer.read().decode().split()[1]
            assert worker.stdout.readline() == f"{name}: RESIZE CAT.PNG\n"
            done = subprocess.run(
                [forked("pullqueue"), "wait", "--url", url, "--empty", "pictures"], check=False
            )
            assert done.returncode == 0


def test_the_documented_compose_file_sends_each_service_its_tasks(tmp_path: Path) -> None:
    (block,) = (b for b in blocks_of(CONTAINERS) if b.file_name == "compose.yaml")
    services = yaml.safe_load(block.text)["services"]
    assert services["app"]["environment"] == services["worker"]["environment"]
    with push_app() as app, push_app() as worker:
        command = [
            argument.replace("http://app:8080", app.url).replace("http://worker:8080", worker.url)
            for argument in services["pullqueue"]["command"]
        ]
        with run_service(command, tmp_path) as server:
            for target in (None, "worker"):
                task = {"request": {"url": f"/{target}", "target": target}}
                server.control.call("POST", "/queues/default/tasks", {"tasks": [task]})
            until(lambda: app.received and worker.received)

    assert (app.paths(), worker.paths()) == (["/None"], ["/worker"])


RESOLVING = """
import runpy, socket, sys
known = socket.getaddrinfo
def getaddrinfo(host, *arguments, **options):
    host = '127.0.0.1' if host in ('app', 'pullqueue') else host
    return known(host, *arguments, **options)
socket.getaddrinfo = getaddrinfo
sys.argv = sys.argv[1:]
if sys.argv[0] == 'serve':
    from pullqueue.cli import main
    sys.exit(main(sys.argv))
runpy.run_path(sys.argv[0], run_name='__main__')
"""
"""Runs a program where the names of services are known, as in a network of containers."""
APP = """
import http.server, json, os, urllib.request
class App(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers.get('Content-Length', 0)))
        if self.path == '/orders':
            url = f'http://app:{self.server.server_port}/tasks/mail'
            task = json.dumps({'task': {'httpRequest': {'url': url, 'body': 'dGVh'}}}).encode()
            queue = 'projects/my-app/locations/us-central1/queues/default'
            root = f'http://{os.environ["PULLQUEUE_EMULATOR_HOST"]}/v2'
            urllib.request.urlopen(f'{root}/{queue}/tasks', task).close()
        else:
            print(self.headers['Host'].partition(':')[0], self.path, body.decode(), flush=True)
        self.send_response(200)
        self.end_headers()
    def log_message(self, *_): pass
server = http.server.HTTPServer(('127.0.0.1', 0), App)
print(server.server_port, flush=True)
server.serve_forever()
"""


def test_tasks_for_the_name_of_a_service_are_sent_there(tmp_path: Path) -> None:
    """By the command of the documented file for Cloud Tasks; without --push-to the hint is it."""
    (block,) = (b for b in blocks_of(CONTAINERS) if b.file_name == "cloudtasks/compose.yaml")
    services = yaml.safe_load(block.text)["services"]
    (tmp_path / "app.py").write_text(APP)
    resolving = (forked("python"), "-c", RESOLVING)
    port = free_port()
    where = services["app"]["environment"]["PULLQUEUE_EMULATOR_HOST"].replace("8124", str(port))
    with running(*resolving, "app.py", cwd=tmp_path, PULLQUEUE_EMULATOR_HOST=where) as app:
        assert app.stdout is not None
        address = f"http://app:{app.stdout.readline().strip()}"
        command = [
            argument.replace("8126", "0").replace("http://app:8080", address)
            for argument in services["pullqueue"]["command"]
        ]
        assert command.pop() == f"--push-to={address}"
        with running(*resolving, *command, f"--port={port}", cwd=tmp_path) as server:
            assert server.stdout is not None
            assert server.stdout.readline().startswith("pullqueue listening on ")
            control = Control(f"http://127.0.0.1:{port}")
            orders = address.replace("app", "127.0.0.1")
            urlopen(Request(f"{orders}/orders", b""), timeout=60).close()  # noqa: S310
            text = control.queue("default")["progress"]["text"]
            (hint,) = re.findall(r"pullqueue push-to ([^\s`]+)", text)
            assert hint == address
            control.call("POST", "/push_to", {"push_to": [hint]})
            assert app.stdout.readline() == "app /tasks/mail tea\n"


def documented(program: str) -> list[list[str]]:
    return [shlex.split(line) for line in PAGE.splitlines() if line.startswith(f"{program} ")]


@pytest.mark.parametrize("command", documented("docker run"), ids=lambda command: command[-1])
def test_the_documented_ways_to_run_the_image(command: list[str], tmp_path: Path) -> None:
    """The image is the one that was built; port, folders and command fit what is inside of it."""
    places = [command[n + 1] for n, argument in enumerate(command) if argument == "-v"]
    image = command.index("pullqueue")

    assert command[:3] == ["docker", "run", "--rm"]
    published = [command[n + 1] for n, argument in enumerate(command) if argument == "-p"]
    (ports,) = re.findall(r"^EXPOSE ([\d ]+)$", DOCKERFILE, re.MULTILINE)
    exposed = [f"127.0.0.1:{port}:{port}" for port in ports.split()]
    assert published == exposed[: len(published)]
    assert all(known(place.split(":")[1]) for place in places)
    if arguments := command[image + 1 :]:  # or those of the image, which are run above
        # The port for gRPC is any free one, as the other is.
        free = [argument.replace("8126", "0") for argument in arguments]
        with run_service(free, tmp_path) as server:
            assert server.url


def known(folder: str) -> bool:
    """Tell whether the image has a folder: where it works, or one that is its user's."""
    return bool(re.search(rf"^WORKDIR {folder}$|-o pullqueue {folder}$", DOCKERFILE, re.MULTILINE))


def test_the_documented_name_and_extras_of_the_image_exist() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"][
        "optional-dependencies"
    ]
    builds = documented("docker build")

    assert builds
    for build in builds:
        assert build[2:4] == ["-t", "pullqueue"]
        named = re.findall(r"EXTRAS=\[(.*)\]", " ".join(build))
        assert {extra for names in named for extra in names.split(",")} <= set(extras)


def test_the_unit_of_systemd_starts_a_command_and_reloads_it(tmp_path: Path) -> None:
    unit = ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]  # as the library documents it
    unit.read(UNIT)
    service = unit["Service"]

    assert service["ExecReload"] == "/bin/kill -HUP $MAINPID"
    assert f"/var/lib/{service['StateDirectory']}/" in service["ExecStart"]
    with run_service(service["ExecStart"].split()[1:], tmp_path) as server:
        assert server.url
