from inline_snapshot import snapshot

from scaffold.core.tool import Tool, ToolOutput
from scaffold.tools.arguments import argument_problems, object_schema, read_arguments


async def nothing(args):
    return ToolOutput("")


TOOL = Tool(
    name="look",
    description="",
    schema=object_schema(
        {"path": {"type": "string"}},
        lines={"type": "integer", "minimum": 1},
        timeout_s={"type": "number"},
        deep={"type": "boolean"},
        names={"type": "array"},
        more={"type": "object"},
    ),
    category="file_read",
    run=nothing,
)


def test_the_schema_is_a_closed_object():
    assert TOOL.schema["required"] == ["path"]
    assert TOOL.schema["additionalProperties"] is False


def test_valid_arguments_have_no_problems():
    valid = [
        {"path": ""},
        {"path": "a", "lines": 1, "timeout_s": 2, "deep": False, "names": [], "more": {}},
        {"path": "a", "timeout_s": 0.5},
    ]
    assert [args for args in valid if argument_problems(TOOL, args)] == []


def test_an_invalid_argument_is_explained_so_that_the_next_call_can_be_right():
    invalid = [
        {},
        {"path": 3},
        {"path": None},
        {"path": "a", "lines": "3"},
        {"path": "a", "lines": 0},
        {"path": "a", "lines": True},
        {"path": "a", "lines": 1.5},
        {"path": "a", "timeout_s": True},
        {"path": "a", "deep": 1},
        {"path": "a", "names": "b"},
        {"path": "a", "more": []},
        {"path": "a", "file": "b"},
    ]
    assert [argument_problems(TOOL, args) for args in invalid] == snapshot(
        [
            "look needs `path` (string)",
            "`path` must be a string, not 3",
            "`path` must be a string, not None",
            "`lines` must be an integer of at least 1, not '3'",
            "`lines` must be an integer of at least 1, not 0",
            "`lines` must be an integer of at least 1, not True",
            "`lines` must be an integer of at least 1, not 1.5",
            "`timeout_s` must be a number, not True",
            "`deep` must be a boolean, not 1",
            "`names` must be an array, not 'b'",
            "`more` must be an object, not []",
            "look has no `file`, it takes `path`, `lines`, `timeout_s`, `deep`, `names`, `more`",
        ]
    )


LIST = Tool(
    name="note",
    description="",
    schema=object_schema(
        {
            "entries": {
                "type": "array",
                "items": object_schema(
                    {"text": {"type": "string"}}, state={"type": "string", "enum": ["open", "done"]}
                ),
            }
        },
        anything={"description": "Whatever."},
    ),
    category="memory",
    run=nothing,
)


def test_an_error_inside_a_list_has_its_position():
    lists = [
        [],
        [{"text": "a", "state": "done"}],
        ["a"],
        [{"text": "a"}, {}],
        [{"text": 1}],
        [{"text": "a", "state": "shut"}],
        [{"text": "a", "id": 1}],
    ]
    assert [argument_problems(LIST, {"entries": each, "anything": None}) for each in lists] == snapshot(
        [
            None,
            None,
            "`entries[0]` must be an object, not 'a'",
            "`entries[1]` needs `text` (string)",
            "`entries[0].text` must be a string, not 1",
            "`entries[0].state` must be one of open, done, not 'shut'",
            "`entries[0]` has no `id`, it takes `text`, `state`",
        ]
    )


def test_all_errors_are_reported_at_once_and_a_long_invalid_value_is_shortened():
    assert (argument_problems(TOOL, {"lines": 0, "file": "b"}) or "").count(";") == 2
    assert len(argument_problems(TOOL, {"path": ["x" * 500]}) or "") in range(1, 120)


def test_arguments_are_read_as_they_are_meant():
    """RA-4."""
    rows = [
        ({"path": "7", "lines": "3"}, {"path": "7", "lines": 3}),
        ({"path": "a", "lines": 3.0, "timeout_s": "0.5"}, {"path": "a", "lines": 3, "timeout_s": 0.5}),
        ({"path": "a", "lines": "3.0"}, {"path": "a", "lines": 3}),
        ({"path": "a", "deep": "true", "lines": None}, {"path": "a", "deep": True}),
        ({"path": "a", "deep": "False"}, {"path": "a", "deep": False}),
        (
            {"path": "a", "names": '["b", "c"]', "more": '{"d": 1}'},
            {"path": "a", "names": ["b", "c"], "more": {"d": 1}},
        ),
    ]
    assert [(args, read_arguments(TOOL, args)) for args, _ in rows] == rows
    assert [meant for _, meant in rows if argument_problems(TOOL, meant)] == []


def test_json_text_is_read_inside_of_lists_too():
    """RA-4."""
    entries = '[{"text": "a", "state": null}, {"text": "[1]"}]'
    assert read_arguments(LIST, {"entries": entries}) == {"entries": [{"text": "a"}, {"text": "[1]"}]}
    assert read_arguments(LIST, {"entries": ['{"text": "b"}']}) == {"entries": [{"text": "b"}]}


def test_the_only_object_of_a_list_may_come_without_the_list():
    """RA-4."""
    for entry in ({"text": "a", "state": None}, '{"text": "a"}'):
        assert read_arguments(LIST, {"entries": entry}) == {"entries": [{"text": "a"}]}


def test_what_cannot_be_read_stays_as_it_is_and_is_refused():
    unreadable = [
        {"path": "a", "lines": "three"},
        {"path": "a", "lines": "3.5"},
        {"path": "a", "lines": 3.5},
        {"path": "a", "names": "b"},
        {"path": "a", "names": "[" * 100_000},
        {"path": "a", "more": '{"a":' * 200 + "1" + "}" * 200},
        {"path": "a", "deep": "yes"},
    ]
    assert [args for args in unreadable if not argument_problems(TOOL, read_arguments(TOOL, args))] == []
