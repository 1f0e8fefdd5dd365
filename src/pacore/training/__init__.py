"""Training models to synthesise: episodes from message pools, PPO, and a miniature of the whole."""
