"""pullqueue.engine.emulator."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tables import each_row

from pullqueue import (
    Emulator,
    InvalidQueueSettingsError,
    Limits,
    ManualClock,
    NewTask,
    OverQuotaError,
    QueueDisabledError,
    QueueNameInUseError,
    StoreFullError,
    UnknownQueueError,
)
from pullqueue.config.model import (
    HttpTarget,
    QueueConfig,
    QueueMode,
    QueueSettings,
    Rate,
    RetryParameters,
)
from pullqueue.engine.memory.store import MemoryStore
from pullqueue.engine.store import QueueRecord
from pullqueue.tasks import RequestToken

PULL = QueueSettings(name="pull-queue", mode=QueueMode.PULL)
OTHER = QueueSettings(name="other", mode=QueueMode.PULL)
CONFIG = QueueConfig(queues=(PULL, OTHER))


@pytest.fixture
def emulator(clock: ManualClock) -> Emulator:
    """Return an emulator of two pull queues."""
    return Emulator(CONFIG, clock=clock)


def limited(leases: int | None) -> QueueConfig:
    """Return the configuration with a retry limit, or none, on the first queue."""
    retry = RetryParameters(task_retry_limit=leases)
    return QueueConfig(queues=(replace(PULL, retry_parameters=retry), OTHER))


def test_every_app_has_a_default_queue(emulator: Emulator) -> None:
    assert [queue.name for queue in emulator.queues] == ["pull-queue", "other", "default"]
    assert emulator.queue("default").mode is QueueMode.PUSH


def test_reports_show_the_names_of_queues(emulator: Emulator) -> None:
    shown = "Emulator(file='queue.yaml', queues=['pull-queue', 'other', 'default'])"
    assert (repr(emulator), repr(emulator.queue("other"))) == (shown, "Queue('other')")


def test_an_unknown_queue_is_refused_with_the_nearest_name(emulator: Emulator) -> None:
    text = 'queue "pull_queue" is not in queue.yaml: did you mean "pull-queue"?'
    with pytest.raises(UnknownQueueError, match=f"^{re.escape(text)}$") as excinfo:
        emulator.queue("pull_queue")
    assert excinfo.value.queue_name == "pull_queue"


def test_a_queue_that_is_not_a_name() -> None:
    """What cannot be hashed, such as a queue of Google's SDK, is refused with what to pass."""
    with pytest.raises(TypeError, match=r"^\['x'\] is not the name of a queue: pass a string$"):
        Emulator(QueueConfig()).queue(["x"])  # type: ignore[arg-type] # what is proved


def test_a_queue_is_found_by_each_of_its_names() -> None:
    """With its location, and as Cloud Tasks names it; by its own name before any other."""
    emulator = Emulator(CONFIG, project="shop", location="l")
    full = "projects/{}/locations/{}/queues/other"

    for name in ("other@l", full.format("shop", "l")):
        assert emulator.queue(name) is emulator.queue("other")
    for name in ("other@m", full.format("shop", "m"), full.format("app", "l")):
        with pytest.raises(UnknownQueueError):
            emulator.queue(name)
    made = emulator.create_queue(replace(OTHER, name="other@l"))
    assert emulator.queue("other@l") is made
    assert Emulator(CONFIG).queue(full.format("app", "us-central1")).name == "other"


def test_the_queues_of_queue_yaml_are_in_each_location() -> None:
    """Unless there is one of that location; `default` is, unless one is created there."""
    emulator = Emulator(QueueConfig(queues=(OTHER,)))
    emulator.create_queue(replace(OTHER, name="made"))
    places = [
        ("", "made"),
        ("us-central1", "made"),
        *(("l", q) for q in ("made", "other", "default")),
    ]

    names = [emulator.name_at(*place) for place in places]
    created = [emulator.name_at("l", name, creates=True) for name in ("other", "default")]
    emulator.create_queue(replace(OTHER, name="other@l"))

    assert names == ["made", "made", "made@l", "other", "default"]
    assert created == ["other", "default@l"]
    assert emulator.name_at("l", "other") == "other@l"


