"""Shared vocabulary: values, states, events, errors and ports. Pure; imports only msgspec."""
