"""The tool that fetches web pages."""