def test_an_unknown_queue_names_ten_others() -> None:
    """The message has ten names, and how many more there are; of similar names it has one."""
    names = [f"queue-{number:02}" for number in range(12)]
    queues = tuple(QueueSettings(name=name, mode=QueueMode.PULL) for name in names)

    def message(count: int, name: str) -> str:
        config = QueueConfig(queues=queues[:count], default_queue=False)
        with pytest.raises(UnknownQueueError) as excinfo:
            Emulator(config).queue(name)
        return str(excinfo.value).partition(": ")[2]

    listed = ", ".join(f'"{name}"' for name in names[:10])
    assert message(0, "x") == "create it by CreateQueue of Cloud Tasks, or list it in queue.yaml"
    assert message(10, "x") == f"the queues are {listed}"
    assert message(11, "x") == f"the queues are {listed} and 1 more"
    assert message(12, "x") == f"the queues are {listed} and 2 more"
    assert message(12, "queue-1") == 'did you mean "queue-11"?'
    assert message(12, "que-").startswith("did you mean")
    with pytest.raises(UnknownQueueError, match=r'^queue "x" was not created: create it by'):
        Emulator(QueueConfig(file="", default_queue=False)).queue("x")


class SharedStore(MemoryStore):
    """A store in memory that two emulators share, as servers share a database."""

    is_shared = True


class TestSharedStore:
    @pytest.fixture
    def emulators(self, clock: ManualClock) -> list[Emulator]:
        """Return two emulators that share a store."""
        store = SharedStore(clock=clock, limits=Limits(), names=str)
        return [Emulator(CONFIG, clock=clock, store=lambda **_: store) for _ in range(2)]

    def test_changes_are_seen_after_a_second(
        self, emulators: list[Emulator], clock: ManualClock
    ) -> None:
        """Each time: not before, and then by whichever call is the first."""
        one, other = (emulator.queue("other") for emulator in emulators)
        seen = []
        for change in (one.pause, one.resume, one.pause):
            clock.advance(1)
            emulators[1].queue("other")
            change()
            states = []
            for microseconds in (0, 999_999, 1):
                clock.advance(timedelta(microseconds=microseconds))
                assert emulators[1].queues[1] is other
                states.append(other.state.value)
            seen.append(states)

        assert seen == [
            ["running", "running", "paused"],
            ["paused", "paused", "running"],
            ["running", "running", "paused"],
        ]

    def test_no_call_waits_for_one_that_loads_the_changes(self, clock: ManualClock) -> None:
        """The database needs a second, and another call comes meanwhile."""

        class Slow(SharedStore):
            def read_queue_records(self) -> dict[str, QueueRecord]:
                for emulator in emulators:
                    clock.advance(1)
                    found.append(emulator.queue("other").name)
                return super().read_queue_records()

        emulators: list[Emulator] = []
        found: list[str] = []
        emulators.append(Emulator(CONFIG, clock=clock, store=Slow))
        clock.advance(1)
        emulators[0].queue("other")

        assert found == ["other"]

    def test_a_paused_queue_stays_paused_when_another_server_starts(
        self, clock: ManualClock
    ) -> None:
        store = SharedStore(clock=clock, limits=Limits(), names=str)
        for _ in range(2):
            queue = Emulator(CONFIG, clock=clock, store=lambda **_: store).queue("other")
            state = queue.state.value
            queue.pause()

        assert state == "paused"

    def test_a_new_queue_is_found_at_once(
        self, emulators: list[Emulator], clock: ManualClock
    ) -> None:
        """By its name; that it is gone is seen within a second."""
        made = replace(OTHER, name="made")
        assert len(emulators[1].queues) == 3
        emulators[0].create_queue(made)
        found = [queue.name for queue in emulators[1].queues]

        assert "made" not in found
        held = emulators[1].queue("made")
        assert held.is_runtime
        assert emulators[1].queues[-1] is held
        emulators[0].delete_queue("made")
        clock.advance(1)
        with pytest.raises(UnknownQueueError, match="was deleted"):
            emulators[1].queue("made")
        with pytest.raises(UnknownQueueError, match="was deleted") as raised:
            held.add()
        assert raised.value.queue_name == "made"

    def test_a_runtime_queue_is_one_of_queue_yaml_where_that_lists_it(
        self, emulators: list[Emulator], clock: ManualClock
    ) -> None:
        made = replace(OTHER, name="made")
        emulators[1].reconfigure(QueueConfig(queues=(*CONFIG.queues, made)))

        emulators[0].create_queue(made)
        clock.advance(1)

        assert not emulators[1].queue("made").is_runtime

    def test_who_creates_a_queue_that_the_other_deletes_at_once_learns_that(
        self, clock: ManualClock
    ) -> None:
        class Deleting(SharedStore):
            def create_queue(self, queue_name: str, **options: Any) -> bool:
                created = super().create_queue(queue_name, **options)
                self.drop_queue_record(queue_name)
                return created

        emulator = Emulator(CONFIG, clock=clock, store=Deleting)

        with pytest.raises(UnknownQueueError, match='queue "made" was deleted'):
            emulator.create_queue(replace(OTHER, name="made"))
        assert "made" not in [queue.name for queue in emulator.queues]

    def test_a_queue_of_a_name_is_made_once(self, emulators: list[Emulator]) -> None:
        made = replace(OTHER, name="made")
        emulators[1].queue("other")
        emulators[0].create_queue(made)

        with pytest.raises(QueueNameInUseError, match=r'^queue "made" exists: choose') as raised:
            emulators[1].create_queue(made)
        assert raised.value.queue_name == "made"

    def test_purges_and_new_settings_of_runtime_queues_reach_all_emulators(
        self, emulators: list[Emulator], clock: ManualClock
    ) -> None:
        made = replace(OTHER, name="made")
        emulators[0].create_queue(made)
        emulators[0].update_queue(replace(made, tombstone_seconds=7))
        emulators[0].queue("other").purge()
        purged = clock.now()
        clock.advance(1)

        assert emulators[1].queue("made").settings.tombstone_seconds == 7
        assert emulators[1].queue("other").purged_at == purged


