"""Who may do what with a queue: the acl of queue.yaml as permissions, and as a policy of IAM.

`user_email` maps to the role cloudtasks.admin, `writer_email` to cloudtasks.enqueuer (Google's
page on migrating queue.yaml to Cloud Tasks).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from hashlib import sha256
from types import MappingProxyType
from typing import Final

from pullqueue.api.auth import Right, grants
from pullqueue.api.tokens import CLOUD_PLATFORM
from pullqueue.cloudtasks import texts
from pullqueue.cloudtasks.calls import Call
from pullqueue.cloudtasks.errors import CloudTasksError, invalid_field
from pullqueue.cloudtasks.messages import Message
from pullqueue.cloudtasks.methods import find_methods
from pullqueue.config.model import AclEntry, IamBinding, QueueConfig, QueueSettings
from pullqueue.engine.emulator import Emulator
from pullqueue.engine.queue import Queue
from pullqueue.engine.queue_base import QueueState
from pullqueue.text import did_you_mean, quoted

AUDIENCE: Final = "https://cloudtasks.googleapis.com/"
"""What Google's clients name in the tokens that they sign themselves."""
SCOPES: Final = frozenset({CLOUD_PLATFORM, "https://www.googleapis.com/auth/cloud-tasks"})

_PREFIX: Final = "cloudtasks."
_ACL_ROLES: Final = {Right.USE: "roles/cloudtasks.admin", Right.INSERT: "roles/cloudtasks.enqueuer"}
_ENQUEUER: Final = frozenset({"tasks.create", "tasks.fullView"})
_VIEWER = r"queues\.(get|list)|tasks\.(fullView|get|list)"
_EDITOR = r"queues\.(?!.*IamPolicy).*|tasks\..*"
_ROLES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "roles/cloudtasks.admin": ".*",
        "roles/cloudtasks.editor": _EDITOR,
        "roles/cloudtasks.enqueuer": r"tasks\.(create|fullView)",
        "roles/cloudtasks.queueAdmin": r"queues\..*",
        "roles/cloudtasks.taskDeleter": r"tasks\.delete",
        "roles/cloudtasks.taskRunner": r"tasks\.(fullView|run)",
        "roles/cloudtasks.viewer": _VIEWER,
        "roles/owner": ".*",
        "roles/editor": _EDITOR,
        "roles/viewer": _VIEWER,
    }
)
"""The permissions that each role grants, as patterns (Google's page on access control)."""
_PERMISSIONS: Final = frozenset(
    f"{_PREFIX}{name}"
    for name in (
        *("queues.create", "queues.list", "tasks.fullView"),
        *(method.permission for method in find_methods("v2beta2")),
    )
)
"""Those of queues and tasks that there are."""
_ENQUEUE_ROLE: Final = _ACL_ROLES[Right.INSERT]
_CONDITIONS_VERSION: Final = 3
"""That of a policy which has conditions."""
_EMAILS: Final = ("user", "serviceAccount")
_EVERYBODY: Final = ("allUsers", "allAuthenticatedUsers")
_is_role = re.compile(r"(?:(?:projects|organizations)/[^/\s]+/)?roles/[\w.]+", re.ASCII).fullmatch
_is_member = re.compile(r"[A-Za-z]+:\S+", re.ASCII).fullmatch
_NO_POLICY_ETAG: Final = b"\x00\x20\x01"
"""Google's, where no policy is set."""

_log = logging.getLogger("pullqueue.server")


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


