"""What a run leaves on disk: the journal of its events, folded into a trace, and the run directory."""
