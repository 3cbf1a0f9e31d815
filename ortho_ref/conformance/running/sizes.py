"""Which of a case's sizes the numbers in a framework's error are: "shapes cannot be multiplied (4x3 and 5x15)"."""

import re

from ortho_ref.conformance.cases.case import Case

_OF_SHAPES = re.compile(r"shape|size|dimension|broadcast|multipl|align|concat", re.IGNORECASE)
_FEW = 6


def sizes_told(said: str, case: Case) -> str:
    """T, B, m and n of a case with steps, and which of them the numbers in an error of shapes are; "" behind another.

    What is often made of them is looked for, too.
    """
    inputs = case.inputs
    if not _OF_SHAPES.search(said) or case.kind not in ("cell", "layer") or "x" not in inputs:
        return ""
    T, B = inputs["x"].shape[:2][:: -1 if case.config.get("batch_first") else 1]
    first = sorted(name for name in inputs if name.rpartition(".")[2].startswith("W"))  # of the first layer
    n, m = inputs[first[0]].shape[:2] if first else (0, 0)
    sizes = {"T": T, "B": B, "m": m, "n": n, "T B": T * B, "m + n": m + n, **{f"{k} n": k * n for k in (2, 3, 4)}}
    plain = ", ".join(f"{name} = {sizes[name]}" for name in "TBmn")
    numbers = dict.fromkeys(int(number) for number in re.findall(r"(?<![\w.])\d+|(?<=\dx)\d+", said))
    found = {number: [name for name, size in sizes.items() if size == number] for number in numbers}
    told = [f"{number} is {' or '.join(names)}" for number, names in found.items() if names][:_FEW]
    return f"; here {plain}: {', '.join(told)}" if told else f"; here {plain}"
