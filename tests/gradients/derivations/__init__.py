"""The steps of docs/derivations, each on arrays drawn at random."""
