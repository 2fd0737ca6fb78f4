"""What programs from npm say: an editor's YAML language server, ajv, and the schema of SARIF.

Needs Node.js with npm, and its registry; where they are missing, the tests say so and are skipped.
"""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from linting import pullqueue
from programs import completed

from pullqueue.config.schema import draft_7, schema_bytes
from pullqueue.config.shape import validator

CASES = Path(__file__).parents[1] / "lint_cases"
Json = dict[str, Any]


@pytest.fixture(scope="module")
def node_modules(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """A folder with the programs, installed for this run."""
    folder = tmp_path_factory.mktemp("npm")
    packages = ["yaml-language-server@1", "@microsoft/sarif-multitool-linux@5", "ajv@8"]
    missing = next((f"{name} is missing" for name in ("node", "npm") if not shutil.which(name)), "")
    if not missing:
        command = ["npm", "install", "--no-audit", "--no-fund", "--silent", *packages]
        done = completed(command, cwd=folder)
        missing = f"npm cannot install {' '.join(packages)}: {done.stderr}" * bool(done.returncode)
    if missing:
        reason = f"editor, ajv and SARIF not tested: {missing}"
        terminal = request.config.pluginmanager.get_plugin("terminalreporter")
        if terminal is not None:
            terminal.write_line(f"\n{reason}")
        pytest.skip(reason)
    return folder / "node_modules"


class LanguageServer:
    """Speaks the language server protocol with a process."""

    def __init__(self, process: subprocess.Popen[bytes], settings: Json) -> None:
        """Take the process's pipes, and the settings it will ask for."""
        self._settings = settings
        assert process.stdin is not None
        assert process.stdout is not None
        self._stdin = process.stdin
        self._stdout = process.stdout
        self._numbers = itertools.count(1)

    def notify(self, method: str, params: Json) -> None:
        """Send a notification."""
        self._send({"method": method, "params": params})

    def ask(self, method: str, params: Json) -> Any:
        """Send a request and return the answer."""
        number = next(self._numbers)
        self._send({"id": number, "method": method, "params": params})
        while True:
            message = self.receive()
            if message.get("id") == number and "method" not in message:
                return message.get("result")

    def receive(self) -> Json:
        """Return the next message; the server's own questions are for settings."""
        length = 0
        while (line := self._stdout.readline().strip()) != b"":
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        message: Json = json.loads(self._stdout.read(length))
        if "id" in message and "method" in message:
            items = message.get("params", {}).get("items", [])
            result = [self._settings.get(item["section"], {}) for item in items]
            self._send({"id": message["id"], "result": result or None})
        return message

    def _send(self, message: Json) -> None:
        data = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self._stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(data), data))
        self._stdin.flush()

    def diagnose(self, uri: str, text: str) -> list[Json]:
        """Open a file and return what the server finds in it."""
        document = {"uri": uri, "languageId": "yaml", "version": 1, "text": text}
        self.notify("textDocument/didOpen", {"textDocument": document})
        while True:
            message = self.receive()
            if message.get("method") == "textDocument/publishDiagnostics":
                params = message["params"]
                if params["uri"] == uri:
                    found: list[Json] = params["diagnostics"]
                    return found

    def diagnose_case(self, name: str) -> list[Json]:
        """Open a case of the linter and return what the server finds in it."""
        return self.diagnose(f"file:///{name}.yaml", (CASES / f"{name}.yaml").read_text())


