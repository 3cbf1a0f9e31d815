"""Adapters and programs that are broken, odd or hostile, given to the conformance kit.

Right is: wrong answers never pass, there is a report whatever the adapter does, and the kit ends in time.
"""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy

from ortho_ref.conformance.cases.case_files import select
from tests.torture.judging import REFUSED, SURVIVED, WRONG, Verdict, judge, raw_characters
from tests.torture.room import Outcome, Room

COUNT = 240
INSIDE = 40
#: The case that all of them are given, and others that come before and after it.
CASE, OTHERS = "activation/tanh/large", "activation/sigmoid"

BEGIN = """
import os, sys, signal, threading, subprocess, warnings, time, ctypes, gc
import numpy as np

def right(case):
    if case.id != "activation/tanh/large":
        return None
    y = np.tanh(case.inputs["a"] + case.inputs["b"])
    d_a = case.inputs["dy"] * (1 - y * y)
    return {"y": y, "d_a": d_a, "d_b": d_a.sum(axis=0)}

def wrong(case):
    found = right(case)
    return found and found | {"d_a": 1.01 * found["d_a"]}
"""

#: Raised in run, or, with "at the top", while the module is loaded.
RAISED = (
    *("KeyboardInterrupt", "KeyboardInterrupt('x')", "SystemExit", "SystemExit(0)", "SystemExit('x')", "GeneratorExit"),
    *("BaseException", "BaseExceptionGroup('x', [KeyboardInterrupt()])", "ExceptionGroup('x', [ValueError()])"),
    *("MemoryError", "RecursionError", "StopIteration", "StopAsyncIteration", "AssertionError", "NotImplementedError"),
    *("UnicodeDecodeError('utf-8', b'x', 0, 1, 'x')", "OSError(28, 'no space')", "BrokenPipeError", "TimeoutError"),
    *("ValueError('\\x1b[31m' + 'x' * 10**6)", "ValueError('\\n' * 10**5)", "ValueError('\\ud800')"),
    "ValueError('\\0')",
    *("type('Own', (Exception,), {'__str__': lambda self: 1 / 0})()", "type('\\x1b[2J', (Exception,), {})()"),
    *("type('Own', (BaseException,), {'__str__': lambda self: 1})()", "ValueError(*[[]] * 1000)"),
    "type('Own', (Exception,), {'__str__': lambda self: sys.exit(0), '__repr__': lambda self: sys.exit(0)})()",
)

#: What run returns, with right answers in it: it may pass or not.
RIGHT_INSIDE = (
    *("{None: r['y'], **r}", "{**r, '\\x1b[2J\\x07': 1}", "{**r, 'x' * 10**6: 1}", "Dict(r)"),
    "{Key('y'): r['y'], **r}",
    *("{k: v.astype(object) for k, v in r.items()}", "{k: np.matrix(v) for k, v in r.items()}", "{**r, 1: 2}"),
    *("{k: v.astype(complex) for k, v in r.items()}", "{k: v.astype('f2') for k, v in r.items()}"),
    *("{k: v.view([('a', 'f8')]) for k, v in r.items()}", "{k: Array(v) for k, v in r.items()}"),
    *("{k: v.byteswap().view('>f8') for k, v in r.items()}", "{k: memoryview(v) for k, v in r.items()}"),
    *("{k: np.asfortranarray(v) for k, v in r.items()}", "{k: v[::-1][::-1] for k, v in r.items()}"),
    *("{k: Raiser.of(v) for k, v in r.items()}", "{k: v.tolist() for k, v in r.items()}", "{**r, '\\ud800': r['y']}"),
)

