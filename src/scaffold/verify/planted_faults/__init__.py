"""Faults that are planted into changes to see whether a reviewer finds them. Pure, and the same for the same seed."""