def test_a_reset_keeps_queues_and_time_only(emulator: Emulator) -> None:
    queue = emulator.queue("other")
    first = queue.add(name="one")
    queue.delete_tasks(first)

    emulator.reset()

    assert queue.events() == []
    assert queue.add(name="one").sequence == first.sequence
    emulator.restore({})
    assert queue.add(name="one").sequence == first.sequence
    assert emulator.queue("other") is queue
    emulator.reset()
    emulator.delete_queue("other")
    assert [each.name for each in emulator.queues] == ["pull-queue", "default"]


def test_the_next_change_is_that_of_any_queue(emulator: Emulator, clock: ManualClock) -> None:
    assert emulator.next_change_usec() is emulator.last_lease_end_usec() is None
    for name, seconds in (("other", 10), ("pull-queue", 20)):
        emulator.queue(name).add()
        emulator.queue(name).lease_tasks(seconds, 1)

    assert emulator.next_change_usec() == clock.now_usec() + 10_000_000
    assert emulator.last_lease_end_usec() == clock.now_usec() + 20_000_000


class TestReconfigure:
    def test_a_removed_queue_is_disabled_and_keeps_its_tasks(self, emulator: Emulator) -> None:
        """Tasks can be looked at and added; the rest goes on when it is listed again."""
        queue = emulator.queue("other")
        task = queue.add(name="kept")

        emulator.reconfigure(QueueConfig(queues=(PULL,)))

        assert [queue.name for queue in emulator.queues] == ["pull-queue", "default", "other"]
        assert queue.state.value == "disabled"
        assert queue.list_tasks() == [task]
        assert queue.add(name="more").name == "more"
        for refused in (
            lambda: queue.lease_tasks(60, 1),
            lambda: queue.delete_tasks("kept"),
            queue.purge,
        ):
            text = '"other" is disabled, since it is no'
            with pytest.raises(QueueDisabledError, match=text) as raised:
                refused()
            assert raised.value.queue_name == "other"
        emulator.reconfigure(CONFIG)
        assert queue.state.value == "running"
        assert queue.lease_tasks(60, 1)[0].name == "kept"

    def test_reconfigure_adds_queues_and_changes_all_settings(self, emulator: Emulator) -> None:
        changed, new = replace(OTHER, line=3), replace(PULL, name="new")
        config = QueueConfig(queues=(changed, new), total_storage_limit_bytes=1)

        emulator.reconfigure(config)

        assert emulator.config is config
        assert emulator.queue("other").settings is changed
        for _ in range(2):
            with pytest.raises(OverQuotaError) as raised:
                emulator.queue("new").add(b"work", name="one")
            emulator.update_queue(replace(new, tombstone_seconds=7))
        assert str(raised.value) == (
            "adding 1 task would make 7 bytes stored, over the total_storage_limit of 1: delete "
            "tasks first, or raise the limit"
        )
        assert (raised.value.limit_bytes, raised.value.needed_bytes) == (1, 7)

    def test_a_lower_retry_limit_holds_for_tasks_already_there(
        self, emulator: Emulator, clock: ManualClock
    ) -> None:
        """A task with more leases than it is exhausted; a leased one when its lease ends."""
        queue = emulator.queue("pull-queue")
        queue.add(name="used-up")
        queue.lease_tasks(1, 1)
        queue.add(name="held", eta=clock.now() - timedelta(seconds=1))
        queue.lease_tasks(60, 1)
        queue.add(name="fresh")
        clock.advance(1)

        emulator.reconfigure(limited(1))

        assert {task.name for task in queue.list_tasks()} == {"held", "fresh"}
        clock.advance(59)
        assert [task.name for task in queue.list_tasks()] == ["fresh"]

    @pytest.mark.parametrize(("limits", "left"), [((1, None), ["one"]), ((None, 1, 5, 1), [])])
    def test_retry_limits_in_a_row(
        self,
        emulator: Emulator,
        clock: ManualClock,
        limits: tuple[int | None, ...],
        left: list[str],
    ) -> None:
        """Which lease is the last one depends on the limit when it ends, not when it begins."""
        emulator.reconfigure(limited(limits[0]))
        queue = emulator.queue("pull-queue")
        queue.add(name="one")
        queue.lease_tasks(60, 1)

        for leases in limits[1:]:
            emulator.reconfigure(limited(leases))
        clock.advance(60)

        assert [task.name for task in queue.list_tasks()] == left


