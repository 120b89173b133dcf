"""The description of the API, as OpenAPI 3.1."""

from collections.abc import Sequence
from typing import Any

from scaffold.host.installation import find_installation

Schema = dict[str, Any]


def _object_schema(properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "required": [*properties]}


TEXT: Schema = {"type": "string"}
ROWS: Schema = {"type": "array", "items": {"type": "object"}}
SESSION = _object_schema({"csrf": TEXT, "may_act": {"type": "boolean"}})
RUNS = _object_schema({"runs": ROWS, "unread": ROWS})
RUN = _object_schema({"run": _object_schema({"id": TEXT}), "goals": ROWS, "actions": ROWS, "inbox": ROWS})
INBOX = _object_schema({"inbox": ROWS})
PROBLEMS = {
    400: "It does not fit: the error says why",
    401: "No session: open the link that `scaffold serve` prints",
    403: "Not allowed: a link that can only read, or the token is missing",
    404: "There is no such thing in the user's repositories",
    409: "It is not what was shown any more, or was decided otherwise",
    413: "The request is too long",
    421: "The Host of the request is not the name of this server",
    422: "The body, or a value of the query, has another form",
    503: "Too many streams",
}


def description() -> Schema:
    """Return the document."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Scaffold",
            "version": find_installation().version,
            "description": "The runs of one user. Every request needs the cookie that the link of `scaffold serve` "
            "sets; a change also needs the token of `/api/session` in the header `X-CSRF-Token`.",
        },
        "paths": {
            "/api/openapi.json": {"get": _describe_operation("This description", _object_schema({}))},
            "/api/session": {
                "get": _describe_operation(
                    "What the session may do", _object_schema({"csrf": TEXT, "may_act": {"type": "boolean"}})
                )
            },
            "/api/runs": {"get": _describe_operation("All runs of all repositories", RUNS)},
            "/api/runs/{run}": {
                "get": _describe_operation(
                    "A run, as `scaffold status --json` prints it",
                    _object_schema(
                        {"run": _object_schema({"id": TEXT}), "goals": ROWS, "actions": ROWS, "inbox": ROWS}
                    ),
                    (404,),
                    [_path_name("run")],
                )
            },
            "/api/runs/{run}/events": {
                "get": _describe_stream("The events of a run as they happen", (404, 422), [_path_name("run"), AFTER])
            },
            "/api/events": {"get": _describe_stream("A word after each change in any run", (), [])},
            "/api/inbox": {"get": _describe_operation("What waits for the user, oldest first", INBOX)},
            "/api/inbox/{item}": {"post": _describe_decision()},
        },
        "components": {
            "schemas": {"Problem": _object_schema({"error": TEXT, "fix": TEXT})},
            "securitySchemes": {"session": {"type": "apiKey", "in": "cookie", "name": "scaffold_PORT"}},
        },
        "security": [{"session": []}],
    }


AFTER: Schema = {
    "name": "after",
    "in": "query",
    "required": False,
    "schema": {"type": "integer", "minimum": 0, "maximum": 10**17},
    "description": "The number of the last event that is known.",
}


def _describe_decision() -> Schema:
    body = {
        "type": "object",
        "required": ["answer", "hash"],
        "additionalProperties": False,
        "properties": {
            "answer": {**TEXT, "description": "`approve` or `reject`; to a question one of its choices, or words"},
            "reason": {**TEXT, "description": "What the agent reads beside it"},
            "hash": {**TEXT, "description": "The `hash` of the item as it was shown"},
        },
    }
    token = {"name": "X-CSRF-Token", "in": "header", "required": True, "schema": TEXT}
    done = _object_schema({"id": TEXT, "state": TEXT, "repeated": {"type": "boolean"}, "run": TEXT})
    shape = _describe_operation(
        "Decide an item of the inbox", done, (400, 404, 409, 413, 422), [_path_name("item"), token]
    )
    return {**shape, "requestBody": {"required": True, "content": {"application/json": {"schema": body}}}}


def _describe_operation(
    summary: str, answer: Schema, problems: tuple[int, ...] = (), parameters: Sequence[Schema] = ()
) -> Schema:
    answers = {"200": {"description": "OK", "content": {"application/json": {"schema": answer}}}}
    return {"summary": summary, "parameters": [*parameters], "responses": {**answers, **_problem_answers(problems)}}


def _describe_stream(summary: str, problems: tuple[int, ...], parameters: list[Schema]) -> Schema:
    events = {"description": "Server-sent events", "content": {"text/event-stream": {"schema": TEXT}}}
    return {
        "summary": summary,
        "parameters": parameters,
        "responses": {"200": events, **_problem_answers((*problems, 503))},
    }


def _problem_answers(problems: tuple[int, ...]) -> Schema:
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {
        str(each): {"description": PROBLEMS[each], "content": content} for each in sorted({401, 403, 421, *problems})
    }


def _path_name(name: str) -> Schema:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
