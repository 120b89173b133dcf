"""How a conversation stands that a session goes on with: its mode and its todos, kept as soon as they change."""

from scaffold.agent.modes import CurrentMode, Mode, find_mode
from scaffold.core.todo import TodoList
from scaffold.session.conversation import OpenConversation
from scaffold.tools.todos import Todos


def stored_modes(sitting: OpenConversation, wanted: Mode | None) -> CurrentMode:
    """Return the mode of the conversation, `wanted` if that is not None; one that nobody knows is the default."""

    def keep(mode: Mode) -> None:
        with sitting.store.transaction():
            sitting.store.conversations.keep_mode(sitting.id, mode, me=sitting.owner)

    modes = CurrentMode(find_mode(sitting.store.conversations.standing(sitting.id).mode) or "default", keep)
    modes.switch(wanted or modes.current)
    return modes


def stored_todos(sitting: OpenConversation) -> Todos:
    """Return what there is to do in the conversation."""

    def keep(todos: TodoList) -> None:
        with sitting.store.transaction():
            sitting.store.conversations.keep_todos(sitting.id, todos, me=sitting.owner)

    return Todos(sitting.store.conversations.standing(sitting.id).todos, keep)
