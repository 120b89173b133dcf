"""Files that name MCP servers: what is read, expanded, and refused."""

import json

import pytest
from inline_snapshot import snapshot

from scaffold.extensions.mcp.offers import Definition, Question, asked_text, called_name, offered, suggested_answers
from scaffold.extensions.mcp.pooled_server import server_redactor
from scaffold.extensions.mcp.server_config import MissingVariable, expand, expanded, merged, read_servers
from scaffold.extensions.mcp.server_connection import read_reply
from scaffold.extensions.mcp.server_login import protected
from scaffold.extensions.tool_schema import plain_schema


def read(servers, file="mcp.json"):
    return read_servers(json.dumps({"mcpServers": servers}).encode(), file=file, scope="user")


def test_variables_are_expanded_once():
    """RA-15: `${VAR}` and `${VAR:-default}`; a value is never expanded again."""
    table = {
        "a ${ONE} b": "a 1 b",
        "${NONE:-two}": "two",
        "${EMPTY:-three}": "three",
        "${NONE:-}": "",
        "${ONE}${ONE}": "11",
        "$ONE ${1} ${}": "$ONE ${1} ${}",
        '${NONE:-{"a": 1}}': '{"a": 1}',
        "${NESTED}": "${ONE}",
    }
    assert {text: expand(text, {"ONE": "1", "EMPTY": "", "NESTED": "${ONE}"}) for text in table} == table


def test_a_variable_without_value_and_default_is_an_error():
    """RA-15: it is named, and no part of it is sent."""
    (server,) = read({"a": {"url": "https://${HOST}/mcp", "headers": {"X": "${TOKEN}"}}}).servers
    with pytest.raises(MissingVariable, match="HOST"):
        expanded(server, {"TOKEN": "t"})
    assert expanded(server, {"HOST": "h", "TOKEN": "t"}).headers == {"X": "t"}
    assert "HOST" in server.shown


def test_an_entry_that_cannot_be_used_is_said_and_the_others_count():
    """RA-15: no underscore in the name of a server, so that the name of a tool says which one it is."""
    rows = [
        ("a_b", {"command": "x"}, "its name is not"),
        ("", {"command": "x"}, "its name is not"),
        ("a" * 33, {"command": "x"}, "its name is not"),
        ("a", {}, "it has no `command`"),
        ("a", {"type": "http"}, "it has no `url`"),
        ("a", {"type": "carrier", "url": "x"}, "there is no transport `carrier`"),
        ("a", {"url": "ftp://a.example"}, "its `url` does not begin with"),
        ("a", {"command": ["x"]}, "Expected `str`"),
        ("a", "x", "Expected `object`"),
        ("a", {"command": "x", "hosts": ["a.example"]}, "`hosts` needs `network`"),
    ]
    good = {"command": "x", "other": "members", "disabled": False}
    for name, entry, problem in rows:
        found = read({name: entry, "good": good})
        assert [server.name for server in found.servers] == ["good"], (name, entry)
        assert problem in found.notices[0], (name, entry)


def test_a_file_that_names_no_servers_is_one_line():
    """RA-15."""
    contents = [b"", b"[]", b"{", b"\xff", b'{"mcpServers": []}', b"[" * 100_000]
    found = [(content, read_servers(content, file="mcp.json", scope="user")) for content in contents]
    assert [content for content, each in found if each.servers or len(each.notices) != 1] == []


def test_the_first_of_two_servers_of_the_same_name_counts():
    """RA-15: the user's own file comes first; one that is switched off is none."""
    mine, theirs = (
        read({"a": {"command": "mine"}, "b": {"command": "x", "disabled": True}}),
        read({"a": {"url": "http://u"}}),
    )
    found = merged({"mine": mine, "theirs": theirs})
    assert [(server.name, server.command) for server in found.servers] == [("a", "mine")]
    assert found.notices == snapshot(("theirs: the server a is left out, as another file has one of this name",))


def test_names_of_tools_are_those_that_providers_accept():
    """RA-15: `mcp_{server}_{tool}`; others are changed, and stay different."""
    assert called_name("git", "log") == "mcp_git_log"
    names = [called_name("git", name) for name in ("a.b", "a/b", "x" * 100, "x" * 101, "é")]
    assert len(set(names)) == 5
    assert all(len(name) <= 64 and name.isascii() and "." not in name for name in names)


