"""Identifier types: strings that a type checker distinguishes."""

from typing import NewType

RunId = NewType("RunId", str)
GoalId = NewType("GoalId", str)
ActionId = NewType("ActionId", str)
AttemptId = NewType("AttemptId", str)
TurnId = NewType("TurnId", str)
"""A turn of the planner or of a supervisor's agent."""
ControlRequestId = NewType("ControlRequestId", str)
"""A human's request about a goal or an action."""
ConversationId = NewType("ConversationId", str)
ReservationId = NewType("ReservationId", str)
"""Money reserved for one request."""
Ticket = NewType("Ticket", str)
"""One request's admission to an endpoint."""
Commit = NewType("Commit", str)
"""A full git commit id, in hex."""
TreeId = NewType("TreeId", str)
"""The id of the files of a commit: equal for two commits with the same files, in hex."""
Assertion = NewType("Assertion", str)
"""Name of a statement about the world, e.g. `store_works`; false unless a fact proves it."""
ActionKey = NewType("ActionKey", str)
"""The user's name for an action, unique within its run."""
