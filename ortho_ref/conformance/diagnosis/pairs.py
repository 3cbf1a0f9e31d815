"""Two mistakes at once: looked for on the smallest cases that no single one explains, where both apply.

A case of one step is not asked: too much is alike there.

There are many pairs: where both orders are the same each is tried in one, and after many no other case is begun.
"""

from collections.abc import Iterable, Sequence
from itertools import combinations

from ortho_ref.conformance.diagnosis.failure import Failure
from ortho_ref.conformance.mistakes.mistake import Combination, Mistake
from ortho_ref.conformance.mistakes.patched import in_either_order

#: Of these kinds every output is of the forward pass, and any pair may be.
_BY_UPDATE = ("update", "optimizer")
#: Cases that pairs are looked for on, and pairs after which there is no second.
_TRIED, _MANY = 2, 800


def explaining(failures: Sequence[Failure]) -> dict[str, list[Combination]]:
    """Case -> the pairs whose outputs it has, of cases of one subject that no single mistake explains.

    On at least one case they were looked for on both are needed.
    """
    searched = [f for f in failures if f.given and not f.degenerate]
    found: list[Combination] = []
    tries = 0
    by_size = sorted(searched, key=lambda f: sum(array.size for array in f.vector.case.inputs.values()))
    for failure in by_size[:_TRIED]:
        if tries < _MANY and not any(failure.explained_by(pair) for pair in found):
            pairs = candidates(failure)
            tries += len(pairs)
            found += [pair for pair in pairs if failure.explained_by(pair)]
    return {failure.id: [pair for pair in found if failure.explained_by(pair)] for failure in failures}


def candidates(failure: Failure) -> list[Combination]:
    """Pairs that can be: of one that changes the forward pass and one that does not, the first has to fit it."""
    paired = [mistake for mistake in failure.applicable if mistake.paired]
    made = {m.name: outputs for m in paired if (outputs := failure.outputs((m,))) is not None}
    known = [mistake for mistake in paired if mistake.name in made]
    if failure.vector.case.kind in _BY_UPDATE:
        return _pairs(known)
    given = failure.forward
    right = failure.matcher({name: failure.answer[name] for name in given})
    seen = failure.matcher(given)
    backward = [m for m in known if not given or right.matches(made[m.name])]
    changing = [m for m in known if m not in backward]
    if not given or seen.matches(failure.answer):
        return _pairs(backward)
    fitting = [m for m in changing if seen.matches(made[m.name])]
    return [pair for a in fitting for b in backward for pair in _orders(a, b)] + _pairs(changing)


def _pairs(mistakes: Iterable[Mistake]) -> list[Combination]:
    return [pair for a, b in combinations(mistakes, 2) for pair in _orders(a, b)]


def _orders(a: Mistake, b: Mistake) -> list[Combination]:
    return [(a, b)] if in_either_order(a, b) else [(a, b), (b, a)]
