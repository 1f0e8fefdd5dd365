"""Programs judged by tests: checkers with testlib's semantics."""