#: What run returns without them, `r` being right answers: it may not pass.
RETURNED = (
    *("object()", "[]", "42", "'x'", "np.zeros(3)", "(k for k in r)", "iter(r)", "r.items()", "lambda: r", "type(r)"),
    *("{}", "{1: 2}", "{(): 1, 'y': r['y']}", "{'\\x1b[2J': r['y']}", "dict.fromkeys(r)", "{b'y': r['y']}"),
    *("{'\\u202e' * 50: r['y']}", "{'\\ud800': r['y']}", "{**r, 'd_a': 'x'}", "{**r, 'd_a': None}", "NotImplemented"),
    *("{k: np.ma.masked_array(v, True) for k, v in r.items()}", "{**r, 'y': np.ma.masked_array(r['y'] * 2, True)}"),
    *("{k: v.astype('U') for k, v in r.items()}", "{k: v.astype('S') for k, v in r.items()}", "{**r, 'd_a': np.nan}"),
    *("{k: v.astype('m8[s]') for k, v in r.items()}", "{k: v.view('V8') for k, v in r.items()}"),
    *("{**r, 'd_a': 10**400}", "{k: v[None] for k, v in r.items()}", "{**r, 'd_a': True}", "{**r, 'd_a': np.inf}"),
    *("{k: v.T[..., None] for k, v in r.items()}", "{k: v * np.nan for k, v in r.items()}"),
    *("{k: v[:0] for k, v in r.items()}", "{k: np.zeros(v.shape) for k, v in r.items()}", "{**r, 'd_a': r['y']}"),
    "{k: np.lib.stride_tricks.as_strided(v, (10**6, 10**6), (0, 0)) for k, v in r.items()}",
    *("{k: np.broadcast_to(np.float64(0), (10**12,)) for k in r}", "{k: np.broadcast_to(0.0, (3,) * 30) for k in r}"),
    *("{k: Liar.of(v * 2) for k, v in r.items()}", "{**r, 'd_a': Raiser.of(r['y'])}", "{**r, 'd_a': Everything()}"),
    *("Dict({k: v * 2 for k, v in r.items()})", "{Key('y'): 0 * r['y']}", "{k: Array(v * 2) for k, v in r.items()}"),
    *("Everything()", "{k: np.memmap('/dev/zero', v.dtype, 'r', 0, v.shape) for k, v in r.items()}", "Nested()"),
    *("{**r, 'd_a': [float('nan')] * 10**5}", "case", "case.inputs", "case.outputs", "{**case.inputs, **case.outputs}"),
    *("{k: v.byteswap() for k, v in r.items()}", "{k: v * (1 + 1e-7) for k, v in r.items()}"),
    "{k: -v for k, v in r.items()}",
)

#: Types for the above.
TYPES = """
class Liar(np.ndarray):
    @classmethod
    def of(cls, v): return np.asarray(v).view(cls)
    def __array_ufunc__(self, *a, **k): return np.float64(0)
    def __array_function__(self, *a, **k): return np.float64(0)
    def astype(self, *a, **k): return self
    def __sub__(self, other): return np.zeros(np.shape(other))
    __rsub__ = __sub__
    def __abs__(self): return np.zeros(3)
    def max(self, *a, **k): return 0.0
class Raiser(np.ndarray):
    @classmethod
    def of(cls, v): return np.asarray(v).view(cls)
    def _no(self, *a, **k): raise RuntimeError("no")
    __array_ufunc__ = __array_function__ = astype = __sub__ = __rsub__ = __abs__ = max = all = tobytes = copy = _no
    shape = property(_no)
    dtype = property(_no)
class Dict(dict):
    def items(self): raise KeyError("items")
    def __iter__(self): raise KeyError("iter")
    def __contains__(self, key): return True
    def __len__(self): return -1
class Key(str):
    def __eq__(self, other): return True
    def __hash__(self): return hash("y")
class Array:
    def __init__(self, v): self.v = v
    def __array__(self, *a, **k): return self.v
class Everything:
    def __getattr__(self, name): return self
    def __call__(self, *a, **k): return self
    def __eq__(self, other): return True
    def __le__(self, other): return True
    def __ge__(self, other): return True
    __lt__ = __gt__ = __le__
    def __iter__(self): return self
    def __next__(self): return self
    def __contains__(self, key): return True
    def __getitem__(self, key): return self
    def __len__(self): return 1
    def __bool__(self): return True
    def __float__(self): return 0.0
    __hash__ = None
class Nested(dict):
    def __missing__(self, key): return self
"""

