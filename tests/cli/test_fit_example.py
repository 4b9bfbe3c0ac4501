"""The example cluster, compared word for word with what is kept in `data`.

After a change that is wanted: `python -m tests.cli.test_fit_example` writes the files anew; read the difference.
"""

import json
from pathlib import Path

import pytest

from tests.cli.run import DATA, EXAMPLE, windlass

GOLDEN: dict[str, tuple[str | Path, ...]] = {
    "cluster.txt": (EXAMPLE,),
    "cluster.json": (EXAMPLE, "-o", "json"),
    "explain.txt": (EXAMPLE, "--explain", "cart-7c5-2"),
    "explain.json": (EXAMPLE, "--explain", "data/queue-2", "-o", "json"),
    "verbose.txt": (EXAMPLE, "-v"),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_the_example_reads_as_kept(name: str) -> None:
    outcome = windlass("fit", *GOLDEN[name])

    assert outcome.code == 0
    assert outcome.out == (DATA / name).read_text()
    assert outcome.err == (DATA / "cluster.err.txt").read_text()


@pytest.mark.parametrize("name", ["cluster.txt", "cluster.err.txt", "explain.txt", "verbose.txt"])
def test_it_fits_a_terminal_of_a_hundred_columns(name: str) -> None:
    assert max(len(line) for line in (DATA / name).read_text().splitlines()) <= 100


def test_what_the_example_promises_is_there() -> None:
    report = json.loads(windlass("fit", EXAMPLE, "-o", "json").out)
    reasons = {finding["pod"]: {reason["rule"] for reason in finding["reasons"]} for finding in report["pending"]}
    fits = {finding["pod"] for finding in report["pending"] if finding["fits"]}

    assert fits == {"shop/web-5d8-2", "lab/notebook"}
    assert "NodeResourcesFit" in reasons["data/report"]
    assert "TaintToleration" in reasons["lab/train-1"]
    assert "PodTopologySpread" in reasons["shop/cart-7c5-2"]
    assert "InterPodAffinity" in reasons["data/queue-2"]
    assert "VolumeBinding" in reasons["data/db-0"]
    assert "NodeAffinity" in reasons["shop/search"]
    assert [(item["kind"], item["name"]) for item in report["set_aside"]] == [("Pod", "shop/mail")]


if __name__ == "__main__":
    for golden, arguments in GOLDEN.items():
        (DATA / golden).write_text(windlass("fit", *arguments).out)
    (DATA / "cluster.err.txt").write_text(windlass("fit", EXAMPLE).err)
