"""The report: its numbers, its figures, and how it looks in a browser."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pacore.errors import JournalError
from pacore.evals.directory import RESULTS, VOTES
from pacore.evals.report import write_report
from pacore.evals.summary import summarize
from support.browser import chromium, dom_of, screenshot_of
from support.command import pacore
from support.evaluations import CHANCES, write_evaluation


def test_a_report_has_every_table_and_figure(tmp_path: Path) -> None:
    found = write_evaluation(tmp_path / "eval")
    written = write_report([summarize(found)], tmp_path / "report")
    assert {path.name for path in written} == {
        "report.html",
        "report.md",
        "report.json",
        "made_up-tokens.svg",
        "made_up-seconds.svg",
        "made_up-dollars.svg",
    }
    text = (tmp_path / "report" / "report.md").read_text()
    for method in (*CHANCES, "self-consistency@16"):
        assert re.search(rf"^\| {re.escape(method)} \| \d", text, re.MULTILINE), method
    for words in ("At equal tokens", "Synthesis", "pass@k", "no difference shown", "gain"):
        assert words in text
    for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        cells = {len(re.findall(r"(?<!\\)\|", row)) for row in table.splitlines()}
        assert len(cells) == 1, table


@pytest.mark.slow
def test_the_same_evaluation_gives_the_same_report(tmp_path: Path) -> None:
    found = write_evaluation(tmp_path / "eval")
    for name in ("one", "other"):
        write_report([summarize(found)], tmp_path / name)
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "other" / path.name).read_bytes(), path.name


@pytest.mark.slow
def test_several_evaluations_make_the_tables_of_the_paper(tmp_path: Path) -> None:
    paths = [
        write_evaluation(tmp_path / f"{label}-{name}", label=label, benchmark=name)
        for label in ("base", "trained")
        for name in ("first", "second")
    ]
    write_report([summarize(path) for path in paths], tmp_path / "report")
    text = (tmp_path / "report" / "report.md").read_text()
    assert "| model | method | first | second |" in text
    assert re.search(r"^\| trained \| high \| [\d.]+ \(37\.0\) \| [\d.]+ \(37\.0\) \|$", text, re.MULTILINE)


@pytest.mark.slow
def test_steps_of_training_make_a_figure_over_training(tmp_path: Path) -> None:
    paths = [write_evaluation(tmp_path / f"{step}", step=step, problems=20) for step in (0, 50, 100)]
    write_report([summarize(path) for path in paths], tmp_path / "report")
    assert "Emergent Correctness Rate" in (tmp_path / "report" / "made_up-training.svg").read_text()
    assert "| step |" in (tmp_path / "report" / "report.md").read_text()


def test_names_of_all_kinds_break_nothing(tmp_path: Path) -> None:
    label = "a$\\frac$b | <script>alert(1)</script>\nx"
    found = write_evaluation(tmp_path / "eval", problems=6, label=label)
    write_report([summarize(found)], tmp_path / "report", title=f"# {label}")
    text = (tmp_path / "report" / "report.md").read_text()
    assert "<script>" not in text
    assert not re.search(r"(?<!\\)\| <", text)
    assert "<script>alert" not in (tmp_path / "report" / "report.html").read_text()


def test_the_same_model_again_has_rows_of_its_own(tmp_path: Path) -> None:
    paths = [write_evaluation(tmp_path / name, problems=6) for name in ("one", "two")]
    write_report([summarize(path) for path in paths], tmp_path / "report")
    text = (tmp_path / "report" / "report.md").read_text()
    assert "| model (2) | low |" in text


def test_what_is_missing_is_told(tmp_path: Path) -> None:
    found = write_evaluation(tmp_path / "eval", problems=6)
    lines = (found / RESULTS).read_text().splitlines(keepends=True)
    (found / RESULTS).write_text("".join(line for line in lines if '"problem":"p5"' not in line))
    write_report([summarize(found)], tmp_path / "report")
    assert "4 of 5/6 problems" in (tmp_path / "report" / "report.md").read_text()


def test_an_evaluation_without_results_is_told(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match=r"cannot read .*eval\.json"):
        summarize(tmp_path)
    found = write_evaluation(tmp_path / "eval")
    for name in (RESULTS, VOTES):
        (found / name).write_text("")
    with pytest.raises(JournalError, match="no result yet"):
        summarize(found)


@pytest.mark.slow
@pytest.mark.skipif(chromium() is None, reason="needs Chromium")
def test_the_page_stands_by_itself_in_a_browser(tmp_path: Path) -> None:
    found = write_evaluation(tmp_path / "eval", label="<b>model</b>")
    write_report([summarize(found)], tmp_path / "report")
    page = tmp_path / "report" / "report.html"
    document = dom_of(page)
    assert document.count("<svg") == 3
    assert "&lt;b&gt;model&lt;/b&gt;" in document
    assert "<b>model</b>" not in document
    assert "Made up &lt;made_up&gt;" in document
    text = page.read_text()
    assert not re.findall(r'(?:src|href)="https?:', text), "the page must need no host"
    large = screenshot_of(page, tmp_path / "large.png")
    assert len(large) > 30_000, "an empty page is a small picture"
    assert screenshot_of(page, tmp_path / "small.png", size="400,2000") != large


LARGE = """
import sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from support.memory import peak_mib
begun = time.perf_counter()
from pacore.evals.report import write_report
from pacore.evals.summary import summarize
write_report([summarize(Path(sys.argv[1]))], Path(sys.argv[2]))
print(time.perf_counter() - begun, peak_mib())
"""


@pytest.mark.slow
def test_a_report_at_full_size_fits_into_little_memory(tmp_path: Path) -> None:
    found = write_evaluation(tmp_path / "eval", problems=400, runs=8, pool=512)
    tests = str(Path(__file__).parent.parent)
    command = [sys.executable, "-c", LARGE, str(found), str(tmp_path / "report"), tests]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert int(told[1]) < 500, "MiB"


@pytest.mark.slow
async def test_the_commands_report_and_list(tmp_path: Path) -> None:
    found = write_evaluation(tmp_path / "eval", problems=8)
    outcome = await pacore("eval", "report", str(found), "--out", "report", cwd=tmp_path)
    assert outcome.status == 0, outcome.err
    assert json.loads((tmp_path / "report" / "report.json").read_text())[0]["label"] == "model"
    listed = await pacore("eval", "benchmarks", cwd=tmp_path)
    assert "hmmt_feb_2025" in listed.out
    nothing = await pacore("eval", "report", "nowhere", "--out", "report", cwd=tmp_path)
    assert (nothing.status, "nowhere" in nothing.err) == (1, True)
