"""What YAML 1.1 makes of a plain scalar, as App Engine's reader sees it.

PyYAML's safe types, with one difference: App Engine's reader (ruamel.yaml in its YAML 1.1 mode)
takes an exponent without a dot or without a sign (`1e2`, `1.5e3`) for a number, PyYAML for text.
"""

from __future__ import annotations

import re

from yaml.constructor import ConstructorError, SafeConstructor
from yaml.nodes import ScalarNode
from yaml.resolver import Resolver

from pullqueue.config.nodes import Scalar, ScalarValue

TAG_PREFIX = "tag:yaml.org,2002:"
SCALAR_TAGS = frozenset(TAG_PREFIX + kind for kind in ("str", "int", "float", "bool", "null"))
"""Tags that may be written out, as `!!str`."""

_EXPONENT = re.compile(r"[-+]?[0-9][0-9_]*(\.[0-9_]*)?[eE][-+]?[0-9]+")
_LONGEST_TYPED = 1000
_TYPED = frozenset({"int", "float", "bool", "null", "timestamp"})

_resolver = Resolver()
_constructor = SafeConstructor()


def assign_type(scalar: Scalar, *, tag: str | None, plain: bool) -> bool:
    """Set a scalar's kind and value; False if its explicit tag does not fit its text."""
    if tag is None:
        tag = _implicit_tag(scalar.text) if plain else TAG_PREFIX + "str"
        explicit = False
    else:
        explicit = True
    kind = tag.removeprefix(TAG_PREFIX)
    if kind not in _TYPED:
        scalar.kind, scalar.value = "str", scalar.text
        return True
    try:
        scalar.value = _construct(kind, tag, scalar.text)
    except (ConstructorError, ValueError, OverflowError, KeyError):
        scalar.kind, scalar.value = "str", scalar.text
        return not explicit
    scalar.kind = kind
    return True


def _implicit_tag(text: str) -> str:
    if len(text) > _LONGEST_TYPED:  # no number anyone means, and slow to convert
        return TAG_PREFIX + "str"
    tag: str = _resolver.resolve(ScalarNode, text, (True, False))  # type: ignore[no-untyped-call]
    if tag == TAG_PREFIX + "str" and _EXPONENT.fullmatch(text):
        return TAG_PREFIX + "float"
    return tag


def _construct(kind: str, tag: str, text: str) -> ScalarValue:
    node = ScalarNode(tag, text)
    match kind:
        case "int":
            return int(_constructor.construct_yaml_int(node))
        case "float":
            return float(_constructor.construct_yaml_float(node))
        case "bool":
            return bool(_constructor.construct_yaml_bool(node))
        case "null":
            return None
        case _:
            return str(_constructor.construct_yaml_timestamp(node))
