"""What a case is, where cases come from, and their right answers.

`case` is one; `case_files` reads those that are shipped, `drawing` makes what is too large to store from a seed.
`reference` has the answers, `layered` those of whole layers, `small_cells` two cells that the package has no layers
of, `forward` forward passes alone, `initial` draws of weights.  `export` and `node_tests` write cases for other
languages and for ONNX.
"""
