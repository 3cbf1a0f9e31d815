"""Devices on a machine without a GPU: the host device, `hostcuda`; and arrays that only look as if they were on one."""

import numpy as np


class Foreign(np.ndarray):
    """An array that says it is CuPy's; it is refused beside NumPy's before CuPy is asked for."""

    __module__ = "cupy"
