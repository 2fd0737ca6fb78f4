"""`pullqueue schema`: the JSON Schema of queue.yaml, for editors and other checkers."""

from __future__ import annotations

import click


@click.command
@click.option(
    "--draft",
    type=click.Choice(["2020-12", "7"]),
    default="2020-12",
    show_default=True,
    help="The version of JSON Schema; editors and SchemaStore want 7.",
)
def schema(*, draft: str) -> None:
    """Print the JSON Schema of queue.yaml.

    Save it, and point an editor's YAML language server to it with a first line such as
    `# yaml-language-server: $schema=./queue.schema.json`.
    """
    from pullqueue.config.schema import draft_7, schema_bytes  # noqa: PLC0415 - only a run needs it

    text = schema_bytes().decode() if draft == "2020-12" else draft_7()
    click.echo(text, nl=False)
