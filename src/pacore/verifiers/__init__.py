"""Was the answer right? Verdicts by rules, and the seam for verifiers of one's own."""
