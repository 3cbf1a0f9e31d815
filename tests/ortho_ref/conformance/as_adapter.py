"""An adapter that supports nothing, by its dotted name."""


def run(case):
    return None
