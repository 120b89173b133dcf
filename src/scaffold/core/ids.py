"""Identifiers: strings that must not be mixed up."""

from typing import NewType

RunId = NewType("RunId", str)
GoalId = NewType("GoalId", str)
ActionId = NewType("ActionId", str)
AttemptId = NewType("AttemptId", str)

TurnId = NewType("TurnId", str)
"""One turn of a planner or of a supervisor's agent."""

WishId = NewType("WishId", str)
"""What a human asked of a goal or an action."""

ConversationId = NewType("ConversationId", str)
ReservationId = NewType("ReservationId", str)
"""Money set aside for one request."""

Ticket = NewType("Ticket", str)
"""One request's way to an endpoint."""

Commit = NewType("Commit", str)
"""A full git object id of a commit, in hex."""

Assertion = NewType("Assertion", str)
"""The name of something that may hold, e.g. `store_works`; what no fact shows is false."""

Key = NewType("Key", str)
"""A user's name for an action, unique in its run."""
