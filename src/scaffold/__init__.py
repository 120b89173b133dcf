"""Scaffold, an orchestrator for coding agents, and Ralph, the agent it is made of."""
