"""Problems with their truth: records, the formats they come in, message pools, and corpora built of them."""
