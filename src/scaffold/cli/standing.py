"""How a conversation stands that a session goes on with: its mode and its todos, kept as soon as they change."""

from scaffold.agent.modes import Mode, Modes, known_mode
from scaffold.cli.sitting import Sitting
from scaffold.core.todo import TodoList
from scaffold.tools.todos import Todos


def modes_of(sitting: Sitting, wanted: Mode | None) -> Modes:
    """Return the mode of the conversation, `wanted` if that is not None; one that nobody knows is the default."""

    def keep(mode: Mode) -> None:
        with sitting.store.transaction():
            sitting.store.conversations.keep_mode(sitting.id, mode, me=sitting.me)

    modes = Modes(known_mode(sitting.store.conversations.standing(sitting.id).mode) or "default", keep)
    modes.switch(wanted or modes.current)
    return modes


def todos_of(sitting: Sitting) -> Todos:
    """Return what there is to do in the conversation."""

    def keep(todos: TodoList) -> None:
        with sitting.store.transaction():
            sitting.store.conversations.keep_todos(sitting.id, todos, me=sitting.me)

    return Todos(sitting.store.conversations.standing(sitting.id).todos, keep)
