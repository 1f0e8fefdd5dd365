"""Inspect reads our logs, and runs PaCoRe as a solver."""

from __future__ import annotations

from pathlib import Path

import pytest

from pacore.evals.inspect_log import SCORER, write_inspect_logs
from support.browser import chromium, dom_of, served
from support.evaluations import CHANCES, write_evaluation

pytest.importorskip("inspect_ai", reason="the extra inspect is not installed")
# Importing it takes seconds; its warnings are its own affair.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


def test_every_method_becomes_a_log_that_inspect_reads(tmp_path: Path) -> None:
    from inspect_ai.log import read_eval_log

    found = write_evaluation(tmp_path / "eval", problems=6, runs=2)
    logs = {}
    for path in write_inspect_logs(found, tmp_path / "logs"):
        log = read_eval_log(str(path))
        logs[log.eval.solver] = log
    assert set(logs) == {f"pacore {name}" for name in CHANCES}
    low = logs["pacore low"]
    assert low.samples is not None
    assert low.results is not None
    assert (len(low.samples), low.eval.dataset.samples, low.eval.config.epochs) == (12, 6, 2)
    sample = low.samples[0]
    assert sample.scores is not None
    values = [s.scores[SCORER].value for s in low.samples if s.scores is not None]
    assert low.results.scores[0].metrics["accuracy"].value == pytest.approx(
        sum(float(str(value)) for value in values) / 12
    )
    assert sample.model_usage["m"].output_tokens == 5000
    assert "script" in sample.output.completion
    assert sample.target == "1"


@pytest.mark.skipif(chromium() is None, reason="needs Chromium")
def test_the_viewer_of_inspect_opens_them(tmp_path: Path) -> None:
    from inspect_ai.log import bundle_log_dir

    found = write_evaluation(tmp_path / "eval", problems=4, runs=1)
    write_inspect_logs(found, tmp_path / "logs")
    bundle_log_dir(str(tmp_path / "logs"), str(tmp_path / "site"))
    with served(tmp_path / "site") as address:
        # Its workers run in real time, of which the page's own says little: look again until it is there.
        assert any("made_up" in dom_of(address, wait_s=seconds) for seconds in (10, 20, 40, 80, 160))


def test_any_task_of_inspect_can_be_solved_by_a_schedule(tmp_path: Path) -> None:
    from inspect_ai import Task
    from inspect_ai import eval as inspect_eval
    from inspect_ai.dataset import Sample
    from inspect_ai.model import ModelOutput, ModelUsage, get_model
    from inspect_ai.scorer import includes

    from pacore.evals.inspect_solver import pacore_solver

    prompts: list[str] = []

    def answer(messages: list[object], *rest: object) -> ModelOutput:
        prompts.append(messages[-1].text)  # type: ignore[attr-defined]
        synthesis = "Reference 1" in prompts[-1]
        output = ModelOutput.from_content(
            "mockllm/model", "all say \\boxed{4}" if synthesis else "\\boxed{4}"
        )
        # With usage given, nothing is counted by a tokenizer that would have to be fetched.
        output.usage = ModelUsage(input_tokens=10, output_tokens=5, total_tokens=15)
        return output

    task = Task(
        dataset=[Sample(id="a", input="2+2?", target="4"), Sample(id="b", input="1+3?", target="4")],
        solver=pacore_solver("3"),
        scorer=includes(),
    )
    model = get_model("mockllm/model", custom_outputs=answer)
    (log,) = inspect_eval(task, model=model, log_dir=str(tmp_path), display="none", log_level="error")
    assert log.status == "success", log.error
    assert log.samples is not None
    assert len(prompts) == 2 * 4
    for sample in log.samples:
        assert sample.output.completion == "all say \\boxed{4}"
        assert sample.metadata["pacore"]["calls"]["made"] == 4
        assert sample.scores is not None
        assert sample.scores["includes"].value == "C"
