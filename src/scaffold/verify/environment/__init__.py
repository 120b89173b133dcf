"""What checks stand on: prepared once, copied to each checkout, proven to test the checkout and nothing else."""
