"""Parts that several tests share: a chat endpoint on a real socket that behaves as told."""
