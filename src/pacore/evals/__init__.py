"""Comparing methods at equal compute: benchmarks, runs that share work, statistics, reports."""
