"""A mutant: where it is, what it is called, and its text."""

from typing import NamedTuple


class Place(NamedTuple):
    """Where a mutant is: what it is called by, however the lines around it move.

    file: from the root. within: class and function. operator: what it changes. text: the line. number: which of those
    with the same four. line: the number of the line today. occurrence: which of the operator's in the file.
    """

    file: str
    within: str
    operator: str
    text: str
    number: int
    line: int
    occurrence: int

    @property
    def key(self) -> str:
        """A name for it that small edits elsewhere leave as it is."""
        return "\t".join((self.file, self.within, self.operator, self.text, str(self.number)))


class Mutant(NamedTuple):
    """A place, the file's text with the change, and the changed lines before and after."""

    place: Place
    source: str
    before: str
    after: str
