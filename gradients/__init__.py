"""The papers' gradient analysis as executable math, and the checks that gradients are held to.

Jacobians and backpropagation through time by them, cell by cell (`bptt`); bounds of their norms (`bounds`, `urnn`,
`sgornn`); the Cayley transform and the Neumann series (`cayley`, `neumann`); generic problems and finite differences
(`problem`, `map_problem`, `checks`); which line of a step back is wrong (`lines`).
"""
