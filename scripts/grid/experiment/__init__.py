"""An experiment: a file that names a grid of runs, the runs in their folders, and what came out."""
