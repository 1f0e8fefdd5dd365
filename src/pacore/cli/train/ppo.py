"""``pacore train ppo``: train a Hugging Face model to synthesise, on one device."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pacore.cli.data import files
from pacore.cli.progress import say
from pacore.cli.train.progress import say_metrics, write_tensorboard
from pacore.config import convert
from pacore.errors import MissingExtraError

Model = Annotated[
    str, typer.Option("--model", metavar="NAME", help="A folder with a model, or a hub's name.")
]
Gguf = Annotated[str | None, typer.Option(metavar="FILE", help="A GGUF file in that folder.")]
Out = Annotated[Path, typer.Option(metavar="DIR", help="The run: settings, metrics, checkpoint, model.")]
Low = Annotated[int, typer.Option(min=0, help="Least messages of an episode.")]
High = Annotated[int, typer.Option(min=0, help="Most messages; 0 trains on the bare problems.")]


def ppo(
    data: files.Source,
    model: Model,
    out: Out,
    iterations: Annotated[int, typer.Option(min=1, help="Updates in all.")] = 250,
    prompts: Annotated[int, typer.Option(min=1, help="Problems an iteration.")] = 16,
    group: Annotated[int, typer.Option(min=1, help="Trajectories a problem.")] = 64,
    limit: Annotated[int, typer.Option(min=1, help="Tokens of a trajectory.")] = 8192,
    longest_prompt: Annotated[int, typer.Option(min=1, help="Tokens of a prompt.")] = 32768,
    low: Low = 16,
    high: High = 24,
    policy_rate: Annotated[float, typer.Option(help="Learning rate of the model.")] = 1e-6,
    critic_rate: Annotated[float, typer.Option(help="Learning rate of the critic.")] = 5e-6,
    gamma: Annotated[float, typer.Option(min=0, max=1, help="Discount.")] = 1.0,
    lam: Annotated[float, typer.Option(min=0, max=1, help="λ of the advantages.")] = 1.0,
    micro: Annotated[int, typer.Option(min=0, help="Problems a backward pass; 0: all.")] = 1,
    truncation: Annotated[
        str, typer.Option(help="A trajectory cut at the limit: bootstrap (no ending) or zero (an ending).")
    ] = "bootstrap",
    unverifiable: Annotated[
        str, typer.Option(help="A trajectory without a verdict: zero (reward 0) or drop.")
    ] = "zero",
    precision: Annotated[str, typer.Option(help="float32 or bfloat16 (products only).")] = "float32",
    device: Annotated[str, typer.Option(help="cpu, cuda, mps …")] = "cpu",
    gguf: Gguf = None,
    yarn: Annotated[float | None, typer.Option(help="Stretch the window by this factor.")] = None,
    implicit_thinking: Annotated[
        bool, typer.Option("--implicit-thinking", help="The chat template opens the thinking itself.")
    ] = False,
    save_every: Annotated[int, typer.Option(min=1, help="Iterations between checkpoints.")] = 10,
    seed: Annotated[int, typer.Option(help="Of episodes and sampling.")] = 0,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Write for TensorBoard, too.")] = False,
    dialect: files.Dialect = None,
    skip_bad: files.SkipBad = False,
) -> None:
    """Train a model to synthesise on records with pools; the same command goes on where it stopped."""
    try:
        from pacore.training.local import LocalTraining, train_locally
    except ImportError as error:
        raise MissingExtraError("training", "train") from error
    chosen = {
        "data": data,
        "model": model,
        "gguf": gguf,
        "yarn": yarn,
        "device": device,
        "iterations": iterations,
        "prompts": prompts,
        "group": group,
        "limit": limit,
        "longest_prompt": longest_prompt,
        "low": low,
        "high": high,
        "policy_rate": policy_rate,
        "critic_rate": critic_rate,
        "gamma": gamma,
        "lam": lam,
        "micro": micro,
        "truncation": truncation,
        "unverifiable": unverifiable,
        "precision": precision,
        "implicit_thinking": implicit_thinking,
        "save_every": save_every,
        "seed": seed,
    }
    settings = convert(chosen, LocalTraining, "pacore train ppo")
    reports = [say_metrics, *([write_tensorboard(out / "tensorboard")] if tensorboard else [])]

    def report(line: dict[str, float]) -> None:
        for each in reports:
            each(line)

    records = files.open_records(data, dialect, skip_bad)
    folder = train_locally(settings, records, out, report)
    say(f"the trained model is in {folder}")
