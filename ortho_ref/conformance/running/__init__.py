"""An implementation over the cases: how it is reached, and a result for each.

`runner` runs; `outputs` asks, and takes what was given as plain arrays; `assumptions` are departures that it is held
to.  `adapters` finds a function by name; `programs` are in any language, `apart` with `child` runs Python in a process
of its own; `implementation` is what they have in common, `origin` where a report comes from.  `sizes` says which of a
case's sizes an error names, and `pytest_cases` makes tests of cases.
"""
