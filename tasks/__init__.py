"""The papers' tasks: synthetic generators and data-set readers."""
