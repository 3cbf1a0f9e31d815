"""A run: its options and defaults, and what is made of them."""
