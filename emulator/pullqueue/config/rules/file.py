"""Rules on the file itself: bytes, characters, YAML."""

from __future__ import annotations

from collections.abc import Iterator

from pullqueue.config.findings import Severity
from pullqueue.config.nodes import Scalar, Sequence, shorten
from pullqueue.config.reports import Place, Report
from pullqueue.config.rules.base import Rule
from pullqueue.config.view import View


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


class Encoding(Rule):
    r"""The file is not UTF-8.

    gcloud and the development server read UTF-8. A file in UTF-16 or Latin-1 fails there, or
    reads as something else.

    Bad (bytes):
        queue:\n- name: caf\xe9\n  rate: 5/s\n

    Good:
        queue:
        - name: cafe
          rate: 5/s

    Source: gcloud and the Python SDK open the file as UTF-8.
    """

    code = "QY002"
    name = "encoding"
    hideable = False


class ByteOrderMark(Rule):
    r"""The file begins with a byte-order mark.

    App Engine's reader skips it; other tools take it for a part of the first key.

    Bad (escaped):
        \ufeffqueue:\n- name: mail\n  rate: 5/s\n

    Good:
        queue:
        - name: mail
          rate: 5/s

    Source: the Unicode standard recommends none in UTF-8.
    """

    code = "QY003"
    name = "bom"
    severity = Severity.WARNING


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


class EmptyFile(Rule):
    """The file holds no data.

    App Engine's library refuses a file without a document, and takes one that holds nothing
    but `~` for a file without queues, which pauses every queue at the next deployment.

    Bad:
        # all of it commented out
        # queue:
        # - name: mail

    Good:
        queue:
        - name: mail
          rate: 5/s

    Source: the Python SDK's queueinfo; gcloud's deployment of queues.
    """

    code = "QY006"
    name = "empty-file"
    hideable = False


class RootNotMapping(Rule):
    """The top level is a list or a single value.

    A list makes App Engine's library fail. A single value, such as the text of a queue.xml saved
    as queue.yaml, is accepted without a word and means "no queues": the next deployment pauses
    them all.

    Bad:
        - name: mail
          rate: 5/s

    Good:
        queue:
        - name: mail
          rate: 5/s

    Source: the Python SDK's queueinfo, run.
    """

    code = "QY007"
    name = "root-not-mapping"
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


class FileTooLarge(Rule):
    """The file is larger than any queue.yaml.

    More than 1 MiB, or more than 20,000 keys and values, is a mistake or an attack; the largest
    known file has 15 KiB.

    Bad (100000 times):
        # not a queue

    Good:
        queue:
        - name: mail
          rate: 5/s

    Source: a bound of this program's own.
    """

    code = "QY011"
    name = "file-too-large"
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
    reader fail, and would run code in careless ones.

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


class ControlCharacter(Rule):
    r"""The file holds a character that YAML forbids, or that breaks lines unseen.

    NUL and the other control characters stop the reader. U+0085, U+2028 and U+2029 end a line
    (and a comment) for YAML, not in an editor.

    Bad (escaped):
        queue:\n- name: ma\x00il\n  rate: 5/s\n

    Good:
        queue:
        - name: mail
          rate: 5/s

    Source: YAML 1.1, sections 5.1 and 5.4.
    """

    code = "QY015"
    name = "control-character"
    hideable = False


class UnrenderedTemplate(Rule):
    """Template markers were left in the file.

    `{{ }}`, `{% %}`, `<% %>` and `${}` belong to Jinja, ERB and shells. App Engine would read
    them as they stand. It is reported once; what stands beside the markers is still checked
    where that can be told.

    Bad:
        queue:
        - name: mail
          rate: {{ RATE }}

    Good:
        queue:
        - name: mail
          rate: 5/s

    Source: a fault seen in public repositories.
    """

    code = "QY016"
    name = "unrendered-template"
    hideable = False


class MergeConflict(Rule):
    """A merge conflict was left in the file.

    Bad:
        queue:
        - name: mail
        <<<<<<< HEAD
          rate: 5/s
        =======
          rate: 1/s
        >>>>>>> slower

    Good:
        queue:
        - name: mail
          rate: 1/s

    Source: git.
    """

    code = "QY017"
    name = "merge-conflict"
    hideable = False


class FileName(Rule):
    """A file that holds queues is not called queue.yaml.

    gcloud knows the exact name `queue.yaml` only; `sandbox-queue.yaml` it takes for an app.yaml.
    The development server reads `queue.yml` too. Reported for files that a search of folders
    came upon, never for a file that was named by hand.

    Bad (file queue.yml):
        queue:
        - name: mail
          rate: 5/s

    Good:
        queue:
        - name: mail
          rate: 5/s

    Source: gcloud's list of configuration files.
    """

    code = "QY018"
    name = "file-name"
    severity = Severity.WARNING

    def check(self, view: View) -> Iterator[Report]:
        """Report a file that a search found under another name."""
        if view.settings.misnamed:
            name = shorten(view.source.file.replace("\\", "/").rpartition("/")[2])
            message = (
                f'gcloud does not take "{name}" for a queue.yaml, and neither will a deployment '
                "that names it: call it queue.yaml, in a folder of its own"
            )
            yield Report(at=view.top.place, message=message)


class NoQueues(Rule):
    """The file has no `queue`.

    Deployed, such a file pauses every queue but `default`. An empty `queue:`, often a template
    for later, is reported with `--strict` only.

    Bad:
        total_storage_limit: 1G

    Good:
        total_storage_limit: 1G
        queue:
        - name: mail
          rate: 5/s

    Source: gcloud's deployment of queues.
    """

    code = "QY019"
    name = "no-queues"
    severity = Severity.WARNING

    def check(self, view: View) -> Iterator[Report]:
        """Report a file without `queue`, and with `strict` one without a queue."""
        entry = view.top.entries.get("queue")
        message = "without queues, a deployment of this file pauses every queue but `default`"
        if entry is None and not any(pair.key.opaque for pair in view.root.pairs):
            if not view.violations.get("unknown-key"):
                yield Report(at=view.top.place, message=f"`queue` is missing: {message}")
        elif entry is not None and view.settings.strict and _is_empty(entry.value):
            at = Place(entry.key.start, entry.key.end)
            yield Report(at=at, message=f"`queue` is empty: {message}", path="queue")


def _is_empty(value: object) -> bool:
    if isinstance(value, Scalar):
        return value.is_null
    return isinstance(value, Sequence) and not value.items
