"""Simulation of a plan."""