def test_contents_of_an_unknown_queue_are_refused_and_nothing_is_lost() -> None:
    first = Emulator(CONFIG, clock=ManualClock())
    first.queue("other").add(b"work")
    second = Emulator(QueueConfig(queues=(PULL,)), clock=ManualClock())
    second.queue("pull-queue").add(b"stays")

    with pytest.raises(UnknownQueueError, match='queue "other" is not in') as raised:
        second.restore(first.export())

    assert raised.value.queue_name == "other"
    assert second.queue("pull-queue").fetch_statistics().tasks == 1


class TestConfiguration:
    def test_files_and_texts_make_the_queues_that_they_list(self, tmp_path: Path) -> None:
        path = tmp_path / "queue.yaml"
        text = "queue:\n- name: a\n  mode: pull\n  rate: 5/s\n"
        path.write_text(text, "utf-8")
        clock, limits = ManualClock(), Limits(task_bytes=1)
        options: dict[str, Any] = {
            "clock": clock,
            "limits": limits,
            "project": "shop",
            "location": "l",
            "profile": "sdk",
            "store": SharedStore,
        }

        from_file = Emulator.from_file(path, **options)
        for emulator in (from_file, Emulator.from_text(text, **options)):
            assert emulator.location == "l"
            assert isinstance(emulator.store, SharedStore)
            assert emulator.queue("a").add(b"x").payload == b"x"
            assert (emulator.clock, emulator.limits, emulator.project) == (clock, limits, "shop")
        assert from_file.config.file == str(path)

    def test_the_profile_sdk_accepts_what_google_s_library_accepts(self) -> None:
        text = "queue:\n- name: a\n  mode: pull\n  rate: 5/s\n"

        assert Emulator.from_text(text, profile="sdk").queue("a").add().name


