"""Scaffold as a server of the Model Context Protocol: tools and resources to see, start and steer runs."""
