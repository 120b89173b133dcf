"""Implementing a specification until an audit finds it complied with; values and pure functions only."""
