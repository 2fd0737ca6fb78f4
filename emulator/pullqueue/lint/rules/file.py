"""Rules on the file itself: bytes, characters, YAML, and the comments of the linter."""

from __future__ import annotations

from collections.abc import Iterator

from pullqueue.config.findings import Report, Severity
from pullqueue.config.view import View
from pullqueue.lint.rules.base import SAFE, UNSAFE, Rule
from pullqueue.text import shorten


@Rule("QY001", suppressible=False, loadable=False)
def yaml_syntax(_view: View) -> None:
    """The file is not valid YAML.

    Nothing can be read from it, so nothing else is reported. Common causes: no space after the
    colon of a key or after the dash of a list, a missing colon or dash, keys of one queue in
    different columns, a quote or bracket that is not closed.

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


@Rule("QY002", suppressible=False, loadable=False)
def encoding(_view: View) -> None:
    r"""The file is not UTF-8.

    gcloud and the development server read UTF-8. A file in UTF-16 or Latin-1 fails there, or is
    read as something else.

    Bad (bytes):
        queue:\n- name: caf\xe9\n  rate: 5/s\n

    Source: gcloud and the Python SDK open the file as UTF-8.
    """


@Rule("QY003", severity=Severity.WARNING, fixes=(SAFE,))
def bom(_view: View) -> None:
    r"""The file begins with a byte-order mark.

    App Engine's reader skips it; other tools read it as a part of the first key.

    Bad (escaped):
        \ufeffqueue:\n- name: mail\n  rate: 5/s\n

    Source: the Unicode standard recommends none in UTF-8.
    """


@Rule("QY004", suppressible=False, loadable=False, fixes=(SAFE,))
def tab_indent(_view: View) -> None:
    r"""A tab is used for indentation.

    YAML permits spaces only, before a key as well as after a dash.

    Bad (escaped):
        queue:\n-\tname: mail\n  rate: 5/s\n

    Source: YAML 1.1, section 5.3.
    """


@Rule("QY005", loadable=False)
def multiple_documents(_view: View) -> None:
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


@Rule("QY006", loadable=False)
def empty_file(_view: View) -> None:
    """The file is empty, or has comments only.

    App Engine's library refuses a file without a document, and reads one that holds nothing
    but `~` as a file without queues, which pauses every queue at the next deployment.

    Bad:
        # all of it commented out
        # queue:
        # - name: mail

    Source: the Python SDK's queueinfo; gcloud's deployment of queues.
    """


@Rule("QY007", loadable=False)
def root_not_mapping(_view: View) -> None:
    """The top level is a list or a single value.

    A list makes App Engine's library fail. A single value, such as the text of a queue.xml saved
    as queue.yaml, is accepted without a message and means "no queues": the next deployment pauses
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


@Rule("QY008", loadable=False)
def anchor_or_alias(_view: View) -> None:
    """The file uses an anchor, an alias or a merge key.

    App Engine accepts none of them. A file with an alias is not checked further, since a few
    aliases can expand to gigabytes.

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


@Rule("QY009", loadable=False)
def duplicate_key(_view: View) -> None:
    """A key is defined more than once in one mapping.

    App Engine refuses the file. Other YAML readers keep the last one without a message. The lists
    of all definitions are checked, of other values the first.

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


@Rule("QY010", loadable=False)
def complex_key(_view: View) -> None:
    """A key is a list or a mapping.

    Keys of queue.yaml are plain words.

    Bad:
        queue:
        - name: mail
          rate: 5/s
          ? [a, b]
          : 5

    Source: the Python SDK's queueinfo.
    """


@Rule("QY011", suppressible=False, loadable=False)
def file_too_large(_view: View) -> None:
    """The file is larger than any queue.yaml.

    More than 1 MiB, or more than 10,000 keys and values, is a mistake or an attack; the largest
    known file has 15 KiB.

    Bad (100000 times):
        # not a queue

    Source: a limit of this program.
    """


@Rule("QY012", suppressible=False, loadable=False)
def too_deep(_view: View) -> None:
    """The file is nested deeper than the format can be.

    The format needs 5 levels; 32 are permitted.

    Bad:
        queue: [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]

    Source: a limit of this program.
    """


