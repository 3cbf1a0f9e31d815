"""What is wrong: the mistakes whose outputs are those given; else which outputs are wrong, and what makes them right.

Of mistakes whose outputs are the same on a case those are told that explain most of the failing cases of the same cell,
map or optimizer, first of these the one that explains most of all.  A name needs evidence: a case of one step alone
gives none, nor does one case where the same mistake would show in two more of its config that nothing explains; nor two
mistakes where one explains as many cases.

failure      one failing case and the mistakes whose outputs it has
pairs        two mistakes at once
precision    whether what is nearly right is computed in float32
seen         what can be seen of outputs that nothing explains
localise     the implementation asked again, with `switches`
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ortho_ref.conformance.cases.case import Arrays, Vector
from ortho_ref.conformance.diagnosis import pairs
from ortho_ref.conformance.diagnosis.failure import Failure, Partly
from ortho_ref.conformance.diagnosis.localise import Asker, localised, rounding
from ortho_ref.conformance.diagnosis.seen import by_differences, hint_of, right_and_wrong, subject
from ortho_ref.conformance.mistakes import FITTED, MISTAKES
from ortho_ref.conformance.mistakes.fitted import fitted
from ortho_ref.conformance.mistakes.mistake import Combination
from ortho_ref.conformance.report import FAILED, Result, shortened
from ortho_ref.conformance.running.implementation import Run

_SHOWN = 3
#: Failing cases in which a mistake would show and does not, so that one case in which it does is no evidence.
_AGAINST = 2


class Told(NamedTuple):
    """The mistakes whose outputs a case has, and what to say of it."""

    mistakes: tuple[tuple[str, ...], ...] = ()
    diagnosis: str = ""


def diagnose(
    chosen: Sequence[Vector],
    results: Sequence[Result],
    given: dict[str, Arrays],
    dtype: str,
    run: Run | None = None,
) -> list[Result]:
    """The results, those that failed with outputs with a diagnosis; `given` has the outputs by the case's name.

    run, the implementation, is asked again where nothing else is found.
    """
    with np.errstate(all="ignore"):
        families: dict[tuple[str, str], list[Failure]] = {}
        for vector, result in zip(chosen, results, strict=True):
            if result.status == FAILED and (failure := Failure(vector, given[vector.id], dtype, MISTAKES)).wrong:
                families.setdefault((vector.case.kind, subject(vector.case)), []).append(failure)
        found = {id: own for family in families.values() for id, own in _explanations(family).items()}
        counts = _counts(found.values())
        found = {id: sorted(own, key=lambda c: -counts[_names(c)]) for id, own in found.items()}
        told: dict[str, Told] = {}
        for family in families.values():
            told |= _told(family, found, Asker(run, dtype))
        whole = [(result, told.get(result.id, Told())) for result in results]
        return [replace(result, mistakes=own.mistakes, diagnosis=own.diagnosis) for result, own in whole]


def _explanations(family: list[Failure]) -> dict[str, list[Combination]]:
    """Case -> the combinations that explain it, of these those that explain most of the family."""
    # mistakes whose numbers are found from outputs that no other explains, beside the others
    more = list(fitted(FITTED, [(f.vector, f.usable) for f in family if not f.singles], family[0].dtype))
    for failure in family if more else ():
        failure.add(more)
    found = {failure.id: list(failure.singles) for failure in family}
    found |= pairs.explaining([f for f in family if not (f.singles or (f.seen and len(f.wrong) == 1))])
    evident = {id: [c for c in own if _is_evident(c, family, found)] for id, own in found.items()}
    counts = _counts(evident.values())
    return {id: _most(combinations, counts) for id, combinations in evident.items()}


def _is_evident(combination: Combination, family: list[Failure], found: dict[str, list[Combination]]) -> bool:
    """Whether the cases that it explains are enough to name it."""
    names = set(_names(combination))
    own = [failure for failure in family if any(set(_names(c)) == names for c in found[failure.id])]
    if all(failure.degenerate for failure in own) or (len(names) > 1 and _one_does(names, own, found)):
        return False
    alike = [f for f in family if f not in own and f.vector.case.config == own[0].vector.case.config]
    return len(own) > 1 or sum(not found[f.id] and _would_show(combination, f) for f in alike) < _AGAINST


def _one_does(names: set[str], own: list[Failure], found: dict[str, list[Combination]]) -> bool:
    """Whether another mistake that would show in all these cases explains as many of the family as two do."""
    counts = Counter(c[0] for combinations in found.values() for c in combinations if len(c) == 1)
    return any(
        count >= len(own) and m.name not in names and all(_would_show((m,), failure) for failure in own)
        for m, count in counts.items()
    )


def _would_show(combination: Combination, failure: Failure) -> bool:
    """Whether a case would be wrong by a mistake."""
    return any(m in failure.applicable and m.name in failure.vector.kills for m in combination)


def _counts(found: Iterable[list[Combination]]) -> Counter[tuple[str, ...]]:
    return Counter(_names(c) for combinations in found for c in combinations)


def _names(combination: Combination) -> tuple[str, ...]:
    return tuple(sorted(mistake.name for mistake in combination))


def _most(combinations: list[Combination], counts: Counter[tuple[str, ...]]) -> list[Combination]:
    """Those with the highest count, one of each order."""
    highest = max((counts[_names(c)] for c in combinations), default=0)
    return list({_names(c): c for c in reversed(combinations) if counts[_names(c)] == highest}.values())[::-1]


def _told(family: list[Failure], found: dict[str, list[Combination]], asker: Asker) -> dict[str, Told]:
    """Case -> its `mistakes` and `diagnosis`, of one family."""
    named = {names: c for failure in family for c in found[failure.id] for names in [_names(c)]}
    told: dict[str, Told] = {}
    unexplained: list[Failure] = []
    for failure in sorted(family, key=lambda failure: failure.degenerate):  # which takes what the others have
        own = found[failure.id]
        if own:
            told[failure.id] = _equal(own, f"your outputs equal {subject(failure.vector.case)} with", "")
        elif missing := failure.without():
            names = ", ".join(mistake.name for mistake in missing)
            what = subject(failure.vector.case)
            told[failure.id] = Told(diagnosis=f"your outputs equal {what} without what is assumed: {names}")
        elif not failure.seen and (partly := _partly(failure, list(named.values()))):
            told[failure.id] = _nearly(failure, partly)
            named |= {_names(own.combination): own.combination for own in partly}
        else:
            unexplained.append(failure)
    if unexplained:
        told |= _unexplained(unexplained, asker)
    return told


def _equal(own: Sequence[Combination], begin: str, end: str) -> Told:
    says = [" and with ".join(mistake.says for mistake in c) for c in own[:_SHOWN]]
    more = f", or {len(own) - _SHOWN} more" if len(own) > _SHOWN else ""
    names = tuple(tuple(mistake.name for mistake in c) for c in own)
    return Told(names, f"{begin} {'; or with '.join(says)}{more}{end}")


def _partly(failure: Failure, named: list[Combination]) -> list[Partly]:
    """Mistakes that fit most outputs, first of all those that other cases have."""
    if failure.degenerate and not named:
        return []
    return failure.partly(named) or ([] if failure.degenerate else failure.partly((m,) for m in failure.applicable))


def _nearly(failure: Failure, partly: list[Partly]) -> Told:
    but, what = partly[0].but, subject(failure.vector.case)
    gradients = {name for name in failure.given if name.startswith("d_")}
    if gradients and set(but) == gradients:
        begin, end = f"your forward outputs equal {what} with", "; your gradients do not"
    else:
        begin, end = f"your outputs equal {what} with", f", in all but {shortened(but, failure.given)}"
        end += _left_over(failure, partly[0]) if len(but) <= _SHOWN else ""
    return _equal([own.combination for own in partly if own.but == but], begin, end)


def _left_over(failure: Failure, partly: Partly) -> str:
    """What the outputs look like that are not those of the mistake, beside its own."""
    parts = []
    for name in partly.but:
        if name not in failure.wrong:
            parts.append(f"{name} is right")
        elif name in partly.outputs and name in failure.usable:
            as_mistaken = replace(failure.vector, expected=partly.outputs, low={}, high={})
            if hint := hint_of(name, as_mistaken, failure.usable, failure.dtype):
                parts.append(f"{name}: {hint}".replace("what is expected", "what it then is"))
    return f"; {'; '.join(parts)}" if parts else ""


def _unexplained(failures: list[Failure], asker: Asker) -> dict[str, Told]:
    """What can be seen of each; and of the first that is asked again, where to look."""
    rounded = {f.id: rounding(f, asker) for f in failures}
    texts = {f.id: right_and_wrong(f.vector, f.usable, f.dtype, rounded[f.id]) for f in failures}
    asked = [f for f in failures if not f.seen and not by_differences(f.vector, f.usable, f.dtype)]
    if len(asked) < len(failures):  # what one step alone does not show is seen in the others
        asked = [f for f in asked if not f.degenerate]
    whole = min(asked, key=lambda f: (f.degenerate, len(f.vector.expected) - len(f.usable)), default=None)
    if whole is not None and (where := localised(whole, asker, rounded[whole.id])):
        alike = texts[whole.id].split(";")[0]
        texts |= {f.id: f"{texts[f.id]}; {where}" for f in asked if texts[f.id].split(";")[0] == alike}
    return {id: Told(diagnosis=text) for id, text in texts.items()}
