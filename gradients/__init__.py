"""The checks that gradients are held to; the papers' gradient analysis as executable math is to come here."""
