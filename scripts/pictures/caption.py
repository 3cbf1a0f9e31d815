"""What to see in the curves of a grid, in words: which lines end in front, and which never get below the baseline."""

import math
import statistics
from collections.abc import Iterator, Sequence

from scripts.grid.experiment.claims import AT
from scripts.grid.experiment.file import LARGER_IS_BETTER, OF_EVALUATIONS, Experiment
from scripts.grid.experiment.states import State, by_line
from scripts.pictures.curves import UNITS, health_drawn

_NAMED = 3  # of more lines there is the number


def caption(experiment: Experiment, states: Sequence[State]) -> str:
    """A sentence for each thing to see, with the columns in which it is so where it is not so in all."""
    if health := health_drawn(experiment):
        return f"The {health} is at most {max(own.summary[experiment.metric] for own in states if own.summary):.2g}."
    columns = dict.fromkeys(state.cell.column.name for state in states)
    seen: dict[str, list[str]] = {}
    for column in columns:
        for text in _seen(experiment.metric, [state for state in states if state.cell.column.name == column]):
            seen.setdefault(text, []).append(column)
    return " ".join(text + (f" ({'; '.join(own)})." if len(own) < len(columns) else ".") for text, own in seen.items())


def _seen(metric: str, states: Sequence[State]) -> Iterator[str]:
    """Of a column.  Seeds do not tell a line from the best where one of its is as good as one of the best's."""
    key = metric if metric in OF_EVALUATIONS else "evaluation_loss"
    sign = -1 if key in LARGER_IS_BETTER else 1
    ends, least = {}, {}
    for (line, _), own in by_line(states).items():
        ends[line] = [math.inf if state.how == "failed" else sign * _values(state, key)[-1] for state in own]
        losses = [min(_values(state, "evaluation_loss"), default=math.inf) for state in own]
        least[line] = [loss / state.config["baseline"] for loss, state in zip(losses, own, strict=True)]
    best = min(ends, key=lambda line: statistics.mean(ends[line]))
    front = [line for line, own in ends.items() if min(own) <= max(ends[best])]
    stuck = [line for line, own in least.items() if min(own) > AT]
    if len(ends) == 1:
        low, high = (f"{of(least[best]):.2g}" for of in (min, max))
        yield f"The lowest loss of {best} is {low}{f' to {high}' * (high > low)} of the baseline's"
        return
    if len(front) == len(ends):
        yield "At the end the seeds tell no line from the best"
    elif len(stuck) < len(ends) or sign == -1:
        what = f"{'lowest' if sign == 1 else 'highest'} {UNITS[key].partition(' (')[0]}"
        others = [line for line in front if line != best]
        apart = f", from which the seeds do not tell {_named(others, len(ends))}" if others else ""
        yield f"At the end the {what} is that of {best}{apart}"
    if stuck:
        yield f"The loss never falls below {AT:g} of the baseline for {_named(stuck, len(ends))}"


def _values(state: State, key: str) -> list[float]:
    return [record[key] for record in state.records if key in record]


def _named(lines: Sequence[str], all_lines: int) -> str:
    if len(lines) > _NAMED or len(lines) == all_lines:
        return "any line" if len(lines) == all_lines else f"{len(lines)} of {all_lines} lines"
    return " and ".join(filter(None, [", ".join(lines[:-1]), lines[-1]]))
