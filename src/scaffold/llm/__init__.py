"""Language models: live endpoints, cassettes, retries and prices."""
