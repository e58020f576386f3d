"""What a report is made of: run records, statistics, tables, figures."""
