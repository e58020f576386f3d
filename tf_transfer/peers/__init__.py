"""What a user would otherwise run, for the benchmark to measure beside ours."""
