"""`pullqueue schema`: the JSON Schema of queue.yaml, for editors and other checkers."""

from __future__ import annotations

import click


@click.command
@click.option(
    "--draft",
    type=click.Choice(["2020-12", "7"]),
    default="2020-12",
    show_default=True,
    help="The version of JSON Schema; editors and SchemaStore use 7.",
)
@click.option(
    "--problem-matcher",
    is_flag=True,
    help="Print GitHub's problem matcher for `lint --format full` instead.",
)
def schema(*, draft: str, problem_matcher: bool) -> None:
    """Print the JSON Schema of queue.yaml.

    Save it, and point an editor's YAML language server to it with a first line such as
    `# yaml-language-server: $schema=./queue.schema.json`.
    """
    from pullqueue.config import schema as published  # noqa: PLC0415 - only a run needs it

    if problem_matcher:
        text = published.package_data("problem-matcher.json").decode()
    elif draft == "7":
        text = published.draft_7()
    else:
        text = published.schema_bytes().decode()
    click.echo(text, nl=False)
