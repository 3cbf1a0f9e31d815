"""The mistake that thinc's LSTM shows: h_0 and c_0 exchanged, by an adapter that puts what it was given at entry 0."""

from dataclasses import replace

import numpy as np

from ortho_ref.conformance import check, reference


def exchanged(case):
    """The reference started from (c_0, h_0)."""
    given = case.inputs
    found = reference.outputs(replace(case, inputs=given | {"h0": given["c0"], "c0": given["h0"]}))
    return {name: np.concatenate([given[f"{name}0"][None], found[name][1:]]) for name in ("h", "c")}


def test_it_is_named():
    """By h and c, and by h alone, as thinc returns no c."""
    for run in (exchanged, lambda case: {"h": exchanged(case)["h"]}):
        report = check(run, "cell/lstm*")
        assert {result.mistakes for result in report.results} == {(("h0-c0-swapped",),)}
