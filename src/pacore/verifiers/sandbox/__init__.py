"""Running programs that nobody has read: contained, limited, and with nothing in reach worth stealing."""
