"""Rules on YAML: syntax, and what of it App Engine does not take."""

from __future__ import annotations

from pullqueue.config.findings import Severity
from pullqueue.config.rules.base import Rule


class YamlSyntax(Rule):
    """The file is not valid YAML.

    Nothing can be read from it, so nothing else is reported. Common causes: no space after the
    colon of a key or after the dash of a list, a colon forgotten, keys of one queue in different
    columns, a quote or bracket that is never closed.

    Bad:
        queue:
        - name: mail
          rate 5/s

    Good:
        queue:
        - name: mail
          rate: 5/s

    Source: YAML 1.1; App Engine's reader refuses such a file.
    """

    code = "QY001"
    name = "yaml-syntax"
    hideable = False


class TabIndent(Rule):
    r"""A tab is used for indentation.

    YAML permits spaces only, before a key as well as behind a dash.

    Bad (escaped):
        queue:\n-\tname: mail\n  rate: 5/s\n

    Good:
        queue:
        - name: mail
          rate: 5/s

    Source: YAML 1.1, section 5.3.
    """

    code = "QY004"
    name = "tab-indent"
    hideable = False


class MultipleDocuments(Rule):
    """The file has more than one YAML document.

    App Engine refuses it ("Multiple queue: sections"). Only the first document is checked
    further.

    Bad:
        queue:
        - name: mail
          rate: 5/s
        ---
        queue:
        - name: other
          rate: 1/s

    Good:
        queue:
        - name: mail
          rate: 5/s
        - name: other
          rate: 1/s

    Source: the Python SDK's queueinfo.
    """

    code = "QY005"
    name = "multiple-documents"
    hideable = False


class AnchorOrAlias(Rule):
    """The file uses an anchor, an alias or a merge key.

    App Engine accepts none of them. Behind an alias nothing is checked, since a few of them can
    stand for gigabytes.

    Bad:
        queue:
        - name: mail
          rate: &slow 1/s
        - name: news
          rate: *slow

    Good:
        queue:
        - name: mail
          rate: 1/s
        - name: news
          rate: 1/s

    Source: the Python SDK: "Anchors not supported in this handler".
    """

    code = "QY008"
    name = "anchor-or-alias"
    hideable = False


class DuplicateKey(Rule):
    """A key stands twice in one mapping.

    App Engine refuses the file. Other readers of YAML keep the last one without a word.

    Bad:
        queue:
        - name: mail
          rate: 5/s
          rate: 1/s

    Good:
        queue:
        - name: mail
          rate: 1/s

    Source: the Python SDK: "Duplicate attribute".
    """

    code = "QY009"
    name = "duplicate-key"
    hideable = False


class ComplexKey(Rule):
    """A key is a list or a mapping.

    Keys of queue.yaml are plain words.

    Bad:
        queue:
        - name: mail
          rate: 5/s
          ? [a, b]
          : 5

    Good:
        queue:
        - name: mail
          rate: 5/s

    Source: the Python SDK's queueinfo.
    """

    code = "QY010"
    name = "complex-key"
    hideable = False


class TooDeep(Rule):
    """The file is nested deeper than the format can be.

    The format needs 5 levels; 32 are permitted.

    Bad:
        queue: [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]

    Good:
        queue: []

    Source: a bound of this program's own.
    """

    code = "QY012"
    name = "too-deep"
    hideable = False


class YamlTag(Rule):
    """A value carries a YAML tag that means nothing here.

    `!!str` and the other plain types are harmless; `!Ref` or `!!python/object` make App Engine's
    reader fail, and would run code in careless ones. A plain `<<` or `=` has such a tag unwritten.

    Bad:
        queue:
        - name: !Ref QueueName
          rate: 5/s

    Good:
        queue:
        - name: !!str mail
          rate: 5/s

    Source: the Python SDK's reader, run.
    """

    code = "QY013"
    name = "yaml-tag"
    hideable = False


class YamlDirective(Rule):
    """The file begins with a `%YAML` or `%TAG` line.

    App Engine's library fails on it with a Python traceback.

    Bad:
        %YAML 1.2
        ---
        queue:
        - name: mail
          rate: 5/s

    Good:
        queue:
        - name: mail
          rate: 5/s

    Source: the Python SDK with current ruamel.yaml, run.
    """

    code = "QY014"
    name = "yaml-directive"
    severity = Severity.WARNING
