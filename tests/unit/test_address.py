"""pullqueue.address: which hosts are this machine, and which URLs can be called."""

from __future__ import annotations

from tables import each_row

from pullqueue.address import SplitUrl, is_loopback, split_url, why_not_callable


@each_row("host", ["localhost", "127.0.0.1", "127.1.2.3", "::1"])
def test_every_loopback_address_is_this_machine(host: str) -> None:
    """127.0.0.0/8, ::1 and localhost."""
    assert is_loopback(host)


@each_row(
    "host",
    [
        *("localhost.evil.example", "127.0.0.1.nip.io", "notlocalhost", "localhost.", ""),
        *("128.0.0.1", "0.0.0.0", "::2", "[::1]", "127.1", "127.0.0.256"),
    ],
)
def test_hosts_that_only_look_like_this_machine_are_not_it(host: str) -> None:
    """Names of others, other addresses, and short or invalid forms of an address are not."""
    assert not is_loopback(host)


@each_row(
    "url",
    [
        "http://localhost",
        "https://api.example.com./x?y=:99999",
        "http://127.0.0.1:65535/a",
        "http://[::1]:8080",
        "http://_dns-sd.a-b.example:/",
        f"http://{'a' * 63}.example",
        "http://user@example.com/%zz",
    ],
)
def test_a_url_can_be_called_whatever_its_path(url: str) -> None:
    assert why_not_callable(url) is None


@each_row("port", ["99999", "0", "abc", "-1", "80:80", " 80", "8_0", "\u0661"])
def test_a_port_is_a_decimal_number_from_1_to_65535(port: str) -> None:
    assert why_not_callable(f"http://127.0.0.1:{port}/a") == "its port must be 1 to 65535"


@each_row(
    "host",
    [
        *(".", "a..b", ".a", "-a", "a-", "a b", "a%b", "a\\b", "ä.example"),
        *("a" * 64, ".".join(["a" * 63] * 4)),
        *("[::1", "::1]", "[::g]", "[fe80::1%eth0]", "[1.2.3.4]"),
    ],
)
def test_a_host_that_is_neither_a_name_nor_an_address_cannot_be_called(host: str) -> None:
    """Neither a name of labels with 1 to 63 characters, nor an IP address."""
    assert why_not_callable(f"http://{host}/x") == "its host is not valid"


def test_a_url_without_a_host_cannot_be_called() -> None:
    assert why_not_callable("http:///x") == "it has no host"


def test_a_url_is_split_into_origin_and_path() -> None:
    """The origin is in lower case and without a default port; the path stays as it is."""
    split = SplitUrl("https://a.example", "/B?x=http://c")

    assert split_url("HTTPS://u:p@A.Example:443/B?x=http://c") == split
    assert (split.host, split.port, split.netloc) == ("a.example", 443, "a.example")
    assert split_url("http://[::1]:81") == ("http://[::1]:81", "")
    assert (SplitUrl("http://[::1]:81").host, SplitUrl("http://[::1]:81").port) == ("::1", 81)
    assert split_url("/path") is None