#: What an adapter does to the process before it answers; the answer is right or wrong all the same.
DONE = (
    *("np.seterr(all='raise')", "np.seterr(all='ignore')", "np.random.seed(0)", "np.set_printoptions(precision=0)"),
    *("sys.stdout = None", "sys.stderr = None", "sys.stdout.close()", "sys.stdout = object()", "sys.stdin.close()"),
    *("sys.path.clear()", "sys.path_hooks.clear()", "sys.argv.clear()", "sys.modules.pop('numpy', None)"),
    *("signal.signal(signal.SIGTERM, signal.SIG_IGN)", "signal.signal(signal.SIGINT, lambda *a: os._exit(0))"),
    *("warnings.simplefilter('error')", "import locale; locale.setlocale(locale.LC_ALL, '')", "os.chdir('/')"),
    *("os.environ.clear()", "os.environ['TMPDIR'] = '/nowhere'", "os.umask(0o777)", "sys.setrecursionlimit(60)"),
    *("os.close(0)", "os.close(2)", "[os.close(fd) for fd in range(3, 64) if _closes(fd)]"),
    "sys.setswitchinterval(100)",
    *("threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()", "gc.disable()", "os.nice(5)"),
    *("threading.Thread(target=time.sleep, args=(1000,)).start()", "threading.Thread(target=lambda: 1 / 0).start()"),
    *("subprocess.Popen(['sleep', '60'])", "subprocess.Popen(['sleep', '60'], start_new_session=True)"),
    *("os.fork() or (time.sleep(60), os._exit(0))", "print('x' * 10**6)", "[print('x') for _ in range(10**5)]"),
    *("os.write(1, b'\\0\\xff' * 10**5)", "print('\\x1b[2J')", "sys.stderr.write('x' * 10**6)", "globals().clear()"),
    *("case.inputs.clear()", "case.inputs['a'][:] = 0", "case.inputs['a'].setflags(write=False)"),
    "case.config.clear()",
    *("case.inputs['a'].resize((0,), refcheck=False)", "case.inputs.update(more=np.zeros(3))", "case.outputs.clear()"),
    *("case.inputs['a'].shape = case.inputs['a'].shape[::-1]", "object.__setattr__(case, 'inputs', {})"),
    *("bytearray(100 * 2**20)", "time.sleep(1)", "import atexit; atexit.register(lambda: os._exit(0))"),
    *("import atexit; atexit.register(lambda: 1 / 0)", "sys.settrace(lambda *a: 1 / 0)"),
    "sys.excepthook = lambda *a: os._exit(0)",
    *("import logging; logging.basicConfig(level=0)", "import decimal; decimal.getcontext().prec = 1"),
    "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16))",
    *("f(case) if (f := lambda c: f(c)) and False else None", "sys.setprofile(lambda *a: None)"),
    "import faulthandler; faulthandler.enable()",
)

#: What rewrites, ends or stops the process that it is in.
REWRITTEN = (
    *("np.abs = lambda *a, **k: np.zeros(1)", "np.max = lambda *a, **k: 0.0"),
    "np.isfinite = lambda *a: np.array([True])",
    *("np.allclose = lambda *a, **k: True", "np.ndarray.max = None", "np.asarray = lambda *a, **k: None"),
    *("import builtins; builtins.float = lambda x=0: 0.0", "import builtins; builtins.all = lambda x: True"),
    "import ortho_ref.conformance.compare as c; c.Comparison.passed = property(lambda self: True)",
    "import ortho_ref.conformance.compare as c; c.tolerance = lambda *a: 1e9",
    "import ortho_ref.conformance.running.runner as c; c.compare = lambda v, o, d: {}",
    "import ortho_ref.conformance.report as c; c.Report.ok = property(lambda self: True)",
    "import ortho_ref.conformance.running.runner as c; c.FAILED = c.PASSED",
    "import ortho_ref.conformance.cases.case_files as c; [v.expected.update(wrong(case)) for v in c.vectors()]",
    *("sys.modules['ortho_ref.conformance.report'].Report.ok = True", "sys.exit = lambda code=0: os._exit(0)"),
    *("os._exit(0)", "os._exit(1)", "os.kill(os.getpid(), 9)", "ctypes.string_at(0)", "os.abort()"),
    "os.execv('/bin/true', ['true'])",
    *("sys.setrecursionlimit(10**9); f = lambda: f(); f()", "signal.pause()"),
    "x = [bytearray(2**20) for _ in iter(int, 1)]",
    "import gc; [setattr(o, 'status', 'passed') for o in gc.get_objects() if type(o).__name__ == 'Result']",
    "sys.stdout.write('passed'); sys.stdout.flush(); os.close(1); os._exit(0)",
)


def trial(room: Room, rng: random.Random) -> Outcome:
    """One adapter or program, and the kit's verdict."""
    return rng.choice([_raises, _returns, _returns, _does, _does, _program, _program])(room, rng)


