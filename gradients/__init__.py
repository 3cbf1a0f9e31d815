"""The papers' gradient analysis as executable math, and the checks that gradients are held to."""
