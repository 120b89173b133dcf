"""Test runners, linters and type checkers: request a report from each, and read it as untrusted input."""