def inside(room: Room, rng: random.Random) -> Outcome:
    """An adapter with wrong answers that rewrites or ends the process that it is in."""
    own = rng.choice(REWRITTEN)
    source = f"{BEGIN}\ndef run(case):\n    {own}\n    return wrong(case)\n"
    return _adapter(room, source, own, False, "--timeout", "2")


def _raises(room: Room, rng: random.Random) -> Outcome:
    own = rng.choice(RAISED)
    place = rng.choice(["in run", "in run", "at the top", "later"])
    body = f"    raise {own}\n" if place == "in run" else f"    if case.id != {CASE!r}: return None\n    raise {own}\n"
    top = f"raise {own}\n" if place == "at the top" else ""
    return _adapter(room, f"{BEGIN}\n{top}def run(case):\n{body}", f"raises {own} {place}", honest=False)


def _returns(room: Room, rng: random.Random) -> Outcome:
    own = rng.choice([*RETURNED, *RIGHT_INSIDE])
    source = f"{BEGIN}{TYPES}\ndef run(case):\n    r = right(case)\n    return r and ({own})\n"
    return _adapter(room, source, f"returns {own}", honest=None if own in RIGHT_INSIDE else False)


def _does(room: Room, rng: random.Random) -> Outcome:
    own, honest = rng.choice(DONE), rng.random() < 0.4
    top = rng.random() < 0.2 and "case" not in own
    line = f"    {own}\n"
    helper = "def _closes(fd):\n    try: return os.fstat(fd) and True\n    except OSError: return False\n"
    source = (
        f"{BEGIN}{helper}\n{own if top else ''}\ndef run(case):\n    found = {'right' if honest else 'wrong'}(case)\n"
    )
    source += f"{'' if top else line}    return found\n"
    return _adapter(
        room, source, f"{own}{' at the top' if top else ''}, answers {'right' if honest else 'wrong'}", honest
    )


def _adapter(room: Room, source: str, what: str, honest: bool | None, *more: str) -> Outcome:
    outcome = Outcome(f"an adapter: {what}"[:300])
    with room.scratch() as aside:
        (aside / "adapter.py").write_text(source, errors="surrogatepass")
        words = ["run", "--adapter", aside / "adapter.py", "--only", CASE, "--only", OTHERS, *more]
        prints = "print" in source.split("def run")[-1] or "write" in source
        return _checked(room, outcome, words, aside, honest, prints)


def _checked(
    room: Room,
    outcome: Outcome,
    words: list[Any],
    aside: Path,
    honest: bool | None,
    prints: bool = False,
) -> Outcome:
    """The kit's run: honest adapters may pass, None either way, others may not."""
    report = aside / "report.json"
    end = room.run("ortho_ref.conformance", *words, "--report", report, cwd=str(aside))
    outcome.add("the kit", _verdict(end, report, honest, prints))
    return outcome


def _verdict(end: dict[str, Any], report: Path, honest: bool | None, prints: bool) -> Verdict:
    if end["code"] is None:
        return Verdict(WRONG, f"the kit does not end in {end['seconds']:.0f} seconds")
    if end["code"] == 2:
        return judge(end, lambda: "")
    try:
        document = json.loads(report.read_text())
    except (OSError, ValueError) as error:
        tail = end["stderr"].strip().splitlines()[-1:]
        return Verdict(
            WRONG, f"exit code {end['code']} without a report ({type(error).__name__}): {ascii(tail)[-300:]}"
        )
    if not prints and (raw := raw_characters(end["stdout"] + end["stderr"])):
        return Verdict(WRONG, f"{raw!r} raw in the report")
    passed = document["ok"]
    if (end["code"] == 0) != passed:
        return Verdict(WRONG, f"exit code {end['code']}, and the report's ok is {passed}")
    if passed:
        return Verdict(WRONG, "wrong answers pass") if honest is False else Verdict(SURVIVED)
    if end["code"] not in (1, 130, 143):
        return Verdict(WRONG, f"exit code {end['code']}: {ascii(end['stderr'])[-300:]}")
    return Verdict(REFUSED, str([case["message"] for case in document["cases"]])[:200])


# programs

