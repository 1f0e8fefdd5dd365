"""The whole of PaCoRe in small: a task, a model from nothing, pools, reinforcement learning, evaluation."""
