"""Mathematical answers: read out of a text, normalised, and compared layer by layer."""
