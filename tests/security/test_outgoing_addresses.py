"""Threat T4: what people give as an address leads to no machine inside, however it is spelled,
whatever its name means later and wherever its answer points.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.outgoing.addresses import (
    AddressRefused,
    Allowed,
    read_allowed,
    refuse_spelling,
    resolved_target,
    system_addresses,
)
from controlplane.outgoing.sending import ANSWER_BYTES_MAX, BODY_BYTES_MAX, Outgoing, SendFailed
from tests.support.receivers import Receiver, receiving, write_certificate

HOST = "receiver.example"
PUBLIC = "8.8.8.8"
NOTHING = Allowed()
MEANS_LOOPBACK = [
    *("127.0.0.1", "localhost", "127.1", "127.0.1", "2130706433", "0x7f000001", "0x7f.0.0.1"),
    *("0177.0.0.1", "017700000001", "127.0.0.1.", "0", "0.0.0.0", "[::1]", "[::]", "[0:0:0::1]"),
    *("[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]", "[64:ff9b::7f00:1]"),
    *("[2002:7f00:1::]", "127.0.0.1%2e", "①27.0.0.1", "a@127.0.0.1", "127.0.0.1\\@a.example"),
]
INSIDE = [
    *("10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1", "169.254.169.254", "192.0.0.8"),
    *("0.0.0.0", "255.255.255.255", "224.0.0.1", "240.0.0.1", "198.18.0.1", "168.63.129.16"),
    *("::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "ff02::1", "ff0e::1"),
    *("::ffff:10.0.0.1", "::ffff:169.254.169.254", "::ffff:8.8.8.8", "2002:a00:1::"),
    *("64:ff9b::a9fe:a9fe", "fec0::1", "2001:db8::1", "2001::1", "100.100.100.200"),
]
NEVER = ["169.254.169.254", "fe80::1", "::ffff:169.254.169.254", "224.0.0.1", "0.0.0.0", "ff02::1"]


@pytest.fixture
def canary() -> Iterator[Receiver]:
    """On loopback, IPv4: nobody may come here."""
    with receiving() as receiver:
        yield receiver


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("receiver") / "certificate.pem"
    write_certificate(path, HOST)
    return path


def send(outgoing: Outgoing, url: str, body: bytes = b"{}") -> int:
    return outgoing.request("POST", url, body=body, headers={}).status


@pytest.mark.parametrize("host", MEANS_LOOPBACK)
def test_no_spelling_of_loopback_reaches_it(host: str, canary: Receiver) -> None:
    # A list that means nothing here opens other ports than 443, where a canary cannot listen.
    elsewhere = Outgoing(allowed=read_allowed("203.0.113.0/24"))

    for scheme in ("http", "https"):
        with pytest.raises((AddressRefused, SendFailed)):
            send(elsewhere, f"{scheme}://{host}:{canary.port}/")

    assert canary.connections == 0


def test_loopback_of_ipv6_is_not_reached() -> None:
    with receiving(host="::1") as canary:
        for host in ("[::1]", "ip6-localhost", "localhost"):
            with pytest.raises((AddressRefused, SendFailed)):
                send(
                    Outgoing(allowed=read_allowed("203.0.113.0/24")),
                    f"http://{host}:{canary.port}/",
                )

    assert canary.connections == 0


def test_the_canary_is_there_to_be_reached(canary: Receiver) -> None:
    """Otherwise the tests around this one would count what cannot come."""
    outgoing = Outgoing(allowed=read_allowed("127.0.0.0/8"))

    assert send(outgoing, f"http://127.0.0.1:{canary.port}/") == 200
    assert canary.connections == 1


@pytest.mark.parametrize("address", INSIDE)
def test_a_name_that_means_an_address_inside_is_refused(address: str) -> None:
    with pytest.raises(AddressRefused):
        resolved_target(f"https://{HOST}/", NOTHING, lambda _host, _port: [address])
    with pytest.raises(AddressRefused):  # Nor beside one that is outside.
        resolved_target(f"https://{HOST}/", NOTHING, lambda _host, _port: [PUBLIC, address])


@pytest.mark.parametrize("address", NEVER)
def test_no_list_opens_what_hands_out_credentials(address: str) -> None:
    allowed = read_allowed(f"{HOST}:443,0.0.0.0/0,::/0")

    with pytest.raises(AddressRefused):
        resolved_target(f"https://{HOST}/", allowed, lambda _host, _port: [address])


@pytest.mark.parametrize(
    "url",
    [
        *("ftp://a.example/", "file:///etc/passwd", "gopher://a.example/", "//a.example/", "a"),
        *("https://", "https:///path", "https://u:p@a.example/", "https://u@a.example/"),
        *("https://a.example:22/", "https://a.example:0443x/", "http://a.example/"),
        *("https://a.example/\r\nX: y", "https://a b.example/", "https://a.example/é"),
        *("https://-a.example/", "https://a..example/", f"https://a.example/{'x' * 2000}"),
    ],
)
def test_an_address_of_another_form_is_refused_before_it_is_resolved(url: str) -> None:
    with pytest.raises(AddressRefused):
        refuse_spelling(url, NOTHING)


@pytest.mark.parametrize(
    "url", ["https://a.example/x?y=z", "https://A.Example:443", "https://8.8.8.8"]
)
def test_a_usual_address_is_taken(url: str) -> None:
    target = resolved_target(url, NOTHING, lambda _host, _port: [PUBLIC])

    assert (target.addresses, target.port, target.is_tls) == ((PUBLIC,), 443, True)


def test_a_name_that_changes_its_mind_is_asked_once_and_held_to_its_word(
    canary: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rebinding: public when it is judged, loopback ever after."""
    answers, dialled = [PUBLIC], []

    def rebinding(_host: str, _port: int) -> list[str]:
        return [answers.pop()] if answers else ["127.0.0.1"]

    def dial(address: tuple[str, int], _timeout_s: float) -> socket.socket:
        dialled.append(address)
        raise ConnectionRefusedError("nothing leaves this test")

    monkeypatch.setattr(socket, "create_connection", dial)
    outgoing = Outgoing(allowed=read_allowed("8.8.8.0/24"), resolve=rebinding)

    with pytest.raises(SendFailed):
        send(outgoing, f"http://{HOST}:{canary.port}/")
    with pytest.raises(AddressRefused):
        send(outgoing, f"http://{HOST}:{canary.port}/")

    assert dialled == [(PUBLIC, canary.port)], "the address that was judged, and no name"
    assert canary.connections == 0


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_redirect_is_followed(status: int, canary: Receiver) -> None:
    location = f"http://127.0.0.1:{canary.port}/"
    with receiving(statuses=[status], location=location) as receiver:
        outgoing = Outgoing(allowed=read_allowed(f"127.0.0.1:{receiver.port}"))

        assert send(outgoing, f"http://127.0.0.1:{receiver.port}/") == status

    assert (receiver.connections, canary.connections) == (1, 0)


