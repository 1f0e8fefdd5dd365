"""The whole miniature in one call: two processes of one thread each, every stage resumable."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import msgspec
import torch

from pacore.errors import ConfigError
from pacore.training.miniature import stages
from pacore.training.miniature.comparisons import COMPARISONS, compare, fill_first_rounds
from pacore.training.miniature.report import Origin, write_report
from pacore.training.miniature.stages import MiniatureSettings, Say, Training
from pacore.training.run import write_whole
from pacore.version import __version__

WORKERS = 2
SETTINGS, TIMES = "settings.json", "times.json"

Job = Callable[[], None]


def make_miniature(settings: MiniatureSettings, folder: Path, say: Say) -> Path:
    """Pretrain, fill pools, train, compare, and write the report; returns its path.

    ``say`` is called in other processes, too: a function of a module. Run again in the same folder it goes on
    where it stopped. Raises ConfigError where the folder holds a miniature of other settings.
    """
    folder.mkdir(parents=True, exist_ok=True)
    _check_settings(settings, folder)
    clock = _Clock(folder / TIMES)
    torch.set_num_threads(WORKERS)
    with clock.timing("pretraining"):
        stages.pretrain_base(settings, folder, say)
    with clock.timing("pools"):
        stages.fill_training_pools(settings, folder, say)
    with clock.timing("training"):
        _share(_training_jobs(settings, folder, say))
    with clock.timing("evaluation"):
        _share(_first_round_jobs(settings, folder))
        _share([partial(compare, settings, folder, comparison, say) for comparison in COMPARISONS])
    return write_report(settings, folder, _origin(clock.times))


def _training_jobs(settings: MiniatureSettings, folder: Path, say: Say) -> list[Job]:
    chains = [stages.main_runs(settings), *([run] for run in stages.side_runs(settings))]
    return [partial(_train, settings, folder, chain, say) for chain in chains]


def _train(settings: MiniatureSettings, folder: Path, chain: Sequence[Training], say: Say) -> None:
    for training in chain:
        stages.train(settings, folder, training, say)


def _first_round_jobs(settings: MiniatureSettings, folder: Path) -> list[Job]:
    """The models that think of first rounds, each for as many problems as any comparison takes of it."""
    wanted: dict[str, int] = {}
    for comparison in COMPARISONS:
        number = settings.small if comparison.small else settings.held_out
        wanted[comparison.first] = max(number, wanted.get(comparison.first, 0))
    return [partial(fill_first_rounds, settings, folder, model, number) for model, number in wanted.items()]


def _share(jobs: Sequence[Job]) -> None:
    """Run jobs in the worker processes; the first failure ends the rest."""
    with ProcessPoolExecutor(
        WORKERS, mp_context=get_context("spawn"), initializer=torch.set_num_threads, initargs=(1,)
    ) as workers:
        futures = [workers.submit(job) for job in jobs]
        try:
            for future in futures:
                future.result()
        except BaseException:
            workers.shutdown(wait=False, cancel_futures=True)
            raise


def _check_settings(settings: MiniatureSettings, folder: Path) -> None:
    path = folder / SETTINGS
    if not path.exists():
        write_whole(path, msgspec.json.encode(settings))
        return
    kept = msgspec.to_builtins(msgspec.json.decode(path.read_bytes()))
    now = msgspec.to_builtins(settings)
    for key in sorted({*kept, *now}):
        if kept.get(key) != now.get(key):
            raise ConfigError(
                f"{folder} holds a miniature with {key} = {kept.get(key)!r}, now it is {now.get(key)!r}; "
                "choose another folder"
            )


class _Clock:
    """How long each stage took, over all sittings."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.times: dict[str, float] = json.loads(path.read_text()) if path.exists() else {}

    @contextmanager
    def timing(self, stage: str) -> Iterator[None]:
        begun = time.monotonic()
        try:
            yield
        finally:
            self.times[stage] = round(self.times.get(stage, 0.0) + time.monotonic() - begun, 1)
            write_whole(self._path, json.dumps(self.times).encode())


def _origin(times: dict[str, float]) -> Origin:
    return Origin(
        times=times,
        cores=min(WORKERS, os.cpu_count() or 1),
        processor=_processor(),
        versions={"pacore": __version__, "torch": torch.__version__, "python": platform.python_version()},
    )


def _processor() -> str:
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.machine()