#: Shell after which the output is there as `$given`, or is not; $1 is the input, $2 the output.
SHELL = (
    *("cp $given $2", "cp $given $2; exit 1", "cp $given $2; exit 3", "cp $given $2; exit 77"),
    "cp $given $2; exit 255",
    *("kill -9 $$", "kill -SEGV $$", "kill -TERM $$", "kill -STOP $$", "kill -40 $$", "cp $given $2; kill -PIPE $$"),
    *("trap '' TERM INT HUP; sleep 1000", "sleep 1000", "sleep 1000 & cp $given $2", "sleep 1000 & wait", "cat"),
    *("setsid sleep 20 & cp $given $2", "setsid sleep 20 & sleep 1000", "nohup sleep 20 & exit 0", "yes >&2"),
    *("mkfifo $2", "mkdir $2", "ln -s /dev/zero $2", "ln -s /dev/full $2", "ln -s $2 $2", "ln -s /nowhere $2"),
    "touch $2",
    *("ln -s $1 $2", "ln $1 $2", "cp $1 $2", "rm $1; cp $given $2", "echo x > $1; cp $given $2", "ln -s /dev/tty $2"),
    *("rm -r $(dirname $2)", "rm -r $(dirname $2); exit 77", "chmod 000 $(dirname $2)"),
    "mv $(dirname $2) $(dirname $2).x",
    *("cp $given $2; chmod 000 $2", "truncate -s 1T $2", "cp $given $2; truncate -s 1T $2", "head -c 100 $given > $2"),
    *("head -c 5000000 /dev/zero | tr '\\0' x >&2; exit 1", "printf '\\033[2J\\007\\342\\200\\256' >&2; exit 1"),
    *("printf '\\377\\376\\300' >&2; exit 1", "head -c 3000000 /dev/urandom >&2; exit 5"),
    "printf 'a\\r\\nb\\0c' >&2; exit 3",
    *("head -c 20000000 /dev/zero; cp $given $2", "exec 0<&- 1>&- 2>&-; cp $given $2"),
    "(sleep 1; cp $given $2) & exit 0",
    *("python3 -c 'import os; os.setsid; [os.fork() for _ in range(4)]'; cp $given $2", "ulimit -v 1; cp $given $2"),
    *("printf '\\377\\377\\377\\377\\377\\377\\377\\177{}' > $2", "printf '\\0\\0\\0\\0\\0\\0\\0\\0' > $2"),
    "printf x > $2",
    *("printf '\\2\\0\\0\\0\\0\\0\\0\\0{}' > $2", "printf '\\2\\0\\0\\0\\0\\0\\0\\0[]' > $2"),
    "cp $given $2; echo more >> $2",
)


def _program(room: Room, rng: random.Random) -> Outcome:
    shell, (words, given, good) = rng.choice(SHELL), rng.choice(_given())
    ends_well = shell.endswith(("cp $given $2", "chmod 000 $2"))  # root reads that, too
    outcome = Outcome(f"a program: {shell}, with {words}")
    with room.scratch() as aside:
        (aside / "given.safetensors").write_bytes(given)
        (aside / "program.sh").write_text(f"given={aside}/given.safetensors\n{shell}\n")
        command = f"sh {aside}/program.sh {{input}} {{output}}"
        more = ["--timeout", "2", "--only", CASE]
        return _checked(
            room, outcome, ["run", "--command", command, *more], aside, None if good and ends_well else False
        )


def _given() -> list[tuple[str, bytes, bool]]:
    """Files of outputs: in words, bytes, whether the answers in them are right."""
    (vector,) = select([CASE])
    right = {name: np.ascontiguousarray(array) for name, array in vector.expected.items()}

    def saved(change: Callable[[np.ndarray], np.ndarray]) -> bytes:
        return safetensors.numpy.save({k: np.ascontiguousarray(change(v)) for k, v in right.items()})

    whole = saved(lambda v: v)
    return [
        ("right outputs", whole, True),
        ("wrong outputs", saved(lambda v: v * 1.01), False),
        ("NaN", saved(lambda v: v * np.nan), False),
        ("float16", saved(lambda v: v.astype("f2")), False),
        ("integers", saved(lambda v: v.astype("i8")), False),
        ("bool", saved(lambda v: v > 0), False),
        ("another shape", saved(lambda v: v[None]), False),
        ("nothing in them", saved(lambda v: v[:0]), False),
        ("the file cut", whole[:-3], False),
        ("one output", safetensors.numpy.save({"y": right["y"]}), False),
        ("names with escapes", safetensors.numpy.save({"\x1b[2J\x07": right["y"]}), False),
        ("a name of a million characters", safetensors.numpy.save(right | {"x" * 10**6: right["y"]}), True),
        ("names of others", safetensors.numpy.save({f"{k}.x": v for k, v in right.items()}), False),
    ]
