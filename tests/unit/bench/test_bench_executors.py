"""The page about programs of others is what was recorded, and the provider on loopback speaks their wires."""

import json
from urllib.request import Request, urlopen

import pytest

from executor_table.command import BEGIN, END, PAGE, RUN_BEGIN, RUN_END, page_lines, run_lines
from executor_table.model_server import serve_models

PROMPT = "Run this command in this folder, with your tool for shell commands: sh mark.sh"
SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}}


@pytest.mark.parametrize(("begin", "end", "lines"), [(BEGIN, END, page_lines), (RUN_BEGIN, RUN_END, run_lines)])
def test_the_page_has_the_recorded_rows_and_no_figure_by_hand(begin, end, lines):
    """BX-28"""
    shown = PAGE.read_text("utf-8").partition(begin)[2].partition(end)[0]

    assert shown.split("\n")[1:-1] == lines()
    assert len(lines()) > 2


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (
            "/v1/messages",
            {"messages": [{"role": "user", "content": PROMPT}], "tools": [{"name": "Bash", "input_schema": SCHEMA}]},
        ),
        (
            "/v1/chat/completions",
            {
                "messages": [{"role": "user", "content": PROMPT}],
                "tools": [{"type": "function", "function": {"name": "bash", "parameters": SCHEMA}}],
            },
        ),
        (
            "/v1/responses",
            {
                "input": [{"type": "message", "role": "user", "content": PROMPT}],
                "tools": [{"type": "function", "name": "shell", "parameters": SCHEMA}],
            },
        ),
        (
            "/v1beta/models/x:streamGenerateContent?alt=sse",
            {
                "contents": [{"role": "user", "parts": [{"text": PROMPT}]}],
                "tools": [{"functionDeclarations": [{"name": "run_shell_command", "parameters": SCHEMA}]}],
            },
        ),
    ],
)
def test_a_request_by_each_wire_is_answered_with_the_call_that_the_prompt_asks_for(path, body):
    """BX-28"""
    with serve_models() as (port, seen):
        data = json.dumps({**body, "stream": True}).encode()
        request = Request(f"http://127.0.0.1:{port}{path}", data, {"Content-Type": "application/json"})
        with urlopen(request) as answer:
            told = answer.read().decode()

    assert "sh mark.sh" in told
    assert seen == [(data, True)]
