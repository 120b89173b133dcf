"""The programs that are known by name, and any that speaks ACP."""

import msgspec
import pytest

from scaffold.core.errors import UsageError
from scaffold.core.executor_settings import NATIVE, ProgramSpec
from scaffold.executors.catalog import find_program, known_programs


def test_a_configured_program_comes_before_the_known_one():
    own = ProgramSpec(name="claude", command=("/opt/claude",), protocol="claude")

    assert find_program("claude", {"claude": own}) is own
    assert find_program("claude", {}) is known_programs["claude"]


def test_any_program_that_speaks_acp_is_an_executor():
    """AL-24"""
    found = find_program("acp:my-agent --mode 'two words'", {})

    assert found.command == ("my-agent", "--mode", "two words")
    assert found.protocol == "acp"


@pytest.mark.parametrize("name", ["", "clade", "acp:", "acp: ", "acp:'"])
def test_an_unknown_executor_is_an_error_that_names_the_known_ones(name):
    with pytest.raises(UsageError, match="there is no executor") as caught:
        find_program(name, {"mine": ProgramSpec(name="mine", command=("mine",), protocol="acp")})

    assert "native, claude, codex" in caught.value.fix
    assert "mine, acp:CMD" in caught.value.fix
    with pytest.raises(UsageError, match="our own agents"):
        find_program(NATIVE, {})


def test_known_programs_drop_keys_and_survive_storage():
    for spec in known_programs.values():
        assert not set(spec.env) & set(spec.keys), spec.name
        assert msgspec.json.decode(msgspec.json.encode(spec), type=ProgramSpec) == spec
