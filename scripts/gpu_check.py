"""What a GPU does with ortho_ref, in one command: python -m scripts.gpu_check --out gpu

About five minutes on an H200, and before them, where CuPy's cache is cold, what it takes to compile every kernel.

Run from a checkout; needs CuPy and a GPU, and for the comparisons PyTorch.  Sections, each timed, each allowed to fail
without stopping the others:

    versions     of Python, NumPy, SciPy, CuPy, CUDA, PyTorch; the device and its memory
    warm-up      the suite once: CuPy compiles some 450 kernels and keeps them; twenty minutes at most
    suite        pytest --device gpu, in processes of its own, stopped after four minutes
    agreement    every model against the host: states and every gradient; 100 updates of one model per cell
    maps         exact Cayley, Neumann-Cayley and exponential, n = 118 and 430: value, pullback, defect, 50 updates
    tasks        the synthetic tasks at the paper's sizes, some seconds each: updates per second, loss
    timings      a training step at six sizes, by device events, beside PyTorch's (scripts/gpu/timing.py)
    persistent   the persistent kernels at eleven sizes, in every form that fits, many times: the same bits each time

Agreement, tasks and timings have the persistent kernels beside the others, where the device has them.

OUT/gpu-check.json and gpu-check.md are written, whole or not at all, before the first section and after each: of a run
that was killed they have what was done, and `complete` is false.  Exit code 0 only if nothing failed.
"""

import json
import math
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from ortho_ref import files
from ortho_ref.training.trainer import Record
from scripts.gpu import repeated, sections, timing
from scripts.gpu.sections import Settings
from scripts.program import BAD_INPUT, check_device, chosen, fail, limit_threads, one_line, run, say

Section = Callable[[Settings, Record], list[str]]
SECTIONS: dict[str, Section] = {
    "versions": sections.versions,
    "warm-up": sections.warm_up,
    "suite": sections.suite,
    "agreement": sections.agreement,
    "maps": sections.maps,
    "tasks": sections.tasks,
    "timings": timing.timings,
    "persistent": repeated.persistent,
}


def report_of(own: Settings, only: tuple[str, ...] = ()) -> Record:
    """Run the sections, all or those in `only`, and leave the report in own.out; the report."""
    asked = {name: section for name, section in SECTIONS.items() if not only or name in only}
    report: Record = {"device": own.device, "complete": False, "failed": [], "not_begun": [*asked], "sections": {}}
    began = time.perf_counter()
    _write(own.out, report)
    for name, section in asked.items():
        figures: Record = {}
        report["not_begun"].remove(name)
        report["running"] = name
        _write(own.out, report)
        start = time.perf_counter()
        left = own.seconds - (start - began)
        try:
            if left <= 0:
                raise TimeoutError(f"not begun: {own.seconds:g} s were over")
            shorter = replace(own, suite_seconds=min(own.suite_seconds, left))
            messages = section(shorter, figures)
        except Exception as error:
            messages = [f"{type(error).__name__}: {one_line(error) or 'no message'}"]
        took = time.perf_counter() - start
        if name == "warm-up":
            began += took
        report["sections"][name] = {"seconds": took, "failed": messages, "figures": figures}
        report["failed"] += [{"section": name, "error": message} for message in messages]
        if name == "versions":
            report["device"] = figures.get("device", own.device)
        del report["running"]
        _write(own.out, report)
        say(f"{name}: {took:.1f} s, " + (f"{len(messages)} failed" if messages else "nothing failed"))
    report["complete"], report["seconds"] = True, sum(section["seconds"] for section in report["sections"].values())
    _write(own.out, report)
    return report


def _write(out: Path, report: Record) -> None:
    """Both files, the JSON first."""
    files.write(out / "gpu-check.json", (json.dumps(_finite(report), indent=1, allow_nan=False) + "\n").encode())
    files.write(out / "gpu-check.md", markdown(report).encode())


def _finite(value: Any) -> Any:
    """JSON has no NaN and no infinity: strings in their place."""
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def markdown(report: Record) -> str:
    """The report as a page: what failed, then the sections with their tables."""
    state = "complete" if report["complete"] else "NOT COMPLETE"
    lines = [f"# gpu_check on {report['device']}: {state}, {len(report['failed'])} failed", ""]
    lines += [f"* FAILED {entry['section']}: {entry['error']}" for entry in report["failed"]]
    lines += [f"* not finished: {report['running']}"] if "running" in report else []
    lines += [f"* not begun: {', '.join(report['not_begun'])}"] if report["not_begun"] else []
    for name, section in report["sections"].items():
        lines += ["", f"## {name} ({section['seconds']:.1f} s)", ""]
        tables = {key: value for key, value in section["figures"].items() if isinstance(value, list) and _rows(value)}
        lines += [f"* {key}: {_cell(value)}" for key, value in section["figures"].items() if key not in tables]
        for rows in tables.values():
            heads = list(dict.fromkeys(key for row in rows for key in row))
            lines += ["", f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
            lines += [f"| {' | '.join(_cell(row.get(head, '')) for head in heads)} |" for row in rows]
    return "\n".join(lines).rstrip() + "\n"


def _rows(value: list[Any]) -> bool:
    return bool(value) and all(isinstance(row, dict) for row in value)


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3g}"
    if isinstance(value, dict):
        return "; ".join(f"{key}: {_cell(item)}" for key, item in value.items())
    return " ".join(str(value).split()).replace("|", "\\|")


def main(
    out: Annotated[Path, typer.Option(help="Folder for gpu-check.json and gpu-check.md; earlier ones are replaced.")],
    device: Annotated[str, typer.Option(help="gpu; it is compared with the host.")] = "gpu",
    only: Annotated[list[str] | None, typer.Option(help=f"Sections: {', '.join(SECTIONS)}.")] = None,
    scale: Annotated[
        float, typer.Option(help="Multiplies updates, rounds and seconds of all sections except the suite.")
    ] = 1.0,
    small: Annotated[
        bool, typer.Option("--small", help="Tasks with n = 12 and 12 steps, not the papers' sizes.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of weights and data.")] = 0,
) -> None:
    """Check and measure a GPU against the host, section by section; exit code 1 if anything failed, 2 without a GPU."""
    limit_threads(1)
    try:
        if device == "cpu":
            raise ValueError("device is 'cpu'; allowed: 'gpu', which is compared with the host")
        if not 0 < scale <= 1000:
            raise ValueError(f"scale is {scale}; allowed: above 0, at most 1000")
        names = chosen("only", only, SECTIONS)
        check_device(device)
        out.mkdir(parents=True, exist_ok=True)
        own = Settings(out=out, device=device, seed=seed).scaled(scale)
        report = report_of(own.small() if small else own, names)
    except BAD_INPUT as error:
        fail(error)
    for entry in report["failed"]:
        say(f"failed: {entry['section']}: {entry['error']}")
    say(f"{len(report['failed'])} failed; {out / 'gpu-check.md'}")
    raise typer.Exit(1 if report["failed"] else 0)


if __name__ == "__main__":
    run(main)
