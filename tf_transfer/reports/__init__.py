"""The parts of a report: run records, statistics, tables, figures."""
