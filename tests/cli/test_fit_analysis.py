"""Counted with arrays, the reasons are those that the engine gives node by node."""

from collections import Counter
from pathlib import Path

import pytest

from tests.conformance import objects
from tests.conformance.outcome import read_lines
from windlass.autoscaler.readers import cluster_dump
from windlass.cli import fit_analysis
from windlass.engine.model import settings
from windlass.engine.predicates import registry

VECTORS = Path(__file__).parents[2] / ".." / "shared" / "vectors" / "scheduler"
CASES = 40


@pytest.mark.skipif(not VECTORS.exists(), reason="recorded vectors are not here")
@pytest.mark.parametrize("topic", ["mixed", "resources", "spread", "interpod", "volumes"])
def test_recorded_clusters_are_summed_up_as_the_engine_does(topic: str) -> None:
    for case, _ in zip(read_lines(VECTORS / f"{topic}.jsonl.gz"), range(CASES), strict=False):
        snapshot = cluster_dump.build_snapshot(cluster_dump.read_objects(case["objects"]))
        for json in case["pending"]:
            shape = snapshot.shape_of(objects.pod(json, pending=True))
            judgement = registry.diagnose(snapshot, shape, settings.DEFAULT_FILTER_CONFIG)
            judged = fit_analysis.analyze_shape(snapshot, shape, settings.DEFAULT_FILTER_CONFIG, each=True)

            assert judged.message == judgement.summary()
            refused = [verdict for verdict in judged.verdicts if not verdict.fits]
            assert len(refused) + len(judged.fits) == judged.nodes == len(snapshot.nodes.rows)
            counted = Counter(text for verdict in refused for text in verdict.reasons)
            assert counted == {reason.reason: reason.count for reason in judged.reasons}
