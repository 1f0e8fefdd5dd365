"""Progress of training in the terminal: a line an iteration with what matters in it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from pacore.cli.progress import say
from pacore.errors import MissingExtraError

_SHOWN = (
    ("reward", "reward {:.3f}"),
    ("message_accuracy", "messages {:.3f}"),
    ("majority", "majority {:.3f}"),
    ("emergent", "emergent {:.3f}"),
    ("length", "length {:.0f}"),
    ("entropy", "entropy {:.3f}"),
    ("value_loss", "value loss {:.4f}"),
    ("tokens_per_second", "{:.0f} tokens/s"),
)

Report = Callable[[dict[str, float]], None]


def say_metrics(line: dict[str, float]) -> None:
    """Say an iteration's metrics on stderr."""
    shown = [form.format(line[name]) for name, form in _SHOWN if name in line]
    say(f"{line['iteration']:.0f}: {' · '.join(shown)}")


def write_tensorboard(folder: Path) -> Report:
    """A report that writes every metric for TensorBoard. Raises MissingExtraError where it is not there."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise MissingExtraError("writing for TensorBoard", "tensorboard") from error
    writer: Any = SummaryWriter(str(folder))

    def report(line: dict[str, float]) -> None:
        for name, value in line.items():
            writer.add_scalar(name, value, int(line["iteration"]))
        writer.flush()

    return report
