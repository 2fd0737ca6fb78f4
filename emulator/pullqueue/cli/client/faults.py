"""`pullqueue faults`: make calls of an app fail, to see what it does."""

from __future__ import annotations

from typing import Any

import click

from pullqueue.cli._options import Command, Duration, Number
from pullqueue.cli._output import Table, show
from pullqueue.cli._words import Choice, Group
from pullqueue.cli.client import Client
from pullqueue.cli.client._options import complete_fault, complete_queue, server_options
from pullqueue.cli.client.connection import Json
from pullqueue.faults.declaration import (
    CALLS,
    KINDS,
    METHODS,
    OPTIONS,
    build_schema,
    options_text,
)

_FLAGS = {"url": "task-url"}
"""Names of options that differ from those of a fault: --url is the server's address."""
_HEAD = ("NUMBER", "KIND", "CALL", "OPTIONS", "TRIGGERED")
_HELP = "\n\n".join(
    [
        "Set a fault of a KIND for a CALL.",
        *(f"{kind.name}: {kind.summary}" for kind in KINDS.values()),
        f"A CALL is one of {', '.join(CALLS)}, or a method of Cloud Tasks, such as {METHODS[0]}.",
    ]
)


@click.group(cls=Group)
def faults() -> None:
    """List the faults that are set, or set and remove faults.

    Faults affect the calls of the app through every interface, never these commands or the console.
    """


@faults.command("list")
@server_options
def list_(*, client: Client) -> None:
    """List the faults that are set, as `faults` alone does.

    TRIGGERED: number of calls on which a fault has triggered, of those that it selects.
    """
    answer = client.get("/faults")
    show(answer, _table(answer["faults"]))


def _fault_options(command: Command) -> Command:
    """Add an option for each option of a fault, but its call, which is an argument."""
    for name in reversed([name for name in OPTIONS if name != "call"]):
        schema = build_schema(name)
        several = schema.get("type") == "array"
        flag = _FLAGS.get(name, name.removesuffix("s") if several else name)
        command = click.option(
            f"--{flag.replace('_', '-')}",
            name,
            type=Duration(0) if name == "seconds" else _type_of(schema),
            is_flag=schema.get("type") == "boolean",
            default=None,
            multiple=several,
            metavar=name.upper() if "enum" in schema else None,
            help=_help_of(schema, several=several),
            shell_complete=complete_queue if name == "queues" else None,
        )(command)
    return command


def _help_of(schema: Json, *, several: bool) -> str:
    text: str = schema["description"]
    if several:
        text += " Repeat the option for several."
    if "enum" in schema:
        text += f" One of {', '.join(schema['enum'])}."
    return text


def _type_of(schema: Json) -> click.ParamType[Any]:
    if "enum" in schema:
        return Choice(schema["enum"])
    if schema["type"] == "boolean":
        return click.BOOL
    if schema["type"] == "integer":
        low, high = schema.get("minimum"), schema.get("maximum")
        return click.INT if low is None else click.IntRange(low, high)
    if schema["type"] == "number":
        above = schema.get("exclusiveMinimum")
        low = schema.get("minimum") if above is None else above
        return Number(low, schema.get("maximum"), min_open=above is not None)
    return click.STRING


@faults.command(help=_HELP)
@click.argument("kind", type=Choice(KINDS), metavar="KIND")
@click.argument("call", required=False, type=Choice((*CALLS, *METHODS)), metavar="[CALL]")
@_fault_options
@server_options
def add(*, client: Client, **options: object) -> None:
    """Set a fault."""
    answer = client.post("/faults", **{n: value for n, value in options.items() if value != ()})
    show(answer, _table([answer["fault"]]))


@faults.command
@click.argument("number", type=int, shell_complete=complete_fault)
@server_options
def remove(*, number: int, client: Client) -> None:
    """Remove the fault with this NUMBER."""
    answer = client.call("DELETE", f"/faults/{number}")
    show(answer, f"{answer['deleted']} removed")


@faults.command
@server_options
def clear(*, client: Client) -> None:
    """Remove all faults."""
    answer = client.call("DELETE", "/faults")
    show(answer, f"{answer['deleted']} removed")


def _table(found: list[Json]) -> Table:
    return Table(_HEAD, map(_row, found), "no faults", cut=["OPTIONS"])


def _row(fault: Json) -> list[object]:
    return [
        fault["number"],
        fault["kind"],
        fault.get("call", "every lease"),
        options_text(fault),
        f"{fault['hits']} of {fault['calls']}",
    ]
