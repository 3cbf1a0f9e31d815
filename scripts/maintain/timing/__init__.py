"""What the programs that measure time are made of."""