def check_service_account(emulator: Emulator, email: str, field: str) -> None:
    """Check that the token of a request is of a service account that can be named.

    Raises:
        CloudTasksError: PERMISSION_DENIED: it is not one of those that the emulator knows.
    """
    known = emulator.service_accounts
    if known and email not in known:
        permission = "iam.serviceAccounts.actAs"
        raise CloudTasksError(
            texts.LACKS_PERMISSION.format(permission=permission, resource=email),
            rpc_code="PERMISSION_DENIED",
            advice=f"{field} is {quoted(email)}, which is not one of the service accounts that "
            f"were named: {did_you_mean(email, sorted(known))}",
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
    """GetIamPolicy: the acl of a queue as bindings, and those that an acl cannot have."""
    policy = call.message("Policy", etag=_NO_POLICY_ETAG)
    settings = call.queue.settings
    if settings.acl or settings.iam_bindings:
        policy.etag = sha256(repr((settings.acl, settings.iam_bindings)).encode()).digest()[:8]
    listed = [
        IamBinding(role=role, members=tuple(map(_member, emails)))
        for right, role in _ACL_ROLES.items()
        if (
            emails := [
                mail for entry in settings.acl or () if (mail := getattr(entry, right.value))
            ]
        )
    ]
    for binding in (*listed, *settings.iam_bindings):
        message = policy.bindings.add(role=binding.role, members=binding.members)
        if binding.condition is not None:
            policy.version = _CONDITIONS_VERSION
            expression, title, description = binding.condition
            message.condition.expression, message.condition.title = expression, title
            message.condition.description = description
    return policy


def set_iam_policy(call: Call) -> Message:
    """SetIamPolicy: replace the acl of a queue, one of queue.yaml until it is reloaded."""
    queue, policy = call.queue, call.request.policy
    if not call.request.HasField("policy"):
        raise invalid_field("policy", "is missing: send an empty one to remove the acl")
    if policy.etag and policy.etag != get_iam_policy(call).etag:
        raise CloudTasksError(
            "the policy has changed since it was read: read it again, then set it",
            rpc_code="ABORTED",
        )
    entries: list[AclEntry] = []
    bindings: list[IamBinding] = []
    for message in policy.bindings:
        binding = _read_binding(message)
        right = next((right for right, role in _ACL_ROLES.items() if role == binding.role), None)
        emails = (
            () if right is None or binding.condition else tuple(filter(_email, binding.members))
        )
        entries += [AclEntry(**{right.value: _email(each)}) for each in emails if right]
        others = tuple(each for each in binding.members if each not in emails)
        if others:
            bindings.append(replace(binding, members=others))
    settings = replace(queue.settings, acl=tuple(entries) or None, iam_bindings=tuple(bindings))
    call.emulator.update_queue(settings)
    _log_what_is_not_enforced(queue.name, bindings)
    return get_iam_policy(call)


def _read_binding(message: Message) -> IamBinding:
    field = "policy.bindings"
    if not _is_role(message.role):
        raise invalid_field(
            field, f'have the role "{message.role:.100}": use one such as {_ENQUEUE_ROLE}'
        )
    for member in message.members:
        if member not in _EVERYBODY and not _is_member(member):
            problem = f'have the member "{member:.100}"'
            allowed = "use user:EMAIL, serviceAccount:EMAIL or allUsers"
            raise invalid_field(field, f"{problem}: {allowed}")
    given = message.condition
    condition = (given.expression, given.title, given.description)
    return IamBinding(
        role=message.role,
        members=tuple(message.members),
        condition=condition if message.HasField("condition") else None,
    )


def _log_what_is_not_enforced(queue: str, bindings: Iterable[IamBinding]) -> None:
    """Log what of a policy is stored and shown, but grants nothing here."""
    for binding in bindings:
        known = binding.role in _ROLES and binding.condition is None
        for member in binding.members:
            if not known or not (member in _EVERYBODY or _email(member) or _domain(member)):
                condition = " on a condition" if binding.condition else ""
                _log.warning(
                    'the policy of queue "%s" is not enforced for %s%s: %s is stored, and grants '
                    "nothing here",
                    *(queue, member, condition, binding.role),
                )


def test_iam_permissions(call: Call) -> Message:
    """TestIamPermissions: which of some permissions the caller has; unknown ones it has not."""
    asked = call.request.permissions
    if wildcard := next((each for each in asked if "*" in each), None):
        raise invalid_field(
            "permissions",
            f"have {quoted(wildcard)}: name each one, such as cloudtasks.tasks.create, since "
            "wildcards are not allowed",
        )
    held = [
        permission
        for permission in asked
        if permission in _PERMISSIONS
        and _is_permitted(call.queue, call.caller, permission.removeprefix(_PREFIX))
    ]
    return call.message("TestIamPermissionsResponse", permissions=held)


def _is_permitted(queue: Queue, caller: str | None, permission: str) -> bool:
    if caller is None or grants(queue, caller, Right.USE):
        return True
    bindings = queue.settings.iam_bindings
    if queue.is_push and not queue.settings.acl and not bindings:
        # queue.yaml cannot say whose they are; in production a role on the project does.
        return permission == "queues.get" or permission.startswith("tasks.")
    if permission in _ENQUEUER and grants(queue, caller, Right.INSERT):
        return True
    return any(_grants(binding, caller, permission) for binding in bindings)


def _grants(binding: IamBinding, caller: str, permission: str) -> bool:
    if binding.condition is not None or not re.fullmatch(_ROLES.get(binding.role, ""), permission):
        return False
    named = {_email(each) for each in binding.members}
    domain = caller.rpartition("@")[2].lower()
    return (
        caller.lower() in {each.lower() for each in named if each}
        or not {*_EVERYBODY}.isdisjoint(binding.members)
        or domain in {_domain(each) for each in binding.members}
    )


def _member(email: str) -> str:
    return f"{'serviceAccount' if email.endswith('.gserviceaccount.com') else 'user'}:{email}"


def _email(member: str) -> str | None:
    """Return the e-mail address of a member; None: it is another kind of member."""
    kind, _, email = member.partition(":")
    return email if kind in _EMAILS else None


def _domain(member: str) -> str | None:
    """Return the domain whose users a member is; None: it is another kind of member."""
    kind, _, domain = member.partition(":")
    return domain.lower() if kind == "domain" else None