@Rule("QY013", loadable=False)
def yaml_tag(_view: View) -> None:
    """A value has a YAML tag that App Engine does not support.

    `!!str` and the other plain types are harmless; `!Ref` or `!!python/object` make App Engine's
    reader fail, and would run code in careless ones. A plain `<<` or `=` has such a tag implied.

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


@Rule("QY014", severity=Severity.WARNING, fixes=(UNSAFE,))
def yaml_directive(_view: View) -> None:
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


@Rule("QY015", suppressible=False, loadable=False)
def control_character(_view: View) -> None:
    r"""The file contains a character that YAML forbids, or an invisible line break.

    NUL and the other control characters stop the reader. U+0085, U+2028 and U+2029 end a line
    (and a comment) for YAML, not in an editor. A byte-order mark is a part of the key it is before,
    except at the beginning of the file.

    Bad (escaped):
        queue:\n- name: ma\x00il\n  rate: 5/s\n

    Source: YAML 1.1, sections 5.1 and 5.4.
    """


@Rule("QY016", loadable=False)
def unrendered_template(_view: View) -> None:
    """Template markers or placeholders were left in the file.

    `{{ }}`, `{% %}`, `<% %>` and `${}` belong to Jinja, ERB and shells; `$NAME`, `__NAME__` and
    `@NAME@` are placeholders. App Engine would read them as they are. They are reported once; what
    is beside them is still checked where that is possible.

    Bad:
        queue:
        - name: mail
          rate: {{ RATE }}

    Bad:
        queue:
        - name: __QUEUE__
          rate: 5/s

    Good:
        queue:
        - name: mail
          rate: 5/s

    Source: seen in public repositories.
    """


@Rule("QY017", suppressible=False, loadable=False)
def merge_conflict(_view: View) -> None:
    """A merge conflict was left in the file.

    Bad:
        queue:
        - name: mail
        <<<<<<< HEAD
          rate: 5/s
        =======
          rate: 1/s
        >>>>>>> slower

    Source: git.
    """


@Rule("QY018", severity=Severity.WARNING)
def file_name(view: View) -> Iterator[Report]:
    """A file with queues is not called queue.yaml or queue.yml.

    gcloud recognises these two names only; it reads `sandbox-queue.yaml` as an app.yaml. Reported
    for files that a search of folders finds, never for a file that is named.

    Bad (file sandbox-queue.yaml):
        queue:
        - name: mail
          rate: 5/s

    Source: gcloud's list of configuration files, run.
    """
    if view.settings.misnamed:
        name = shorten(view.source.file.replace("\\", "/").rpartition("/")[2])
        message = (
            f'gcloud does not accept "{name}" as a queue.yaml: rename it to queue.yaml, in a '
            "folder of its own"
        )
        yield Report(at=view.top.place, message=message)


@Rule("QY020", loadable=False)
def other_program(_view: View) -> None:
    """The file belongs to another program.

    Kubernetes, RabbitMQ and others have files called queue.yaml too. A search of folders leaves
    them out, with a note; a file that is named is reported once. A file with queues, or with
    another key that looks like one of the format, is always checked.

    Bad:
        apiVersion: v1
        kind: Service
        metadata:
          name: queue

    Source: seen in public repositories.
    """


@Rule("QY021", loadable=False)
def invalid_cron(_view: View) -> None:
    """A cron.yaml has a job that App Engine does not accept.

    Bad (file cron.yaml):
        cron:
        - {url: /tasks/refresh, schedule: every hour}

    Good (file cron.yaml):
        cron:
        - {url: /tasks/refresh, schedule: every 1 hours}

    Source: the references of cron.yaml and of its schedules.
    """


@Rule("QY900", severity=Severity.WARNING, fixes=(SAFE,))
def unused_ignore(_view: View) -> None:
    """An ignore comment suppresses nothing.

    The error it was written for is fixed, or is on another line.

    Bad:
        queue:
        - name: jobs
          mode: pull  # queue-lint: ignore[push-key-on-pull]

    Source: a convention of this program.
    """


@Rule("QY901")
def unknown_rule(_view: View) -> None:
    """An ignore comment names a rule that does not exist, or none.

    The rules are in brackets, `[all]` for all. A comment without them suppresses nothing.

    Bad:
        queue:
        - name: mail
          rate: 5/s  # queue-lint: ignore[rate-format-wrong]

    Source: a convention of this program.
    """
