"""Fill the pages with Markdown that is generated from the code.

While Sphinx reads a page, a line `<!-- generated: rules -->` is replaced by the result of the
function of that name in `PARTS`, with all that follows as far as the line `<!-- end -->`. The
results are not stored in the repository: in the file, the lines between say where else they are.
The tables of limits, errors, checks and deployments, which no command prints, are stored by
`fidelity.py`.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
import warnings
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING

import click

import pullqueue as package
from pullqueue import limits
from pullqueue.checks import CHECKS
from pullqueue.cli import pullqueue
from pullqueue.cli.gtaskqueue import gtaskqueue, gtaskqueue_puller
from pullqueue.config.settings import PROFILES
from pullqueue.error_codes import find_codes
from pullqueue.errors import PullQueueError
from pullqueue.faults.declaration import WHEN, build_schema
from pullqueue.lint.deployment import FIELDS, LOST
from pullqueue.lint.rules import Rule, RuleDocs, Sample, all_rules, parse_docs
from pytest_pullqueue import plugin
from pytest_pullqueue.settings import INI_OPTIONS, Settings

if TYPE_CHECKING:
    from sphinx.application import Sphinx

_MARK = re.compile(r"^<!-- generated: (\w+) -->\n.*?^<!-- end -->$", re.MULTILINE | re.DOTALL)


def table(head: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *([_cell(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def limits_table() -> str:
    """Return every field of `Limits` with its default and docstring."""
    texts = _attribute_texts(limits.Limits)
    rows = [
        [f"`{name}`", _number(default), texts[name]]
        for name, default in limits.Limits._field_defaults.items()
    ]
    return table(["`Limits(...)`", "default", "what (source)"], rows)


def _number(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else f"`{value}`"


def _attribute_texts(owner: type) -> dict[str, str]:
    """Return the docstrings of the fields of a class, which Python does not store."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(owner))).body
    assert isinstance(tree, ast.ClassDef)
    return {
        field.target.id: text.value.value
        for field, text in zip(tree.body, tree.body[1:], strict=False)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }


def checks_table() -> str:
    """Return every check of production with what turns it on."""
    rows = [
        [
            each.name,
            each.refuses,
            f"`{each.option}`" if each.option else "always on",
            f"`{each.argument}`" if each.argument else "",
            each.facts,
        ]
        for each in CHECKS
    ]
    return table(["check", "refuses", "`serve`, `exec`", "marker in tests", "facts it needs"], rows)


def deployment_table() -> str:
    """Return what each setting of queue.yaml becomes in Cloud Tasks."""
    fields = {
        each.key: [f"`{each.message}`" if each.message else "none", each.meaning, each.source]
        for each in FIELDS
    }
    lost = {key: ["none", *why] for key, why in LOST.items()}
    rows = [
        ["`mode`: pull" if key == "mode" else f"`{key}`", *cells]
        for key, cells in (fields | {k: v for k, v in lost.items() if k not in fields}).items()
    ]
    return table(["queue.yaml", "Cloud Tasks", "what changes", "source"], rows)


def errors_table() -> str:
    """Return every error with its codes in each interface."""
    rows = []
    for kind, depth in _tree(PullQueueError, 0):
        codes = find_codes(_bare(kind))
        summary = inspect.cleandoc(kind.__doc__ or "").partition("\n")[0]
        rows.append(
            [
                f"{'· ' * depth}`{kind.__name__}`<br>{summary}",
                f"{codes.http_status} `{codes.reason}`<br>`{codes.rpc_code}`",
                _sdk_name(kind),
                str(codes.exit_status),
            ]
        )
    return table(["Python", "REST, gRPC", "SDK", "exit status"], rows)


def _tree(kind: type[PullQueueError], depth: int) -> Iterator[tuple[type[PullQueueError], int]]:
    yield kind, depth
    for child in kind.__subclasses__():
        if child.__name__ in package.__all__:
            yield from _tree(child, depth + 1)


def _bare(kind: type[PullQueueError]) -> PullQueueError:
    return kind.__new__(kind)


def _sdk_name(kind: type[PullQueueError]) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the SDK's own deprecations
        from pullqueue.sdk.imports import apiproxy_errors, messages  # noqa: PLC0415
        from pullqueue.sdk.protocol import sdk_error  # noqa: PLC0415

    error = sdk_error(_bare(kind))
    if isinstance(error, apiproxy_errors.ApplicationError):
        return f"`{messages.TaskQueueServiceError.ErrorCode.Name(error.application_error)}`"
    return f"`{type(error).__name__}`"


def rule_reference() -> str:
    """Return a table of all rules, then each rule with its docstring."""
    rules = all_rules()
    rows = [
        [f"[{r.code}](#{r.code.lower()})", f"`{r.name}`", _levels(r), parse_docs(r).summary]
        for r in rules
    ]
    head = table(["code", "name", "severity", "finds"], rows)
    return "\n\n".join([head, *map(_rule, rules)])


def _levels(rule: Rule) -> str:
    usual = rule.level("gcloud")
    others = {profile: rule.level(profile) for profile in PROFILES}
    changed = [f"{p}: {_level(level)}" for p, level in others.items() if level != usual]
    return _level(usual) + (f" ({', '.join(changed)})" if changed else "")


