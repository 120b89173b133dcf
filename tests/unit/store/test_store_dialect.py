"""The SQL dialects, and that every statement of the package can be translated."""

import re
from types import ModuleType

from scaffold.store import messages
from scaffold.store.driver import postgres, schema
from scaffold.store.run import attempts, event_log, inbox_items, landings, runs
from scaffold.store.run.plan import actions, facts, goals

SQLITE_ONLY = re.compile(
    r"INSERT OR|REPLACE INTO|ROWID|AUTOINCREMENT|PRAGMA|\bGLOB\b|\?|\bjson_|datetime\(", re.IGNORECASE
)
MODULES = (actions, attempts, event_log, facts, goals, inbox_items, landings, messages, runs, schema)


def _statements(module: ModuleType) -> list[tuple[str, str]]:
    found = [(name, value) for name, value in vars(module).items() if name.isupper() and isinstance(value, str)]
    return [(name, value) for name, value in found if re.match(r"\s*(SELECT|INSERT|UPDATE|DELETE)\b", value)]


STATEMENTS = {
    f"{module.__name__.rpartition('.')[2]}.{name}": statement
    for module in MODULES
    for name, statement in _statements(module)
}


def test_named_placeholders_become_psycopg_placeholders() -> None:
    table = {
        "SELECT :id": "SELECT %(id)s",
        "a = :goal_id AND b=:at": "a = %(goal_id)s AND b=%(at)s",
        "x = ':id' AND y = :id": "x = ':id' AND y = %(id)s",
        "x = 'it''s :id' AND y = :id": "x = 'it''s :id' AND y = %(id)s",
        "name TEXT NOT NULL, text INTEGER": 'name TEXT COLLATE "C" NOT NULL, text INTEGER',
        "note = 'TEXT'": "note = 'TEXT'",
        "-- an action's :id\nname TEXT": '-- an action\'s :id\nname TEXT COLLATE "C"',
        "SELECT :number::integer": "SELECT %(number)s::integer",
        "a % 2 = 0 AND b LIKE '%x'": "a %% 2 = 0 AND b LIKE '%%x'",
    }
    assert {ours: postgres.psycopg_style(ours) for ours in table} == table


def test_every_statement_uses_only_what_both_databases_understand() -> None:
    assert len(STATEMENTS) > 150
    assert [name for name, statement in STATEMENTS.items() if SQLITE_ONLY.search(statement)] == []
    ours = {name: re.findall(r"(?<!:):([a-z_]+)", statement) for name, statement in STATEMENTS.items()}
    translated = {name: postgres.psycopg_style(statement) for name, statement in STATEMENTS.items()}
    assert {name: re.findall(r"%\(([a-z_]+)\)s", statement) for name, statement in translated.items()} == ours
