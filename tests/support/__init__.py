"""What several tests share: commands, made-up data, faults and small runs."""
