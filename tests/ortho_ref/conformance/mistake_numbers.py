"""One number for what each mistake gives in each case of TRIED, in mistakes.json: a mistake that is changed is seen.

    python -m tests.ortho_ref.conformance.mistake_numbers

writes the file again, and says which numbers have changed. A new mistake's are stored when it was compared with code of
its own, as those of the GRU, the optimizers, the Cayley map and Algorithm 1 are in test_mistakes.py for good.
"""

import json
from pathlib import Path

import numpy as np

from ortho_ref.conformance.compare import scales
from ortho_ref.conformance.mistakes import MISTAKES
from ortho_ref.conformance.mistakes.mistake import made
from tests.ortho_ref.conformance.adapters import TRIED

FILE = Path(__file__).with_name("mistakes.json")


def number_of(outputs, vector):
    """All outputs, each over its scale, with a weight of its own for every entry; None if they are not finite."""
    own, total = scales(vector.expected), 0.0
    for k, name in enumerate(sorted(outputs)):
        entries = np.asarray(outputs[name], float).reshape(-1) / own.get(name, 1.0)
        with np.errstate(all="ignore"):  # of a mistake that overflows
            total += (entries * np.cos(1 + k + np.arange(entries.size))).sum()
    return float(f"{total:.10g}") if np.isfinite(total) else None


def main():
    """Each case and mistake, a line for each case."""
    before, rows = json.loads(FILE.read_text()) if FILE.exists() else {}, []
    for id, vector in TRIED.items():
        own = {m.name: number_of(made((m,), vector), vector) for m in MISTAKES if m.applies(vector.case)}
        changed = [name for name, number in own.items() if before.get(id, {}).get(name, number) != number]
        print(*([id, *changed] if changed else []), end="\n" if changed else "")
        rows.append(f"{json.dumps(id)}: {json.dumps(own)}")
    FILE.write_text("{\n" + ",\n".join(rows) + "\n}\n")


if __name__ == "__main__":
    main()
