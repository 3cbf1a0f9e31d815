"""The cases of kind `parametrization` that the kit draws."""

from collections.abc import Iterator

from scripts.maintain.vectors.spec import Spec, ranged


def map_cases() -> Iterator[Spec]:
    """Kind parametrization."""
    config = {"parametrization": "householder", "reflections": 4}
    arrays = {"params.V": ranged([4, 4], -1.0, -0.125, form="lower"), "dU": ranged([4, 4], -1.0, 1.0)}
    why = "as many reflections as n, v_n below 0: the sign is -1"
    yield Spec("parametrization/householder/all-sign", "parametrization", config, arrays, why)