def test_a_schema_keeps_its_meaning_without_references():
    """RA-15: references within it are replaced, alternatives with null dropped, others may be anything."""
    given = {
        "type": "object",
        "properties": {
            "near": {"$ref": "#/$defs/Place", "description": "where"},
            "maybe": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "either": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
            "far": {"$ref": "https://evil.example/schema"},
            "loop": {"$ref": "#/$defs/Loop"},
        },
        "required": ["near"],
        "$defs": {
            "Place": {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]},
            "Loop": {"type": "object", "properties": {"again": {"$ref": "#/$defs/Loop"}}},
        },
    }
    schema = offered("s", Definition("t", "", given)).schema
    assert schema["properties"]["near"]["properties"] == {"x": {"type": "number"}}
    assert schema["properties"]["near"]["description"] == "where"
    assert schema["properties"]["maybe"] == {"type": "integer"}
    assert schema["properties"]["either"] == schema["properties"]["far"] == {}
    assert schema["required"] == ["near"]
    assert plain_schema({"type": "object", "properties": None})["type"] == "object"


def test_the_digest_of_a_definition_covers_all_of_it():
    """RA-15: name, description, and each part of the schema, in any order of its members."""
    one = Definition("a", "b", {"type": "object", "title": "t", "x-more": [1]})
    assert one.digest == Definition("a", "b", {"x-more": [1], "title": "t", "type": "object"}).digest
    others = [Definition("a", "c", one.schema), Definition("A", "b", one.schema), Definition("a", "b", {"x-more": [1]})]
    assert one.digest not in {each.digest for each in others}


def test_a_reply_in_words_becomes_the_answer_that_a_server_expects():
    """RA-15: by the schema of the question; whatever does not answer it declines."""
    one = Question("s", "Which?", {"size": {"type": "integer", "enum": [1, 2]}}, ("size",))
    assert suggested_answers(one) == ("1", "2")
    assert "The MCP server s asks: Which?" in asked_text(one)
    assert read_reply(one, "2").content == {"size": 2}
    assert read_reply(one, "decline").action == read_reply(one, None).action == "decline"
    many = Question("s", "Who?", {"name": {"type": "string"}, "old": {"type": "boolean", "default": False}}, ("name",))
    assert read_reply(many, "name: Ada\nold: yes").content == {"name": "Ada", "old": True}
    assert read_reply(many, '{"name": "Ada"}').content == {"name": "Ada", "old": False}
    assert read_reply(many, "whatever").action == "decline"
    sure = Question("s", "Sure?", {"ok": {"type": "boolean"}})
    assert read_reply(sure, "no").content == {"ok": False}


def test_a_client_that_is_registered_is_named_with_variables():
    """RA-15: its secret is one of the entry; a port that is none is refused."""
    oauth = {"clientId": "us", "clientSecret": "${NOTES_SECRET}", "callbackPort": 8123}
    content = json.dumps({"mcpServers": {"notes": {"url": "https://notes.example/mcp", "oauth": oauth}}}).encode()
    (config,) = read_servers(content, file="mcp.json", scope="user").servers
    given = expanded(config, {"NOTES_SECRET": "s3cr3t-4711-abc"})
    assert (given.oauth.client_id, given.oauth.callback_port) == ("us", 8123)
    assert "4711" not in server_redactor(given).clean("it is s3cr3t-4711-abc")
    wrong = content.replace(b"8123", b"81230")
    (notice,) = read_servers(wrong, file="mcp.json", scope="user").notices
    assert "`callbackPort`" in notice


def test_only_an_address_without_a_token_in_its_headers_takes_a_login():
    """RA-15: `Authorization` in an entry takes the place of a login."""
    entries = {
        "a": {"url": "https://a.example"},
        "b": {"url": "https://b.example", "headers": {"authorization": "Bearer x"}},
        "c": {"command": "c"},
    }
    found = read_servers(json.dumps({"mcpServers": entries}).encode(), file="mcp.json", scope="user")
    assert [each.takes_login for each in found.servers] == [True, False, False]


def test_secrets_are_sent_by_tls_or_within_this_machine():
    """RA-15: an authorization server on this machine is one for a server on it alone."""
    table = {
        ("https://a.example/x", False): True,
        ("http://a.example/x", True): False,
        ("http://127.0.0.1:1/x", True): True,
        ("http://127.0.0.1:1/x", False): False,
        ("http://[::1]:1/x", True): True,
        ("https://user:password@a.example/", False): False,
        ("http://127.0.0.1.example/", True): False,
        ("file:///etc/passwd", True): False,
        ("https://", False): False,
        ("http://[", True): False,
    }
    assert {(url, local): protected(url, local=local) for url, local in table} == table
