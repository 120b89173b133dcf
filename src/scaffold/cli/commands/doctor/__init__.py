"""`scaffold doctor`."""
