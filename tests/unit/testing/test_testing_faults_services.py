"""Faults in calls to App Engine's bundled services."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from functions import Run, adding, handling
from google.appengine.runtime import default_api_stub
from sdk_calls import datastore_errors, mail, memcache, ndb, sdk_testbed
from tables import each_row

from pullqueue import Emulator, TransientError
from pullqueue.sdk.imports import apiproxy_errors, apiproxy_stub_map
from pullqueue.testing import Faults, RaceTestError, describe


class Account(ndb.Model):  # type: ignore[misc] # the SDK is not typed
    value = ndb.IntegerProperty(default=0)


@pytest.fixture
def faults(emulator: Emulator) -> Iterator[Faults]:
    with sdk_testbed(emulator) as bed, Faults(emulator) as faults:
        bed.init_mail_stub()
        yield faults


def test_a_put_fails_and_nothing_is_done(faults: Faults) -> None:
    fault = faults.fail("datastore_v3.Put", after=1, times=1)

    Account(id="one").put()
    with pytest.raises(datastore_errors.Timeout, match="injected by a fault"):
        Account(id="two").put()
    Account(id="three").put()

    assert {key.id() for key in Account.query().fetch(keys_only=True)} == {"one", "three"}
    assert (fault.calls, fault.hits) == (3, 1)
    assert str(fault) == 'fail("datastore_v3.Put", after=1, times=1): triggered on 1 of 3 calls'


@pytest.mark.parametrize(
    "error",
    [
        datastore_errors.InternalError,
        datastore_errors.InternalError("out of order"),
        apiproxy_errors.CapabilityDisabledError,
        apiproxy_errors.OverQuotaError("too much"),
    ],
)
def test_an_error_is_what_the_app_catches(
    faults: Faults, error: Exception | type[Exception]
) -> None:
    faults.fail("datastore_v3.Put", error)

    kind = error if isinstance(error, type) else type(error)
    message = "injected by a fault" if isinstance(error, type) else str(error)
    with pytest.raises(kind, match=message):
        Account().put()


def test_ndb_repeats_a_transaction_that_fails_to_commit(faults: Faults) -> None:
    """The error passes through ndb as production's does: by its code."""
    runs: list[None] = []

    @ndb.transactional(retries=2)  # type: ignore[untyped-decorator]
    def store() -> None:
        runs.append(None)
        Account(id="one").put()

    fault = faults.fail("datastore_v3.Commit", datastore_errors.TransactionFailedError, times=2)
    store()
    assert (len(runs), fault.hits) == (3, 2)

    faults.fail("datastore_v3.Commit", datastore_errors.TransactionFailedError)
    with pytest.raises(datastore_errors.TransactionFailedError):
        store()


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        ((), datastore_errors.Timeout),
        ((datastore_errors.InternalError,), datastore_errors.InternalError),
    ],
)
def test_the_answer_of_a_commit_is_lost(
    faults: Faults, error: tuple[type[Exception], ...], raised: type[Exception]
) -> None:
    faults.lose_response("datastore_v3.Commit", *error)

    with pytest.raises(raised):
        ndb.transaction(lambda: Account(id="one").put())

    assert ndb.Key(Account, "one").get(use_cache=False) is not None


def test_memcache_and_mail_fail_as_they_do(faults: Faults) -> None:
    """Memcache's client hides errors; that of mail does not."""
    memcache.set("one", 1)
    faults.fail("memcache.Get")
    assert memcache.get("one") is None

    faults.fail("mail.Send", mail.Error("no"))
    with pytest.raises(mail.Error, match="no"):
        mail.send_mail("a@example.com", "b@example.com", "subject", "body")


def test_a_fault_is_removed_and_the_first_one_triggers(faults: Faults) -> None:
    first = faults.fail("datastore_v3.Put", datastore_errors.InternalError)
    faults.fail("datastore_v3.Put", datastore_errors.Timeout)
    with pytest.raises(datastore_errors.InternalError):
        Account().put()
    first.remove()
    with pytest.raises(datastore_errors.Timeout):
        Account().put()

    faults.clear()
    Account().put()
    assert faults.active == []


def test_faults_of_services_are_shown(emulator: Emulator, faults: Faults) -> None:
    fault = faults.fail(PUT, datastore_errors.Timeout)
    assert fault.options == {"call": PUT, "error": datastore_errors.Timeout}
    assert 'fault fail("datastore_v3.Put", Timeout): triggered on 0 of 0' in describe(emulator)


def test_a_fault_applies_in_race_test(race: Run, emulator: Emulator, faults: Faults) -> None:
    faults.fail("datastore_v3.Put", times=1)
    send = handling(lambda: Account(id="one").put())

    def check() -> None:
        assert not emulator.queue("pushed").events()[2].status

    with pytest.raises(RaceTestError) as caught:
        race(setup=adding(emulator.queue("pushed"), "one"), check=check, send=send)
    assert any("datastore_v3.Put 1 entity of kind Account" in s for s in caught.value.schedule)


PUT = "datastore_v3.Put"
NOT_AN_ERROR = "is not an error of App Engine's SDK: use one, such as"


@each_row(
    ("call", "error", "kind", "message"),
    [
        ("datastore_v3.Comit", None, ValueError, '^there is no call "datastore_v3.Comit": did you'),
        (
            "data.Commit",
            None,
            ValueError,
            '^"data.Commit" is of a service that has no stub in this',
        ),
        ("datastore_v3.", None, ValueError, '^there is no call "datastore_v3."'),
        (PUT, OSError, TypeError, NOT_AN_ERROR),
        (PUT, ValueError("no"), TypeError, NOT_AN_ERROR),
        (PUT, InterruptedError, TypeError, NOT_AN_ERROR),
        (PUT, apiproxy_errors.ApplicationError, TypeError, "ApplicationError has a code: pass an"),
    ],
)
def test_faults_that_can_never_trigger_are_refused(
    faults: Faults, call: str, error: Any, kind: type[Exception], message: str
) -> None:
    """Also where `wrap_wsgi_app` has registered a stub that sends all other calls to App Engine."""
    apiproxy_stub_map.apiproxy.SetDefaultStub(default_api_stub.DefaultApiStub())
    with pytest.raises(kind, match=message):
        faults.fail(call, error)


@each_row("options", [{"queues": ["work"]}, {"url": "/a"}, {"per_task": True}])
def test_options_of_queues_and_tasks_are_refused(faults: Faults, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"not of datastore_v3\.Put: remove it"):
        faults.fail(PUT, TransientError, **options)
