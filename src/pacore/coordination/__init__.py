"""The method: schedules, prompts, compaction, agreement, and the one loop over all of them."""
