"""Changes to a plan that agents propose: read, limited, and applied to a draft."""
