"""TensorFlow 1, as far as cells released for it need it: by TensorFlow 2's own layer for version 1 (compat.v1).

What stands in for what: `tensorflow` is tensorflow.compat.v1, with version 2's behaviour off;
tensorflow.python.training.checkpointable, which is gone, is an empty module; np.hstack takes what Python 3's zip gives.
Nothing of the cells' own code is changed.  float32 alone, as their variables are.
"""

import os
import sys
import types
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ortho_ref.adapters.sequence import Taken, of_yours, outputs_of, sequence_of
from ortho_ref.adapters.weight_map import Spec, WeightMap
from ortho_ref.converters.config import config_of
from ortho_ref.converters.framework import Arrays
from ortho_ref.trees import under

os.environ["TF_USE_LEGACY_KERAS"] = "1"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


def stand_in() -> Any:
    """Have `import tensorflow` give version 1 from here on."""
    import tensorflow.compat.v1 as tf

    tf.disable_v2_behavior()
    package = types.ModuleType("tensorflow.python.training.checkpointable")
    package.base = types.ModuleType(f"{package.__name__}.base")  # type: ignore[attr-defined]
    sys.modules |= {"tensorflow": tf, package.__name__: package, f"{package.__name__}.base": package.base}
    own: Any = np.hstack
    np.hstack = lambda arrays, **options: own(list(arrays), **options)  # type: ignore[assignment]
    warnings.filterwarnings("ignore", ".*add_variable.*")
    return tf


def cell_outputs(case: Any, cell: Mapping[str, Any], weights: Spec, make: Callable[[int], Any]) -> Arrays | None:
    """States and gradients of a cell over a case, step by step."""
    import tensorflow as tf

    config, seq = config_of(cell), sequence_of(case)
    layout = WeightMap(weights, config)
    if seq is None or seq.dtype != "float32" or of_yours(config, layout)(seq) is None:
        return None
    arrays = layout.to_framework(seq.weights)
    with tf.Graph().as_default(), tf.Session() as session:
        xs, start = [tf.constant(x) for x in seq.x], tf.constant(seq.start[0])
        states = [start]
        own = make(len(seq.start[0][0]))
        with tf.variable_scope(tf.get_variable_scope(), reuse=tf.AUTO_REUSE):
            for x in xs:
                states.append(own(x, states[-1])[1])
        h = tf.stack(states)
        loss = tf.reduce_sum(h[1:] * seq.dh) + tf.reduce_sum(h[-1] * seq.d_last[0])
        variables = _loaded(tf, session, arrays)
        wanted = [*variables.values(), start, *xs]
        gradients = tf.gradients(loss, wanted, unconnected_gradients="zero")
        found, taken = session.run([h, gradients])
    by_name = dict(zip(variables, taken, strict=False))
    d_start, *d_x = taken[len(variables) :]
    return outputs_of(Taken([found], (found[-1],), by_name, np.stack(d_x), (d_start,)), case, seq, layout)


def map_outputs(case: Any, make: Callable[[], Any]) -> dict[str, np.ndarray]:
    """A matrix, from what it makes of every unit vector, and the gradients of its variables."""
    import tensorflow as tf

    given = under("params.", case.inputs)
    dU = case.inputs["dU"]
    with tf.Graph().as_default(), tf.Session() as session:
        U = tf.transpose(make()(tf.eye(len(dU))))
        variables = _loaded(tf, session, given)
        gradients = tf.gradients(tf.reduce_sum(U * dU), [*variables.values()])
        found, taken = session.run([U, gradients])
    return {"U": found} | {f"d_params.{name}": g for name, g in zip(variables, taken, strict=True)}


def _loaded(tf: Any, session: Any, arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """The variables of these names, which have these values now."""
    session.run(tf.global_variables_initializer())
    by_name = {variable.op.name: variable for variable in tf.global_variables()}
    for name, array in arrays.items():
        by_name[name].load(array, session)
    return {name: by_name[name] for name in arrays}
