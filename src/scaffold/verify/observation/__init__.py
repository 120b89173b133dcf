"""Observe from inside Python and Node which changed lines a check executes, and what becomes of each test."""
