"""Parsing of requests to the proxy, and of host rules."""

import contextlib

from hypothesis import given
from hypothesis import strategies as st

from scaffold.host.sandbox.proxy_request import HostPort, ProxyRefusal, matches_any_host, parse_request
from support.errors import error_of


def test_a_rule_matches_its_hosts_and_no_other():
    """BX-9"""
    rows = [
        ("example.com", "example.com", 443),
        ("example.com", "example.com", 80),
        ("Example.COM.", "example.com", 443),
        ("example.com:8443", "example.com", 8443),
        ("*.example.com", "a.example.com", 443),
        ("*.example.com", "a.b.example.com", 443),
        ("*.example.com:8080", "a.example.com", 8080),
        ("127.0.0.1:9000", "127.0.0.1", 9000),
        ("[::1]:9000", "::1", 9000),
        ("[0:0:0:0:0:0:0:1]", "::1", 443),
    ]
    others = [
        ("example.com", "a.example.com", 443),
        ("example.com", "example.com", 22),
        ("example.com", "badexample.com", 443),
        ("example.com:8443", "example.com", 443),
        ("*.example.com", "example.com", 443),
        ("*.example.com", "badexample.com", 443),
        ("*.0.0.1", "127.0.0.1", 80),
        ("*", "example.com", 443),
        ("", "example.com", 443),
        ("https://example.com", "example.com", 443),
        ("exa*.com", "example.com", 443),
        ("127.0.0.1", "127.0.0.1", 9000),
    ]
    assert [row for row in [*rows, *others] if matches_any_host(HostPort(*row[1:]), [row[0]])] == rows


def test_a_tunnel_connects_to_the_requested_host_and_port():
    request = parse_request(b"CONNECT Example.com:443 HTTP/1.1\r\nHost: other.com\r\n\r\n")
    assert (request.destination, request.forwarded) == (HostPort("example.com", 443), b"")


def test_a_plain_request_is_forwarded_with_the_host_of_its_url():
    """BX-9: and without the headers for the proxy."""
    head = (
        b"GET http://example.com:8080/a/b?c=d#e HTTP/1.1\r\nHost: internal.example\r\n"
        b"Proxy-Authorization: Basic eA==\r\nAccept: */*\r\nConnection: keep-alive\r\n\r\n"
    )
    assert parse_request(head).forwarded == (
        b"GET /a/b?c=d HTTP/1.1\r\nHost: example.com:8080\r\nAccept: */*\r\nConnection: close\r\n\r\n"
    )


def test_a_url_without_a_path_asks_for_the_root():
    forwarded = parse_request(b"GET http://example.com?x HTTP/1.1\r\n\r\n").forwarded
    assert forwarded.startswith(b"GET /?x HTTP/1.1\r\nHost: example.com\r\n")


def test_a_malformed_proxy_request_is_refused():
    heads = [
        b"",
        b"hello",
        b"GET / HTTP/1.1",
        b"GET https://example.com/ HTTP/1.1",
        b"GET http:///x HTTP/1.1",
        b"GET http://me:secret@example.com/ HTTP/1.1",
        b"GET http://example.com@evil.com/ HTTP/1.1",
        b"GET http://exa mple.com/ HTTP/1.1",
        b"GET http://example.com\\@evil.com/ HTTP/1.1",
        b"GET http://*.example.com/ HTTP/1.1",
        b"GET http://example.com:99999/ HTTP/1.1",
        b"GET http://example.com/ HTTP/2",
        b"GET http://example.com/ HTTP/1.1\r\n folded: x",
        b"GET http://example.com/ HTTP/1.1\r\nno field",
        b"GET http://example.com/ HTTP/1.1\r\na: b\nc: d",
        b"CONNECT example.com HTTP/1.1",
        b"CONNECT example.com:0 HTTP/1.1",
        b"CONNECT *.example.com:443 HTTP/1.1",
        b"CONNECT [::1:443 HTTP/1.1",
        b"CONNECT http://example.com:443 HTTP/1.1",
        b"connect example.com:443 HTTP/1.1",
    ]
    refusals = [error_of(ProxyRefusal, parse_request, head + b"\r\n\r\n") for head in heads]
    answers = [refusal and refusal.answer().partition(b"\r\n")[0] for refusal in refusals]
    assert [head for head, said in zip(heads, answers, strict=True) if said != b"HTTP/1.1 400 Bad Request"] == []


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_refused_or_parsed(head):
    forwarded = b""
    with contextlib.suppress(ProxyRefusal):
        forwarded = parse_request(b"GET http://" + head + b"\r\n\r\n").forwarded
    assert b"\n" not in forwarded.replace(b"\r\n", b"")
