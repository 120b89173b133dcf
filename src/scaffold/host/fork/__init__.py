"""The zygote: forks workers and supervisors from a warm process."""
