"""`doctor`: checks of the machine, the repository, its gates, plugins and servers."""
