"""The steps that build a corpus, one a file: records in, each of them out again, or why it fell."""
