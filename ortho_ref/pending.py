"""Updates that have to know numbers before they go on, several of them read in one copy.

Whoever looks at a value on a device waits for it.  An update that has to, as Algorithm 1 its ||P||_F, stops there and
says what it waits for; a layer and a network put theirs together, so that all are waited for once.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ortho_ref.backend import Array
from ortho_ref.checks import prefixed, read


class Pending(NamedTuple):
    """An update that has to know numbers before it goes on.

    Attributes
    ----------
    numbers : tuple of Array ()
        Where they were computed.
    finish : callable
        From the list of their values, the update's result.
    """

    numbers: tuple[Array, ...]
    finish: Callable[[list[float]], Any]

    def complete(self) -> Any:
        """The result; the numbers are read in one copy, none where there are none."""
        return self.finish(read(*self.numbers))


def together(pending: Mapping[str, Pending], finish: Callable[[dict[str, Any]], Any], prefix: str = "{}: ") -> Pending:
    """Several pending updates as one.

    Parameters
    ----------
    pending : mapping of str to Pending
        The updates by name.
    finish : callable
        From the dict of their results by name, the result of all.
    prefix : str
        What an error of one begins with; its name stands for {}.

    Returns
    -------
    Pending
        Its numbers are those of all.
    """

    def finished(numbers: list[float]) -> Any:
        left, results = iter(numbers), {}
        for name, own in pending.items():
            with prefixed(prefix.format(name)):
                results[name] = own.finish([next(left) for _ in own.numbers])
        return finish(results)

    return Pending(tuple(number for own in pending.values() for number in own.numbers), finished)