def test_a_proxy_of_the_environment_is_not_asked(
    canary: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{canary.port}")
    with receiving() as receiver:
        outgoing = Outgoing(allowed=read_allowed("127.0.0.0/8"))

        assert send(outgoing, f"http://127.0.0.1:{receiver.port}/") == 200

    assert (receiver.connections, canary.connections) == (1, 0)


def test_name_stands_in_tls_and_host_while_the_judged_address_is_dialled(certificate: Path) -> None:
    with receiving(certificate=certificate) as receiver:
        outgoing = Outgoing(
            allowed=read_allowed(f"{HOST}:{receiver.port}"),
            resolve=lambda _host, _port: ["127.0.0.1"],
            tls=ssl.create_default_context(cafile=str(certificate)),
        )

        assert send(outgoing, f"https://{HOST}:{receiver.port}/hook?a=b") == 200
        stranger = Outgoing(allowed=outgoing.allowed, resolve=outgoing.resolve)
        with pytest.raises(SendFailed, match="CERTIFICATE_VERIFY_FAILED"):
            send(stranger, f"https://{HOST}:{receiver.port}/")

    [request] = receiver.received
    assert receiver.names[0] == HOST
    assert request.headers["Host"] == f"{HOST}:{receiver.port}"
    assert request.path == "/hook?a=b"


def test_an_answer_without_an_end_is_cut_off() -> None:
    """Without a limit of its own, `http.client` gives up after a hundred headers: here a minute."""
    with receiving(trickle_s=0.6) as receiver:
        outgoing = Outgoing(allowed=read_allowed("127.0.0.0/8"), timeout_s=1)

        with pytest.raises(SendFailed) as failed:
            send(outgoing, f"http://127.0.0.1:{receiver.port}/")

    assert "100 headers" not in str(failed.value)


def test_what_is_sent_and_what_is_read_have_an_end(canary: Receiver) -> None:
    outgoing = Outgoing(allowed=read_allowed("127.0.0.0/8"))

    with pytest.raises(SendFailed, match="too large"):
        send(outgoing, f"http://127.0.0.1:{canary.port}/", b"x" * (BODY_BYTES_MAX + 1))

    assert canary.connections == 0
    assert ANSWER_BYTES_MAX <= 64 * 1024


@pytest.mark.parametrize(
    "text", ["a.example", "a.example:0", ":80", "a:b", "10.0.0.1/8", "a:99999"]
)
def test_a_list_of_receivers_that_means_nothing_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_allowed(text)


def test_the_systems_resolver_gives_addresses() -> None:
    assert set(system_addresses("localhost", 443)) <= {"127.0.0.1", "::1"}
