"""The cells, the maps and the kit's answers once more, by routes of their own.  Need torch."""
