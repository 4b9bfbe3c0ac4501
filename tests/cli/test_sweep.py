"""`windlass sweep` as a shell would run it: the table, the files, going on, and a Dask cluster."""

import json
from pathlib import Path

import pytest

from tests.cli.run import Outcome, windlass
from tests.sweep import command_process, sample_plans

pytestmark = pytest.mark.xdist_group("sweep")  # they share what is played once

TABLES = ("table.csv", "table.json", "report.html")
TRIED = ("--try", "--scale-down-unneeded-time=1m..3m:3", "--seeds", "2")
"""Six runs: beside them, most of the time goes into starting processes."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("sweep")
    (made / "tiny.yaml").write_text(sample_plans.TINY)
    return made


@pytest.fixture(scope="module")
def played(folder: Path) -> Outcome:
    return windlass("sweep", folder / "tiny.yaml", *TRIED, "--out", folder / "whole")


def tables(place: Path) -> list[str]:
    return [(place / name).read_text() for name in TABLES]


def test_the_table_says_what_is_better_and_what_to_paste(played: Outcome) -> None:
    assert played.code == 0, played.err
    assert "now  0" in played.out
    assert "Costs less, and pods wait no longer: settings" in played.out
    assert "  --scale-down-unneeded-time=1m\n" in played.out
    assert "6 of 6 runs" in played.err


def test_programs_get_the_same(played: Outcome, folder: Path) -> None:
    told = json.loads((folder / "whole" / "table.json").read_text())
    assert [item["number"] for item in told["settings"]] == [0, 1, 2]
    assert told["best"][0]["flags"] in played.out
    current, *others = told["settings"]
    assert current["flags"] == {"scale-down-unneeded-time": "2m"}
    assert current["differences"] == {}
    assert [entry["flags"]["scale-down-unneeded-time"] for entry in others] == ["1m", "3m"]
    assert [one["differences"]["cost"]["mean"] > 0 for one in others] == [False, True]
    assert len((folder / "whole" / "table.csv").read_text().splitlines()) == 4


def test_a_recorded_workload_is_swept_as_a_scenario_is(tmp_path: Path) -> None:
    (tmp_path / "pods.csv").write_text(
        "name,cpu_milli,memory_mib,num_gpu,gpu_spec,creation_time,deletion_time,scheduled_time\n"
        "one,2000,4096,0,,0,600,0\ntwo,4000,4096,0,,1200,1800,1200\n"
    )
    (tmp_path / "nodes.csv").write_text("sn,cpu_milli,memory_mib,gpu,model\nn1,8000,16384,0,\nn2,8000,16384,0,\n")
    tried = ("--try", "--scale-down-unneeded-time=1m", "--seeds", "2", "--processes", "1", "--out", tmp_path / "swept")
    outcome = windlass("sweep", "--trace", tmp_path, *tried)
    assert outcome.code == 0, outcome.err
    assert "4 runs to play" in outcome.err
    current, quicker = json.loads((tmp_path / "swept" / "table.json").read_text())["settings"]
    assert (current["flags"], quicker["flags"]) == (
        {"scale-down-unneeded-time": "10m"},
        {"scale-down-unneeded-time": "1m"},
    )
    assert quicker["differences"]["node_hours"]["mean"] < 0, "the node of the first pod goes before the second comes"


def test_the_page_needs_nothing_else(played: Outcome, folder: Path) -> None:
    page = (folder / "whole" / "report.html").read_text()
    assert "http://" not in page
    assert "https://" not in page
    assert page.count('class="mark') >= 3
    assert "default-src 'none'" in page


def test_the_same_command_takes_what_was_played(played: Outcome, folder: Path) -> None:
    before = tables(folder / "whole")
    again = windlass("sweep", folder / "tiny.yaml", *TRIED, "--out", folder / "whole", "-o", "csv")
    assert "6 runs were played before" in again.err
    assert again.out == before[0]
    assert tables(folder / "whole") == before


def test_other_arguments_do_not_go_into_the_same_folder(played: Outcome, folder: Path) -> None:
    outcome = windlass("sweep", folder / "tiny.yaml", *TRIED, "--seed", "9", "--out", folder / "whole")
    assert outcome.code == 2
    assert "a sweep of tiny with other arguments" in outcome.err


def test_ctrl_c_ends_it_cleanly_and_the_same_command_goes_on(folder: Path) -> None:
    ledger = folder / "long" / "runs.jsonl"
    for _ in range(2):
        before = command_process.count_lines(ledger)  # however far it came
        running = command_process.start_sweep(
            [folder / "tiny.yaml", *TRIED[:2], "--seeds", "60", "--out", folder / "long"]
        )
        command_process.wait_until(lambda before=before: command_process.count_lines(ledger) >= before + 3)  # type: ignore[misc]
        workers = command_process.find_workers(running.pid)
        code, said = command_process.interrupt(running)
        assert code == 130, said
        assert "of 180 runs are kept in" in said
        assert ("runs were played before" in said) == bool(before)
        assert "Traceback" not in said
        assert workers
        assert not any(map(command_process.is_running, workers))
    kept = [(item["settings"], item["seed"]) for item in map(json.loads, ledger.read_text().splitlines()[1:])]
    assert len(kept) == len(set(kept))
    assert not (folder / "long" / "table.csv").exists()


def test_what_was_cut_short_is_played_to_the_same_table(played: Outcome, folder: Path) -> None:
    (folder / "parts").mkdir()
    lines = (folder / "whole" / "runs.jsonl").read_text().splitlines(keepends=True)
    (folder / "parts" / "runs.jsonl").write_text("".join(lines[:5]) + lines[5][:40])
    outcome = windlass("sweep", folder / "tiny.yaml", *TRIED, "--out", folder / "parts", "--processes", "1")
    assert "4 runs were played before" in outcome.err
    assert "2 of 2 runs" in outcome.err
    assert tables(folder / "parts") == tables(folder / "whole")


def test_a_dask_cluster_gives_the_same_table(played: Outcome, folder: Path) -> None:
    with command_process.dask_cluster(folder, workers=2) as address:
        arguments: list[str | Path] = [folder / "tiny.yaml", *TRIED, "--out", folder / "dask", "--dask", address]
        running = command_process.start_sweep(arguments)
        out, said = running.communicate(timeout=command_process.PATIENCE_S)
    assert running.returncode == 0, said
    assert tables(folder / "dask") == tables(folder / "whole")
    assert out.replace(str(folder / "dask"), "") == played.out.replace(str(folder / "whole"), "")


def test_a_scheduler_that_does_not_answer_is_told_and_nothing_is_begun(folder: Path) -> None:
    address = f"tcp://127.0.0.1:{command_process.find_port()}"
    running = command_process.start_sweep(
        [folder / "tiny.yaml", *TRIED, "--out", folder / "nowhere", "--dask", address]
    )
    out, said = running.communicate(timeout=command_process.PATIENCE_S)
    assert (running.returncode, out) == (2, "")
    assert f"windlass: --dask {address}: no Dask scheduler answers there within 3 s" in said
    assert "Traceback" not in said
    assert not (folder / "nowhere").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nonsense", "--try", "--expander=price"], "nonsense: found no such file"),
        (["STORY"], "--try: found nothing to try"),
        (["STORY", "--try", "--no-such-flag=1,2"], "--no-such-flag: unknown flag"),
        (["STORY", "--try", "--scale-down-unneeded-time=20m..1m"], "found 1m as the end, accepted is more than 20m"),
        (["STORY", "--try", "--expander=price", "--seeds", "0"], "--seeds: found 0"),
        (["STORY", "--try", "--expander=price", "--processes", "0"], "--processes: found 0"),
        (["STORY", "--try", "--expander=price", "--processes", "2", "--dask", "x:1"], "accepted is one of both"),
        (["STORY", "--try", "--expander=price", "--compress", "2"], "--compress: found without --trace"),
        (["--try", "--expander=price"], "SCENARIO, --trace: found none"),
        (["STORY", "--trace", "STORY", "--try", "--expander=price"], "SCENARIO, --trace: found both"),
    ],
)
def test_what_cannot_be_used_is_refused_before_anything_runs(
    folder: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], said: str
) -> None:
    place = folder / "nothing"
    place.mkdir(exist_ok=True)
    monkeypatch.chdir(place)
    outcome = windlass("sweep", *(str(folder / "tiny.yaml") if item == "STORY" else item for item in arguments))
    assert (outcome.code, outcome.out) == (2, "")
    assert said in outcome.err
    assert list(place.iterdir()) == []
