"""A model as the judge of what rules cannot decide."""
