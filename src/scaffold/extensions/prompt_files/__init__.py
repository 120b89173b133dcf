"""Skills, roles and commands: Markdown files with front matter."""
