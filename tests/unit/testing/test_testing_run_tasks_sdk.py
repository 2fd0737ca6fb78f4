"""What a test sees of the entities that handlers have put."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from sdk_calls import ndb, sdk_testbed

from pullqueue import Emulator
from pullqueue.push.request import PushRequest
from pullqueue.testing import drain, run_task, run_tasks


class ChargedOrder(ndb.Model):  # type: ignore[misc] # the SDK is not typed
    charged = ndb.BooleanProperty(default=False)


def charge() -> None:
    order = ChargedOrder.get_by_id("1")
    order.charged = True
    order.put()


@pytest.mark.parametrize("in_thread", [True, False])
@pytest.mark.parametrize("run", [run_tasks, run_task, drain])
def test_the_test_sees_what_a_handler_has_put(
    emulator: Emulator, run: Any, *, in_thread: bool
) -> None:
    """Also if its client runs the handler in another thread, and ndb has cached the entity here."""

    def send(_: PushRequest) -> int:
        if in_thread:
            thread = threading.Thread(target=charge)
            thread.start()
            thread.join()
        else:
            charge()
        return 200

    with sdk_testbed(emulator):
        ChargedOrder(id="1").put()
        task = emulator.queue("pushed").add(name="one")
        arguments: dict[Any, list[Any]] = {run_task: [task], drain: [lambda: None]}

        run(emulator, *arguments.get(run, []), send=send)

        assert ChargedOrder.get_by_id("1").charged
