"""`windlass simulate` as a shell would run it: small stories from the file to the table and the page."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.cli.run import windlass

STORY = """
name: small
story: Web grows, and shrinks again.
seed: 4
duration: 40m
flags: {scale-down-unneeded-time: 2m, scale-down-delay-after-add: 2m}
groups:
  - {name: general, zones: [a, b], min: 1, max: 6, capacity: {cpu: 4, memory: 16Gi}, price: 0.2, boot: 30s}
workloads:
  - {name: web, replicas: 2, requests: {cpu: 1, memory: 1Gi}}
timeline:
  - {at: 5m, do: scale, workload: web, to: 14}
  - {at: 20m, do: scale, workload: web, to: 2}
expect:
  - {measure: violations, at_most: 0}
  - {measure: most_nodes, at_least: 4}
"""


@pytest.fixture
def story(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(STORY)
    return path


class _Links(HTMLParser):
    """Everything in a page that would be fetched."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [f"{tag} {name}" for name, _ in attrs if name in ("src", "href", "srcset", "data", "action")]


def test_a_story_is_played_to_a_table_and_a_page(story: Path) -> None:
    outcome = windlass("simulate", story, "--report", story.with_name("page.html"))
    assert outcome.code == 0, outcome.err
    for words in ("pending time, p95", "× the lower bound of", "utilization, cpu", "evictions", "churn", "resizes"):
        assert words in outcome.out
    assert "✓ most_nodes: found" in outcome.out
    assert f"report: {story.with_name('page.html')}" in outcome.out
    assert re.search(r"small: 00:40 h in [\d.]+ s, [\d,]+× real time", outcome.err)
    page = story.with_name("page.html").read_text()
    assert re.search(r"scale up general-[ab] 1→", page)
    assert "unschedulable" in page
    assert "scale down general-" in page


def test_the_page_needs_nothing_else(story: Path) -> None:
    windlass("simulate", story, "--report", story.with_name("page.html"))
    page = story.with_name("page.html").read_text().replace("http://www.w3.org/2000/svg", "")  # a name, not a place
    links = _Links()
    links.feed(page)
    assert links.found == []
    assert "http://" not in page
    assert "https://" not in page


def test_two_runs_give_the_same_bytes_and_another_seed_may_not(story: Path) -> None:
    first, second = (story.with_name(name) for name in ("one.html", "two.html"))
    told = [windlass("simulate", story, "--report", page).out.replace(page.name, "") for page in (first, second)]
    assert told[0] == told[1]
    assert first.read_bytes() == second.read_bytes()


def test_an_expectation_that_is_not_met_fails(story: Path) -> None:
    outcome = windlass("simulate", story, "--set", "groups.general.max=1", "--report", "")
    assert outcome.code == 1
    assert "✗ most_nodes: found 2, expected at least 4" in outcome.out
    assert "report:" not in outcome.out


def test_settings_are_played_side_by_side(story: Path) -> None:
    page = story.with_name("page.html")
    outcome = windlass("simulate", story, "--compare", "--scale-down-enabled=false", "--report", page)
    assert outcome.code == 0
    assert "A  as written" in outcome.out
    assert "B  --scale-down-enabled=false" in outcome.out
    (hours,) = (line.split()[1:] for line in outcome.out.splitlines() if line.startswith("node-hours"))
    assert float(hours[1]) > float(hours[0])
    assert "Side by side" in page.read_text()


def test_json_tells_programs_the_same(story: Path) -> None:
    outcome = windlass("simulate", story, "-o", "json", "--report", "")
    (told,) = json.loads(outcome.out)
    assert told["scenario"] == "small"
    assert told["totals"]["most_nodes"] >= 4
    assert {item["kind"] for item in told["decisions"]} >= {"up", "down"}
    assert all(entry["isMet"] for entry in told["expectations"])


