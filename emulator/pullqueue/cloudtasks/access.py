"""Who may do what with a queue: the acl of queue.yaml as permissions, and as a policy of IAM.

`user_email` maps to the role cloudtasks.admin, `writer_email` to cloudtasks.enqueuer (Google's
page on migrating queue.yaml to Cloud Tasks).
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from typing import Final

from pullqueue.api.auth import Right, grants
from pullqueue.cloudtasks import texts
from pullqueue.cloudtasks.calls import Call
from pullqueue.cloudtasks.errors import CloudTasksError, invalid
from pullqueue.cloudtasks.messages import Message
from pullqueue.config.model import AclEntry, QueueConfig, QueueSettings
from pullqueue.engine.emulator import Emulator
from pullqueue.engine.queue import Queue
from pullqueue.engine.queue_base import QueueState

AUDIENCE: Final = "https://cloudtasks.googleapis.com/"
"""What Google's clients name in the tokens that they sign themselves."""
SCOPES: Final = frozenset(
    {
        "https://www.googleapis.com/auth/cloud-platform",
        "https://www.googleapis.com/auth/cloud-tasks",
    }
)

_PREFIX: Final = "cloudtasks."
_ROLES: Final = {
    Right.USE: "roles/cloudtasks.admin",
    Right.INSERT: "roles/cloudtasks.enqueuer",
}
_ENQUEUER: Final = frozenset({"tasks.create", "tasks.fullView"})
_MEMBERS: Final = ("user", "serviceAccount")
_NO_POLICY_ETAG: Final = b"\x00\x20\x01"
"""Google's, where no policy is set."""


def check_permission(queue: Queue, caller: str | None, permission: str, *, resource: str) -> None:
    """Check that a caller has a permission on a queue, such as `tasks.lease`.

    `resource` is the full name of the queue.

    Raises:
        CloudTasksError: PERMISSION_DENIED: the acl does not grant it.
    """
    if not _is_permitted(queue, caller, permission):
        right = "user_email or writer_email" if permission in _ENQUEUER else "user_email"
        permission = f"{_PREFIX}{permission}"
        raise CloudTasksError(
            texts.LACKS_PERMISSION.format(permission=permission, resource=resource),
            rpc_code="PERMISSION_DENIED",
            advice=f'"{caller}" has no permission {permission} on queue "{queue.name}": add it '
            f"as {right} to the queue's acl in queue.yaml, or let one of its users call "
            "SetIamPolicy",
        )


def find_changed_queues(emulator: Emulator, config: QueueConfig) -> list[Queue]:
    """Return the queues that another configuration would change, disable or resume."""
    if config.total_storage_limit_bytes != emulator.config.total_storage_limit_bytes:
        return emulator.queues
    listed = config.by_name()
    return [queue for queue in emulator.queues if _is_changed(queue, listed.get(queue.name))]


def _is_changed(queue: Queue, settings: QueueSettings | None) -> bool:
    if settings is None:
        return not queue.is_runtime and queue.state is not QueueState.DISABLED
    return settings != queue.settings or queue.state is not QueueState.RUNNING


def get_iam_policy(call: Call) -> Message:
    """GetIamPolicy: the acl of a queue as bindings."""
    policy = call.message("Policy", etag=_NO_POLICY_ETAG)
    if acl := call.queue.settings.acl:
        policy.etag = sha256(repr(acl).encode()).digest()[:8]
    for right, role in _ROLES.items():
        emails = [email for entry in acl or () if (email := getattr(entry, right.value))]
        if emails:
            policy.bindings.add(role=role, members=[_member(email) for email in emails])
    return policy


def set_iam_policy(call: Call) -> Message:
    """SetIamPolicy: replace the acl of a queue, one of queue.yaml until it is reloaded."""
    queue, policy = call.queue, call.request.policy
    if not call.request.HasField("policy"):
        raise invalid("policy is missing: send an empty one to remove the acl", field="policy")
    if policy.etag and policy.etag != get_iam_policy(call).etag:
        raise CloudTasksError(
            "the policy has changed since it was read: read it again, then set it",
            rpc_code="ABORTED",
        )
    entries: list[AclEntry] = []
    for binding in policy.bindings:
        right = next((right for right, role in _ROLES.items() if role == binding.role), None)
        if right is None:
            known = " or ".join(_ROLES.values())
            raise invalid(f'role is "{binding.role:.100}": use {known}', field="policy.bindings")
        if binding.HasField("condition"):
            raise invalid("conditions are not supported: leave them out", field="policy.bindings")
        entries += [AclEntry(**{right.value: _email(member)}) for member in binding.members]
    acl = tuple(entries) or None
    call.emulator.update_queue(replace(queue.settings, acl=acl))
    return get_iam_policy(call)


def test_iam_permissions(call: Call) -> Message:
    """TestIamPermissions: which of some permissions the caller has."""
    held = [
        permission
        for permission in call.request.permissions
        if _is_permitted(call.queue, call.caller, permission.removeprefix(_PREFIX))
    ]
    return call.message("TestIamPermissionsResponse", permissions=held)


def _is_permitted(queue: Queue, caller: str | None, permission: str) -> bool:
    if caller is None or grants(queue, caller, Right.USE):
        return True
    if queue.is_push and not queue.settings.acl:
        # queue.yaml cannot say whose they are; in production a role on the project does.
        return permission == "queues.get" or permission.startswith("tasks.")
    return permission in _ENQUEUER and grants(queue, caller, Right.INSERT)


def _member(email: str) -> str:
    return f"{'serviceAccount' if email.endswith('.gserviceaccount.com') else 'user'}:{email}"


def _email(member: str) -> str:
    kind, _, email = member.partition(":")
    if kind not in _MEMBERS or not email:
        raise invalid(
            f'member is "{member:.100}": use user:EMAIL or serviceAccount:EMAIL',
            field="policy.bindings",
        )
    return email
