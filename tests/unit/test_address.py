"""pullqueue.address: which hosts are this machine."""

from __future__ import annotations

import pytest

from pullqueue.address import is_loopback


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.1.2.3", "::1"])
def test_this_machine(host: str) -> None:
    """Every address of 127.0.0.0/8, ::1 and localhost are this machine."""
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host",
    [
        *("localhost.evil.example", "127.0.0.1.nip.io", "notlocalhost", "localhost.", ""),
        *("128.0.0.1", "0.0.0.0", "::2", "[::1]", "127.1", "127.0.0.256"),
    ],
)
def test_hosts_that_only_look_like_this_machine(host: str) -> None:
    """Names of others, other addresses, and short or invalid forms of an address are not."""
    assert not is_loopback(host)
