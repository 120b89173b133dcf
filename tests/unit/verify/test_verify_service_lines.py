"""Parsing of the lines of the setting `services`."""

from scaffold.verify.services.specs import (
    ComposeSpec,
    HostPorts,
    external_services,
    parse_external,
    sandbox_commands,
    sorted_ports,
)
from support.errors import error_of


def test_a_line_begins_with_its_kind_of_service():
    """AL-9: compose, the host's loopback, or a command in the sandbox."""
    expected = {
        "compose @5432": ComposeSpec(files=(), names=(), ports=(5432,)),
        "compose -f a.yaml -f 'dev/b c.yaml' db cache @5432 @6379 @5432": ComposeSpec(
            files=("a.yaml", "dev/b c.yaml"), names=("db", "cache"), ports=(5432, 6379)
        ),
        "host @5432 @80": HostPorts((5432, 80)),
        "host example.org": None,
        "host": None,
        "composed @1": None,
        "redis-server --port 6380 @6380": None,
        "compose=1 serve @1": None,
    }
    assert {line: parse_external(line) for line in expected} == expected


def test_an_invalid_service_line_is_refused():
    lines = [
        *("compose", "compose db", "compose @0", "compose @65536", "host @99999", "compose -f @1"),
        *("compose -f /etc/compose.yaml @1", "compose -f ../compose.yaml @1", "compose -f a/../../b @1"),
        *("compose -f --env-file db @1", "compose --privileged db @1", "compose db -f a.yaml @1"),
        *("compose 'db @1", "compose db; rm -r x @1", "compose '' @1"),
    ]
    assert [line for line in lines if error_of(ValueError, parse_external, line) is None] == []


def test_a_command_in_the_sandbox_comes_before_its_valid_ports():
    """AL-10: reported as a configuration error, and not as a check that cannot run."""
    lines = ["@5", "@5 @6", "redis-server @99999", "redis-server @0", "serve @80 @65536 "]
    assert [line for line in lines if error_of(ValueError, parse_external, line) is None] == []


def test_an_argument_that_looks_like_a_port_is_one_only_at_the_end_of_the_line():
    assert parse_external("curl -d @5 http://127.0.0.1:1 && serve --at @1700000000") is None


def test_services_are_ordered_and_ports_are_taken_in_ascending_order():
    """A common order prevents deadlocks."""
    lines = ("serve @1", "host @9 @2", "compose @5 @9", "other")
    assert sandbox_commands(lines) == ("serve @1", "other")
    assert [service.ports for service in external_services(lines)] == [(9, 2), (5, 9)]
    assert sorted_ports(external_services(lines)) == (2, 5, 9)
