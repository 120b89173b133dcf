"""Prepare the environment of checks once, copy it to each checkout, and prove that checks load the checkout's code."""
