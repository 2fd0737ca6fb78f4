"""Calls to Redis by redis-py: its methods that send commands are decorated.

They are those of `redis.Redis` and its pipelines, so clients that were made before the test have
them, too. Not seen are `redis.asyncio`, clusters, and messages that are published.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial, wraps
from typing import Any, NoReturn

import redis
from redis.client import Pipeline

from pullqueue.testing.patching import Patches
from pullqueue.testing.points.databases.calls import (
    DatabaseCall,
    intercept,
    is_observed,
    observers,
)
from pullqueue.testing.points.footprint import NOTHING, Footprint

_NAME = "redis"
_EVERYTHING = Footprint(writes=frozenset({(_NAME,)}))
_READS = frozenset(
    {"exists", "get", "getrange", "hexists", "hget", "hgetall", "hkeys", "hlen", "hmget", "hvals"}
    | {"lindex", "llen", "lrange", "mget", "pttl", "scard", "sismember", "smembers", "strlen"}
    | {"ttl", "type", "watch", "zcard", "zcount", "zrange", "zrank", "zscore"}
)
_WRITES = frozenset(
    {"append", "decr", "decrby", "del", "expire", "getdel", "getset", "hdel", "hincrby", "hmset"}
    | {"hincrbyfloat", "hset", "hsetnx", "incr", "incrby", "incrbyfloat", "lpop", "lpush", "lrem"}
    | {"lset", "ltrim", "persist", "pexpire", "psetex", "rpop", "rpush", "sadd", "set", "setex"}
    | {"setnx", "spop", "srem", "unlink", "zadd", "zincrby", "zrem"}
)
_ALL_ARE_KEYS = frozenset({"del", "exists", "mget", "unlink", "watch"})
"""Commands that have nothing but keys; others of these have one."""


def _text(part: object) -> str:
    return part.decode(errors="replace") if isinstance(part, bytes) else str(part)


def _footprint(command: str, arguments: tuple[object, ...]) -> Footprint:
    if command == "unwatch":
        return NOTHING
    if command not in _READS | _WRITES:
        return _EVERYTHING
    keys = arguments if command in _ALL_ARE_KEYS else arguments[:1]
    paths = frozenset((_NAME, _text(key)) for key in keys)
    return Footprint(reads=paths) if command in _READS else Footprint(writes=paths)


_EXPIRING = re.compile(r"h?p?expire(at)?|p?setex")
_WITH_OPTIONS = {"getex": 2, "hgetex": 2, "hsetex": 2, "set": 3}
"""Commands that set when a key expires, and where the options of others begin that can."""
_EXPIRY = "the expiry of keys of redis (its time is real)"


def _note_expiry(client: Any, commands: Iterable[Sequence[object]]) -> None:
    """Note commands, some of which can set when a key expires, or depend on that.

    The time of a fake in this process is that of the clock.
    """
    connection = client.connection_pool.connection_class
    if connection.__module__.startswith("redis."):
        begins = any(map(_expires, commands))
        for observer in [*observers]:
            observer.note_expiry(_EXPIRY, begins=begins)


def _expires(command: Sequence[object]) -> bool:
    name = _text(command[0]).lower()
    options = {_text(each).upper() for each in command[_WITH_OPTIONS.get(name, len(command)) :]}
    return bool(_EXPIRING.fullmatch(name)) or not options.isdisjoint(("EX", "EXAT", "PX", "PXAT"))


def _at_point(statement: str, find_footprint: Callable[[], Footprint], run: Any) -> Any:
    def fail() -> NoReturn:
        raise redis.ConnectionError("Connection closed by server.")

    call = DatabaseCall(
        database=_NAME, statement=statement, find_footprint=find_footprint, fail=fail
    )
    return intercept(call, run)


def _executing(execute: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(execute)
    def execute_at_point(client: Any, *args: Any, **options: Any) -> Any:
        run = partial(execute, client, *args, **options)
        if not is_observed():
            return run()
        _note_expiry(client, [args])
        command, arguments = _text(args[0]), args[1:]
        statement = " ".join([command, *map(_text, arguments[:1])])
        return _at_point(statement, lambda: _footprint(command.lower(), arguments), run)

    return execute_at_point


def _executing_all(execute: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(execute)
    def execute_at_point(pipeline: Any, *args: Any, **options: Any) -> Any:
        run = partial(execute, pipeline, *args, **options)
        if not len(pipeline) or not is_observed():
            return run()
        _note_expiry(pipeline, [command for command, _ in pipeline.command_stack])
        return _at_point(f"pipeline of {len(pipeline)}", lambda: _EVERYTHING, run)

    return execute_at_point


@Patches
def following(patches: Patches) -> None:
    """Makes calls points, in a block."""
    patches.decorate(redis.Redis, "execute_command", _executing)
    patches.decorate(Pipeline, "immediate_execute_command", _executing)
    patches.decorate(Pipeline, "execute", _executing_all)
