"""Runs, their files, the kit and the command lines under what machines, disks and people do to them: `make torture`.

A trial is drawn from a seed: something is done to a run's folder, or an adapter or a command line is made, then it is
used for real, in processes of their own with time limits. `judging` says what came of it: it survived (the very result
of an untouched run), it was refused (in one clear line), or it is wrong.
"""