def test_a_bad_story_is_refused_before_anything_starts(story: Path) -> None:
    story.write_text(STORY.replace("max: 6", "max: 0").replace("name: web, replicas", "name: web, copies"))
    outcome = windlass("simulate", story)
    assert (outcome.code, outcome.out) == (2, "")
    assert f"{story}:10: workloads[0].copies" in outcome.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nonsense"], "nonsense: found no such file, accepted is a file or one of"),
        (["STORY", "--compare", "expander=price"], "--compare: found 'expander=price', accepted are flags"),
        (["STORY", "--compare", "--expander=nice"], "--expander"),
        (["STORY", "--compare", "--no-such-flag=1"], "no-such-flag"),
        (["STORY", "--set", "groups.other.max=1"], "--set groups.other.max=1: found 'other', accepted is general"),
        (["STORY", "--set", "groups"], "--set: found 'groups', accepted is path.of.field=value"),
        (["STORY", "--compress", "3"], "--compress: found without --trace"),
        (["--trace", "EMPTY"], "found no pods.csv"),
    ],
)
def test_what_cannot_be_used_is_told(story: Path, arguments: list[str], said: str) -> None:
    replaced = {"STORY": str(story), "EMPTY": str(story.parent)}
    outcome = windlass("simulate", *(replaced.get(item, item) for item in arguments))
    assert (outcome.code, outcome.out) == (2, "")
    assert said in outcome.err


def test_without_a_story_those_that_come_along_are_listed() -> None:
    outcome = windlass("simulate")
    assert outcome.code == 0
    assert re.search(r"^day +A shop's day", outcome.out, re.MULTILINE)
    assert len(re.findall(r"^[a-z]", outcome.out, re.MULTILINE)) >= 8


def test_a_recorded_workload_is_held_against_its_own_cluster(tmp_path: Path) -> None:
    (tmp_path / "pods.csv").write_text(
        "name,cpu_milli,memory_mib,num_gpu,gpu_spec,creation_time,deletion_time,scheduled_time\n"
        "one,2000,4096,0,,0,7200,0\ntwo,4000,4096,1,T4,14400,18000,14400\n"
    )
    (tmp_path / "nodes.csv").write_text(
        "sn,cpu_milli,memory_mib,gpu,model\nn1,8000,16384,2,T4\nn2,8000,16384,2,T4\nn3,4000,8192,0,\n"
    )
    outcome = windlass("simulate", "--trace", tmp_path, "--compress", "2", "--report", tmp_path / "page.html")
    assert outcome.code == 0, outcome.err
    assert re.search(r"fixed cluster +24.0  3 nodes all the time; \d\d\.\d% of that is saved", outcome.out)
    assert "m8-16-2xt4" in (tmp_path / "page.html").read_text()


def test_a_comparison_has_differences_and_says_where_there_are_none(story: Path) -> None:
    compared = ("--compare", "--scale-down-enabled=false", "--compare", "--max-nodes-total=1000")
    outcome = windlass("simulate", story, *compared, "--report", "")
    (head,) = (line for line in outcome.out.splitlines() if line.split() == ["A", "B", "B-A", "C", "C-A"])
    rows = {line.rpartition("  ")[0].split("  ")[0]: line for line in outcome.out.splitlines()}
    assert rows["node-hours"].rstrip().endswith("=")
    assert re.search(r"\+\d+\.\d%", rows["node-hours"])
    assert len(rows["node-hours"]) <= len(head)
    assert "C: no difference: every figure and every decision is as in A" in outcome.out
    assert "B: no difference" not in outcome.out
    assert outcome.out.count("expectations are met") == 3


def test_decisions_are_counted_as_they_are_listed(story: Path) -> None:
    told = json.loads(windlass("simulate", story, "-o", "json", "--report", "").out)[0]["decisions"]
    (row,) = (line for line in windlass("simulate", story, "--report", "").out.splitlines() if "decisions" in line)
    assert int(row.split()[1]) == len(told)
