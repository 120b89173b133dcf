"""What lines of the setting `services` ask for."""

import pytest

from scaffold.verify.services.specs import (
    ComposeSpec,
    HostPorts,
    external_services,
    parse_external,
    sandbox_commands,
    sorted_ports,
)


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("compose @5432", ComposeSpec(files=(), names=(), ports=(5432,))),
        (
            "compose -f a.yaml -f 'dev/b c.yaml' db cache @5432 @6379 @5432",
            ComposeSpec(files=("a.yaml", "dev/b c.yaml"), names=("db", "cache"), ports=(5432, 6379)),
        ),
        ("host @5432 @80", HostPorts((5432, 80))),
        ("host example.org", None),
        ("host", None),
        ("composed @1", None),
        ("redis-server --port 6380 @6380", None),
        ("compose=1 serve @1", None),
    ],
)
def test_a_line_begins_with_the_word_for_what_is_outside(line, wanted):
    """AL-9: compose, the host's loopback, or a command in the sandbox."""
    assert parse_external(line) == wanted


@pytest.mark.parametrize(
    "line",
    [
        "compose",
        "compose db",
        "compose @0",
        "compose @65536",
        "host @99999",
        "compose -f @1",
        "compose -f /etc/compose.yaml @1",
        "compose -f ../compose.yaml @1",
        "compose -f a/../../b @1",
        "compose -f --env-file db @1",
        "compose --privileged db @1",
        "compose db -f a.yaml @1",
        "compose 'db @1",
        "compose db; rm -r x @1",
        "compose '' @1",
    ],
)
def test_what_begins_so_and_is_none_is_told(line):
    with pytest.raises(ValueError, match=r"FILE|ports from 1"):
        parse_external(line)


@pytest.mark.parametrize("line", ["@5", "@5 @6", "redis-server @99999", "redis-server @0", "serve @80 @65536 "])
def test_a_command_in_the_sandbox_comes_before_its_ports_and_these_are_ports(line):
    """AL-10: said where it is configured, and not as a check that cannot be run."""
    with pytest.raises(ValueError, match=r"each before its ports|ports from 1"):
        parse_external(line)


def test_an_argument_that_looks_like_a_port_is_none_unless_it_ends_the_line():
    assert parse_external("curl -d @5 http://127.0.0.1:1 && serve --at @1700000000") is None


def test_lines_are_told_apart_in_order_and_ports_are_taken_from_low_to_high():
    """Whoever takes them in one order waits for nobody in a circle."""
    lines = ("serve @1", "host @9 @2", "compose @5 @9", "other")
    assert sandbox_commands(lines) == ("serve @1", "other")
    assert [service.ports for service in external_services(lines)] == [(9, 2), (5, 9)]
    assert sorted_ports(external_services(lines)) == (2, 5, 9)
