"""Implementing a specification in rounds, until an audit finds that it is met."""
