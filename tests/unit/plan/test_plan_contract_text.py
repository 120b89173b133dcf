"""Contracts by themselves, as text."""

import json

import pytest
from inline_snapshot import snapshot

from scaffold.core.errors import PlanInvalid
from scaffold.core.proof.contract import Check, Contract, OutputContains
from scaffold.plan.text.file_format import contract_document, full_contract_document, read_contract

CONTRACT = Contract(
    intent="it adds",
    commands=(
        Check(command="make test"),
        Check(command="cat out", expect=OutputContains("two words"), required=False, timeout_s=5.0, description="why"),
    ),
    must_exist=("src/**",),
    must_not_change=("tests/**",),
)


def test_a_contract_by_itself_is_read_as_in_a_plan():
    """AL-8: JSON and YAML, and a written contract is read back unchanged."""
    assert read_contract(json.dumps(contract_document(CONTRACT)), name="contract") == CONTRACT
    assert read_contract("commands: [make test]\nmust_exist: [a]", name="contract") == Contract(
        commands=(Check(command="make test"),), must_exist=("a",)
    )
    assert read_contract(json.dumps(contract_document(Contract())), name="contract") == Contract()


def test_the_json_of_a_contract_has_every_field():
    """AL-8: omitted fields have their defaults."""
    shown = full_contract_document(CONTRACT)
    assert shown["commands"] == snapshot(
        [
            {"command": "make test", "expect": "exit 0", "description": "", "required": True, "timeout_s": None},
            {
                "command": "cat out",
                "expect": "output contains two words",
                "description": "why",
                "required": False,
                "timeout_s": 5.0,
            },
        ]
    )
    assert shown["must_not_exist"] == ()
    assert set(full_contract_document(Contract())) == set(shown)


def test_an_invalid_contract_is_refused():
    """AL-8: an unknown key is an error here: a check that is not read would never run."""
    codes = {
        "{": "syntax",
        "just words": "wrong-type",
        "[]": "wrong-type",
        "": "wrong-type",
        "commands: [{expect: exit 0}]": "missing-key",
        "commands: [{command: x, expect: works}]": "bad-value",
        "must_exist: [/etc/passwd]": "bad-value",
        "must_exists: [a]": "unknown-key",
        "contract: {commands: [x]}": "unknown-key",
    }
    for text, code in codes.items():
        with pytest.raises(PlanInvalid) as refused:
            read_contract(text, name="contract")
        assert refused.value.findings[0].code == code, text