def test_a_full_store_refuses_a_batch_whole() -> None:
    emulator = Emulator(CONFIG, clock=ManualClock(), limits=Limits(tasks_in_memory=3))
    emulator.queue("other").add(b"one")
    queue = emulator.queue("pull-queue")
    queue.add_many([NewTask(name="two"), NewTask(name="three")])

    text = (
        "3 tasks are stored, and adding 1 would exceed the limit of 3: delete tasks first, or "
        "raise it (`pullqueue serve --max-tasks`)"
    )
    for add in (emulator.check, queue.add):
        with pytest.raises(StoreFullError, match=f"^{re.escape(text)}$"):
            add()

    queue.delete_tasks("two")
    emulator.check()
    assert queue.add(b"four").payload == b"four"


def test_exhausted_tasks_leave_room_at_once() -> None:
    """A task whose last lease has ended does not count, even if its queue was not read since."""
    clock = ManualClock()
    emulator = Emulator(limited(1), clock=clock, limits=Limits(tasks_in_memory=1))
    emulator.queue("pull-queue").add()
    emulator.queue("pull-queue").lease_tasks(60, 1)

    clock.advance(60)

    assert emulator.queue("other").add().queue_name == "other"


@each_row(
    ("settings", "message"),
    [
        (
            QueueSettings(name="made", rate=Rate(count=5, unit="x")),
            (
                'queue "made": rate is 5/x: use a number, a slash and s, m, h or d; the maximum is '
                "500/s"
            ),
        ),
        (
            QueueSettings(name="made", bucket_size=501),
            'queue "made": bucket_size is 501: use a number from 0 to 500',
        ),
        (
            QueueSettings(name="made", http_target=HttpTarget(path="/a", query="b c")),
            (
                'queue "made": http_target: url is "http://localhost/a?b c": it must consist of '
                "printable ASCII characters without spaces; percent-encode others"
            ),
        ),
        (
            QueueSettings(
                name="made",
                http_target=HttpTarget(scheme="https", host="api", port=8080, query="b c"),
            ),
            (
                'queue "made": http_target: url is "https://api:8080/?b c": it must consist of '
                "printable ASCII characters without spaces; percent-encode others"
            ),
        ),
        (
            QueueSettings(name="made", http_target=HttpTarget(path="a#b")),
            (
                'queue "made": http_target: url is "http://localhost/a#b": it cannot have a '
                "fragment (#)"
            ),
        ),
        (
            QueueSettings(name="made", http_target=HttpTarget(method="BREW")),
            (
                'queue "made": http_target: method is "BREW": use DELETE, GET, HEAD, OPTIONS, '
                "PATCH, POST, PUT"
            ),
        ),
        (
            QueueSettings(name="made", http_target=HttpTarget(headers=(("a", "b\n"),))),
            (
                'queue "made": http_target: header a is "b\\n": use characters of ISO 8859-1 '
                "without line breaks and other control characters"
            ),
        ),
        (
            QueueSettings(name="made", http_target=HttpTarget(token=RequestToken("basic", "a@b"))),
            'queue "made": http_target: kind of token is "basic": use oidc_token or oauth_token',
        ),
        (
            QueueSettings(name="made", target="a b"),
            'queue "made": target is "a b": use service or version.service',
        ),
        (
            QueueSettings(name="made", retry_parameters=RetryParameters(max_doublings=2**31)),
            (
                'queue "made": retry parameter max_doublings is 2147483648: use a whole number '
                "from 0 to 2147483647"
            ),
        ),
    ],
)
def test_settings_that_no_queue_can_have_are_refused(settings: QueueSettings, message: str) -> None:
    emulator = Emulator.from_text("queue:\n- {name: mine, rate: 5/s}\n")

    with pytest.raises(InvalidQueueSettingsError) as created:
        emulator.create_queue(settings)
    with pytest.raises(InvalidQueueSettingsError) as updated:
        emulator.update_queue(replace(settings, name="mine"))

    assert (str(created.value), created.value.queue_name) == (message, "made")
    assert str(updated.value) == message.replace("made", "mine")
    assert emulator.queue("mine").settings.rate == Rate(count=5)
    with pytest.raises(UnknownQueueError):
        emulator.queue("made")
