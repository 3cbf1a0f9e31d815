"""Mutation testing: which mutants there are, which tests run their lines, and whether one of these fails."""
