"""What the commands of an attempt or a check run with: sandbox, environment, ports, temporary folders."""