@pytest.fixture(scope="module", params=["2020-12", "7"])
def server(
    request: pytest.FixtureRequest, node_modules: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LanguageServer]:
    """A language server that knows the schema, in one of its two drafts."""
    schema = tmp_path_factory.mktemp("schema") / "queue.schema.json"
    schema.write_bytes(schema_bytes() if request.param == "2020-12" else draft_7().encode())
    program = node_modules / ".bin" / "yaml-language-server"
    settings = {
        "yaml": {
            "schemas": {schema.as_uri(): ["*.yaml"]},
            "yamlVersion": "1.1",
            "validate": True,
            "hover": True,
            "completion": True,
            "schemaStore": {"enable": False},
        }
    }
    with subprocess.Popen(
        [program, "--stdio"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        server = LanguageServer(process, settings)
        server.ask("initialize", {"processId": None, "rootUri": None, "capabilities": {}})
        server.notify("initialized", {})
        server.notify("workspace/didChangeConfiguration", {"settings": settings})
        yield server
        process.kill()


@pytest.mark.parametrize(
    "name",
    ["indented_list_and_comments_ok", "json_style_ok", "pull_retry_limit_ok", "empty_queue_ok"],
)
def test_editor_finds_nothing_in_right_files(server: LanguageServer, name: str) -> None:
    """A right file has no squiggle."""
    assert server.diagnose_case(name) == []


@pytest.mark.parametrize(
    ("name", "line", "message"),
    [
        ("unknown_key_xml_dialect", 5, ""),
        ("misplaced_storage_limit", 5, ""),
        ("missing_name", 3, ""),
        ("acl_list_of_strings", 6, "each acl entry must be user_email or writer_email with an add"),
        ("name_underscore", 3, "use letters, digits and hyphens"),
        ("mode_typo", 4, "use `pull` or `push`"),
        ("rate_long_unit", 4, "use a number, a slash and s, m, h or d"),
        ("bucket_too_large", 5, ""),
        ("bucket_word", 5, "use a whole number, for example `10`"),
        ("rate_30001_per_min", 4, ""),
        ("retry_limit_negative", 6, ""),
        ("age_limit_week", 6, ""),
        ("backoff_with_unit", 6, ""),
        ("target_upper", 5, ""),
        ("storage_mb_suffix", 2, ""),
        ("resume_maybe", 2, ""),
        ("pull_rate_first", 3, "not allowed on a pull queue: remove it, or set `mode: push`"),
        ("pull_rate_before_mode", 4, ""),
        ("pull_max_doublings", 6, "not allowed on a pull queue: remove it, or"),
        ("pull_target", 5, ""),
    ],
)
def test_editor_marks_the_line_the_linter_marks(
    server: LanguageServer, name: str, line: int, message: str
) -> None:
    """An editor shows what to do, in the schema's words, where the linter does."""
    found = server.diagnose_case(name)
    assert {item["range"]["start"]["line"] + 1 for item in found} == {line}
    assert any(message in item["message"] for item in found), found


def test_editor_completes_and_explains(server: LanguageServer) -> None:
    """Keys are completed, and their descriptions shown."""
    uri = "file:///complete.yaml"
    server.diagnose(uri, "queue:\n- name: mail\n  rate: 5/s\n  b\n")
    at = {"textDocument": {"uri": uri}, "position": {"line": 3, "character": 3}}
    completed = server.ask("textDocument/completion", at)
    assert {"bucket_size", "mode", "acl"} <= {item["label"] for item in completed["items"]}
    on_rate = {"textDocument": {"uri": uri}, "position": {"line": 2, "character": 3}}
    hover = server.ask("textDocument/hover", on_rate)
    assert "a slash and" in str(hover["contents"])


STRICT = """
const Ajv = require(process.argv[1] === "7" ? "ajv" : "ajv/dist/2020").default;
const ajv = new Ajv({ strict: true, allowUnionTypes: true });
ajv.addVocabulary(["errorMessage", "x-rules"]);
const [schema, files] = JSON.parse(require("fs").readFileSync(0));
const validate = ajv.compile(schema);
console.log(JSON.stringify(files.map((file) => validate(file))));
"""


@pytest.mark.parametrize("draft", ["2020-12", "7"])
def test_ajv_accepts_the_schema_in_strict_mode(node_modules: Path, draft: str) -> None:
    """ajv compiles the schema without a complaint, and judges files as jsonschema does."""
    schema = json.loads(draft_7() if draft == "7" else schema_bytes())
    files = [
        yaml.safe_load(case.read_text())
        for pattern in ("*_ok.yaml", "pull_*.yaml", "rate_*.yaml", "bucket_*.yaml", "target_*.yaml")
        for case in sorted(CASES.glob(pattern))
    ]
    done = completed(
        ["node", "-e", STRICT, draft], cwd=node_modules.parent, input=json.dumps([schema, files])
    )
    assert done.stderr == ""
    assert json.loads(done.stdout) == [validator().is_valid(file) for file in files]


def test_sarif_is_valid_by_its_schema(node_modules: Path) -> None:
    """Every rule that a case shows is written as the schema of SARIF asks for."""
    path = node_modules / "@microsoft" / "sarif-multitool-linux" / "sarif-2.1.0.json"
    validator = jsonschema.Draft202012Validator(json.loads(path.read_bytes()))
    cases = [str(path) for path in sorted(CASES.glob("*.yaml"))]
    report = json.loads(pullqueue("lint", *cases, "--format", "sarif").stdout)
    assert [error.message for error in validator.iter_errors(report)] == []
    (run,) = report["runs"]
    assert run["tool"]["driver"]["informationUri"]
    assert all(rule["helpUri"] for rule in run["tool"]["driver"]["rules"])
    prints = [result["partialFingerprints"]["pullqueueFinding/v1"] for result in run["results"]]
    assert len(set(prints)) == len(prints)
    run["results"][0]["level"] = "fatal"
    assert not validator.is_valid(report)
