"""Recognise secrets and redact them."""
