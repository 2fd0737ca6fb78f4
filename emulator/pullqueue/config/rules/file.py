"""Rules on the file itself: bytes, characters, YAML."""

from __future__ import annotations

from collections.abc import Iterator

from pullqueue.config.findings import Severity
from pullqueue.config.nodes import Scalar, Sequence
from pullqueue.config.reports import Place, Report
from pullqueue.config.rules.base import Rule
from pullqueue.config.text import shorten
from pullqueue.config.view import View


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


class FileTooLarge(Rule):
    """The file is larger than any queue.yaml.

    More than 1 MiB, or more than 10,000 keys and values, is a mistake or an attack; the largest
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
            if not view.shape.unknown_keys:
                yield Report(at=view.top.place, message=f"`queue` is missing: {message}")
        elif entry is not None and view.settings.strict and _is_empty(entry.value):
            at = Place(entry.key.start, entry.key.end)
            yield Report(at=at, message=f"`queue` is empty: {message}", path="queue")


def _is_empty(value: object) -> bool:
    if isinstance(value, Scalar):
        return value.is_null
    return isinstance(value, Sequence) and not value.items
