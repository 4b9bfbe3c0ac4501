"""Recorded answers of kube-scheduler and Cluster Autoscaler: a sample always, all of them where they lie beside us.

Verdicts of kube-scheduler are in one folder for each release.

`tests.conformance.RUNNERS` says what can be judged; every file that has a runner is one test here.
"""

from pathlib import Path

import pytest

from tests.conformance.__main__ import FILTER_TOPICS, RUNNERS, find_runner
from windlass import scheduler_releases

SAMPLE = Path(__file__).parent / "data" / "vectors"
ALL = Path(__file__).parents[2] / "shared" / "vectors"


RELEASES = {"scheduler": scheduler_releases.OLDEST_RELEASE, "scheduler-1.37": scheduler_releases.NEWEST_RELEASE}
"""By folder."""


def find_files(folder: Path) -> list[Path]:
    """The files of a folder of vectors for which there is a runner."""
    topics = [folder / release / f"{topic}.jsonl.gz" for release in RELEASES for topic in FILTER_TOPICS]
    tables = [folder / "tables" / f"{name}.json" for name in RUNNERS if name not in FILTER_TOPICS]
    single = [folder / "controllers" / f"{name}.json" for name in RUNNERS if name not in FILTER_TOPICS]
    stories = sorted(path for path in folder.glob("machinepool/*.json") if path.stem != "common")
    scenarios = sorted(folder.glob("autoscaler*/*.jsonl.gz"))
    return [path for path in topics + tables + single + stories + scenarios if path.exists()]


def check(path: Path) -> None:
    runner = find_runner(path, RELEASES.get(path.parent.name, scheduler_releases.DEFAULT_RELEASE))
    assert runner is not None
    outcomes = list(runner(path))
    assert [f"{outcome.name}: {text}" for outcome in outcomes for text in outcome.differences] == []
    assert sum(one.agreed for one in outcomes) == sum(one.total for one in outcomes) > 0


def to_text(path: Path) -> str:
    return f"{path.parent.name}/{path.name.split('.')[0]}"


@pytest.mark.parametrize("path", find_files(SAMPLE), ids=to_text)
def test_the_sample_is_answered_as_recorded(path: Path) -> None:
    check(path)


def test_the_sample_holds_every_filter_topic_and_most_tables() -> None:
    sampled = {path.name.split(".")[0] for path in find_files(SAMPLE)}
    for folder in RELEASES:
        assert {path.name.split(".")[0] for path in (SAMPLE / folder).iterdir()} == set(FILTER_TOPICS)
    assert sampled >= {*FILTER_TOPICS, "drain_rules", "drain_chain", "estimator", "expanders", "similarity",
                       "balancing", "quotas", "utilization", "equivalence", "removal_simulation",
                       "budget_tracker"}  # fmt: skip


@pytest.mark.skipif(not ALL.is_dir(), reason="NOT JUDGED: the recorded vectors are not at ../shared/vectors")
def test_every_folder_of_recorded_answers_is_judged() -> None:
    folders = {path.parent.name for path in find_files(ALL)}
    assert folders >= {"autoscaler", "autoscaler-more", "tables", "controllers", "machinepool", *RELEASES}


@pytest.mark.skipif(not ALL.is_dir(), reason="NOT JUDGED: the recorded vectors are not at ../shared/vectors")
@pytest.mark.parametrize("path", find_files(ALL) or [ALL], ids=to_text)
def test_every_recorded_answer_is_given(path: Path) -> None:
    check(path)
