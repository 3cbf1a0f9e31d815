"""What only language models need: an embedding, regularizers, dropout, a reader of two texts."""
