"""``pacore view``: a trace in the terminal."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pacore.cli.progress import DONE, closing_line, mark_of
from pacore.errors import ConfigError
from pacore.traces.run_directory import decode_result_line, trace_path
from pacore.traces.trace import RoundTrace, Trace, read_trace
from pacore.types import Reference, Trajectory


def view(
    trace: Annotated[Path, typer.Argument(help="A trace file, or the directory of a run.")],
    trajectory: Annotated[
        str | None,
        typer.Option("-t", "--trajectory", metavar="R.I", help="Show one whole: round.index, as listed."),
    ] = None,
    reasoning: Annotated[bool, typer.Option("--reasoning", help="With -t: its reasoning too.")] = False,
    prompt: Annotated[bool, typer.Option("--prompt", help="With -t: the exact prompt it read.")] = False,
    problem: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="With a directory: which problem.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Export the whole run as one JSON object.")] = False,
) -> None:
    """Show the rounds of a run: who thought what, what it read, and what was kept."""
    console = Console(highlight=False)
    if trajectory is None and (reasoning or prompt):
        raise ConfigError("--reasoning and --prompt show more of one trajectory: name it with -t R.I")
    if trace.is_dir():
        if problem is None:
            if json or trajectory is not None:
                raise ConfigError(
                    f"{trace} holds many runs: say which with --id ID ('pacore view {trace}' lists them)"
                )
            _list_directory(trace, console)
            return
        trace = _trace_in(trace, problem)
    elif problem is not None:
        raise ConfigError("--id chooses within the directory of a run; a trace file holds one problem")
    found = read_trace(trace)
    if json:
        sys.stdout.write(msgspec.json.encode(found.export()).decode() + "\n")
    elif trajectory is not None:
        _show_trajectory(found, trajectory, console, reasoning=reasoning, prompt=prompt)
    else:
        _show_run(found, console, trace)


def _show_run(trace: Trace, console: Console, path: Path) -> None:
    schedule = trace.schedule.name or ",".join(str(spec.width) for spec in trace.schedule.rounds)
    console.print(Text(f"problem {trace.problem.id} · schedule {schedule} · seed {trace.seed}", style="bold"))
    console.print(Text(_excerpt(_text_of(trace.problem.messages[-1].get("content")), 300)))
    for number in sorted(trace.rounds):
        console.print()
        console.print(_round_title(trace.rounds[number]))
        console.print(_round_table(trace.rounds[number]))
    console.print()
    for warning in trace.warnings:
        console.print(Text(f"warning: {warning.text}", style="yellow"))
    result = trace.result
    if result is None:
        console.print(Text("the run has not ended", style="yellow"))
        return
    console.print(Text(f"{result.status}: {result.answer or ''}"))
    console.print(Text(closing_line(result, path), style="dim"))


def _round_title(found: RoundTrace) -> Text:
    if not found.messages and not found.lost:
        return Text(f"round {found.number}: {len(found.trajectories)} of {found.width} ended", style="bold")
    kept = f"{len(found.messages)} of {found.width} left a message"
    skipped = f" · {found.skipped} not launched" if found.skipped else ""
    agreement = f" · agreement {found.agreement:.0%}" if found.agreement is not None else ""
    return Text(f"round {found.number}: {kept}{skipped}{agreement}", style="bold")


def _round_table(found: RoundTrace) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", expand=True)
    table.add_column("", no_wrap=True)
    table.add_column("tokens", no_wrap=True, justify="right")
    table.add_column("seconds", no_wrap=True, justify="right")
    # What was read is wanted whole; the message gives way.
    table.add_column("read", min_width=4, max_width=48)
    table.add_column("message", overflow="ellipsis", no_wrap=True, ratio=1)
    messages = {message.index: message.text for message in found.messages}
    for index in sorted(found.trajectories):
        thought = found.trajectories[index]
        mark = mark_of(thought)
        summary = found.summaries.get(index)
        tokens = thought.usage.completion_tokens + (summary.usage.completion_tokens if summary else 0)
        shown = messages[index] if summary and index in messages else None
        table.add_row(
            Text(f"{mark} {found.number}.{index}", style="green" if mark == DONE else "red"),
            f"{tokens:,}",
            f"{max(0.0, thought.ended_at - thought.started_at):.1f}",
            Text(_told_references(thought.references)),
            Text(_excerpt(shown, 300) if shown is not None else _summary_of(thought)),
        )
    return table


def _told_references(references: tuple[Reference, ...]) -> str:
    """The references in the order of the prompt: ``1.3 1.0~`` are Reference 1 and a shortened Reference 2."""
    return " ".join(f"{r.round}.{r.index}{'' if r.kept_chars is None else '~'}" for r in references)


def _summary_of(trajectory: Trajectory) -> str:
    if trajectory.status == "complete":
        if not trajectory.content.strip() and trajectory.tool_calls:
            return "tool calls: " + ", ".join(call["function"]["name"] for call in trajectory.tool_calls)
        return _excerpt(trajectory.content, 300)
    why = trajectory.error or _excerpt(trajectory.content or trajectory.reasoning, 200)
    return f"[{trajectory.status}] {why}"


def _show_trajectory(trace: Trace, place: str, console: Console, *, reasoning: bool, prompt: bool) -> None:
    thought = _find_trajectory(trace, place)
    facts = (
        f"trajectory {place} · {thought.status} · {thought.model or 'model not told'} at "
        f"{thought.endpoint or thought.source} · seed {thought.seed} · "
        f"temperature {thought.sampling.temperature:g} · finish {thought.finish_reason} · "
        f"{thought.usage.completion_tokens:,} tokens · attempts {thought.attempts}"
    )
    console.print(Text(facts, style="bold"))
    if thought.error:
        console.print(Text(thought.error, style="red"))
    for number, reference in enumerate(thought.references, start=1):
        cut = "" if reference.kept_chars is None else f", its last {reference.kept_chars} characters"
        console.print(Text(f"Reference {number} is {reference.round}.{reference.index}{cut}", style="dim"))
    if prompt:
        for message in trace.prompt_of(thought):
            _print_exactly(console, message["role"], _text_of(message.get("content")))
    if reasoning and thought.reasoning:
        _print_exactly(console, "reasoning", thought.reasoning)
    _print_exactly(console, "conclusion", thought.content)
    for call in thought.tool_calls:
        _print_exactly(console, "tool call", msgspec.json.encode(call).decode())
    summary = trace.rounds[thought.round].summaries.get(thought.index)
    if summary is not None:
        _print_exactly(console, f"summary, {summary.usage.completion_tokens:,} tokens", summary.content)


def _print_exactly(console: Console, heading: str, text: str) -> None:
    console.print(Text(f"\n--- {heading} ---", style="dim"))
    # Past rich, which would wrap the lines: what is shown is what the model read or wrote.
    console.file.write(text + "\n")


def _find_trajectory(trace: Trace, place: str) -> Trajectory:
    round_text, _, index_text = place.partition(".")
    if round_text.isdigit() and index_text.isdigit():
        found = trace.rounds.get(int(round_text))
        if found is not None and int(index_text) in found.trajectories:
            return found.trajectories[int(index_text)]
    known = ", ".join(
        f"{number}.0 to {number}.{max(r.trajectories, default=0)}" for number, r in trace.rounds.items()
    )
    raise ConfigError(f"there is no trajectory {place!r} in this trace; there are {known}")


def _list_directory(directory: Path, console: Console) -> None:
    traces = sorted((directory / "trace").glob("*.jsonl"))
    if not traces:
        raise ConfigError(f"{directory} holds no traces; give a trace file or the directory of a run")
    table = Table(box=None, pad_edge=False, header_style="dim", expand=True)
    for name in ("id", "status", "tokens"):
        table.add_column(name, no_wrap=True, justify="right" if name == "tokens" else "left")
    table.add_column("answer", no_wrap=True, overflow="ellipsis", ratio=1)
    results = directory / "results.jsonl"
    lines = results.read_bytes().splitlines() if results.is_file() else []
    for line in lines:
        result = decode_result_line(line, results)
        tokens = f"{result.usage.completion_tokens:,}"
        table.add_row(Text(str(result.id)), result.status, tokens, Text(_excerpt(result.answer or "", 300)))
    console.print(table)
    console.print(Text(f"{len(lines)} results, {len(traces)} traces; --id ID shows one", style="dim"))


def _trace_in(directory: Path, problem_id: str) -> Path:
    path = trace_path(directory, problem_id)
    if not path.is_file():
        raise ConfigError(
            f"{directory} holds no trace of the problem {problem_id!r}; 'pacore view {directory}' lists them"
        )
    return path


def _text_of(content: object) -> str:
    if isinstance(content, list):
        return "\n".join(
            str(part.get("text") or f"[{part.get('type')}]") for part in content if isinstance(part, dict)
        )
    return str(content or "")


def _excerpt(text: str, limit: int) -> str:
    shown = " ".join(text.split())
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"