def _level(level: object) -> str:
    return "off" if level is None else str(getattr(level, "value", level))


def _rule(rule: Rule) -> str:
    docs: RuleDocs = parse_docs(rule)
    parts = [
        f"({rule.code.lower()})=\n## {rule.code} {rule.name}",
        f"*{'; '.join(_facts(rule))}*",
        docs.summary,
        docs.why,
        *map(_sample, docs.samples),
        f"Source: {docs.source}",
    ]
    return "\n\n".join(part for part in parts if part)


def _facts(rule: Rule) -> Iterator[str]:
    yield _levels(rule)
    if rule.fixes:
        yield f"fix: {' or '.join(rule.fixes)}"
    if rule.once:
        yield "once per file and key"
    if not rule.suppressible:
        yield "cannot be suppressed"


def _sample(sample: Sample) -> str:
    note = f" ({sample.note})" if sample.note else ""
    return f"{'Good' if sample.good else 'Bad'}{note}:\n\n````text\n{sample.text}````"


def commands() -> str:
    """Return every command of the programs with its arguments and options."""
    programs = {
        "pullqueue": pullqueue,
        "gtaskqueue": gtaskqueue,
        "gtaskqueue_puller": gtaskqueue_puller,
    }
    parts = (
        _command(program, click.Context(program, info_name=name, **program.context_settings), 2)
        for name, program in programs.items()
    )
    return "\n\n".join(chain.from_iterable(parts))


def _command(command: click.Command, context: click.Context, level: int) -> Iterator[str]:
    path = context.command_path
    usage = " ".join([path, *command.collect_usage_pieces(context)])
    yield f"{'#' * level} `{path}`"
    yield f"```text\n{usage}\n```"
    yield from map(_markdown, filter(None, (command.help, command.epilog)))
    options = [_option(option, context) for option in command.get_params(context)]
    rows = [list(option) for option in options if option]
    if rows:
        yield table(["option", ""], rows)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            if child is not None and not child.hidden:
                inner = click.Context(child, parent=context, info_name=name)
                yield from _command(child, inner, min(level + 1, 4))


def _option(parameter: click.Parameter, context: click.Context) -> tuple[str, str] | None:
    record = parameter.get_help_record(context)
    if not record or not record[1] or "--help" in parameter.opts:
        return None
    # With spaces a long list of choices can be broken into lines.
    return f"`{record[0].replace('|', ' | ')}`", _escaped(record[1])


def _markdown(text: str) -> str:
    """Return a help text as Markdown; paragraphs that click does not wrap become code."""
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(
        f"```text\n{part[2:]}\n```" if part.startswith("\b\n") else _escaped(part)
        for part in paragraphs
    )


def _escaped(text: str) -> str:
    """Escape what Markdown would interpret in a help text, outside of backticks."""
    parts = text.split("`")
    parts[::2] = [re.sub(r"([\[\]*_<>$])", r"\\\1", part) for part in parts[::2]]
    return "`".join(parts)


def fixtures() -> str:
    """Return every fixture of the plugin with its docstring."""
    parts = []
    for function, scope in _fixtures():
        assert function.returns is not None
        given = ast.unparse(function.returns)
        kind = re.sub(r"^(?:Iterator|Generator)\[([^,\]]+).*$", r"\1", given)
        parts.append(f"## `{function.name}`\n\n*`{kind}`, per {scope}*")
        parts.append(ast.get_docstring(function) or "")
    return "\n\n".join(parts)


def _fixtures() -> Iterator[tuple[ast.FunctionDef, str]]:
    """Yield the functions of the public fixtures and their scopes."""
    for function in ast.parse(inspect.getsource(plugin)).body:
        if isinstance(function, ast.FunctionDef) and not function.name.startswith("_"):
            for decorator in map(ast.unparse, function.decorator_list):
                if decorator.startswith("pytest.fixture"):
                    yield function, "session" if "session" in decorator else "function"


def marker() -> str:
    """Return the arguments of the marker."""
    texts = _attribute_texts(Settings)
    rows = [[f"`{name}`", text] for name, text in texts.items() if name != "config_base"]
    return table(["`@pytest.mark.pullqueue(...)`", ""], rows)


def ini_options() -> str:
    """Return the ini options of the plugin."""
    return table(["ini option", ""], [[f"`{name}`", text] for name, text in INI_OPTIONS.items()])


def fault_options() -> str:
    """Return the options that every fault has."""
    rows = [[f"`{name}`", build_schema(name)["description"]] for name in WHEN]
    return table(["argument", ""], rows)


PARTS: Mapping[str, Callable[[], str]] = {
    "fault_options": fault_options,
    "rules": rule_reference,
    "commands": commands,
    "fixtures": fixtures,
    "ini_options": ini_options,
    "marker": marker,
}


def _fill(_app: Sphinx, _page: str, source: list[str]) -> None:
    source[0] = _MARK.sub(lambda mark: PARTS[mark[1]](), source[0])


def setup(app: Sphinx) -> Mapping[str, bool]:
    """Fill each page when Sphinx reads it."""
    app.connect("source-read", _fill)
    return {"parallel_read_safe": True}
