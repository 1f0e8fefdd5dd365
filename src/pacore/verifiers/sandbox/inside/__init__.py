"""What runs inside a sandbox. Its modules are handed over as text, so they know only the standard library."""
