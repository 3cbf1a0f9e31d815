"""The device's switches and counters, as the C++ has them."""

import ctypes

SWITCHES = ("order", "seed", "turn", "executed", "shuffled_sums", "traced", "memory", "allocated")
COUNTERS = ("kernels", "products", "libraries", "to_host", "to_device", "waits")


class State(ctypes.Structure):
    """`hc_State` of state.h."""

    _fields_ = [(name, ctypes.c_int64) for name in SWITCHES + COUNTERS]
