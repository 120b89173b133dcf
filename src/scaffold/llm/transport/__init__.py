"""HTTP to endpoints: streaming, retries, throttling."""
