"""However pods and nodes were moved about, forked and undone: filters see what a cluster built so would show."""

from dataclasses import dataclass, field, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.predicates.volume_builders import DISKS, LOCAL, bound, cluster, disk, local, node, pod, uses, waiting
from windlass.engine.model import facts
from windlass.engine.model import settings as model_settings
from windlass.engine.predicates import node_volume_limits, volume_binding, volume_restrictions
from windlass.engine.snapshot import cluster_snapshot
from windlass.engine.snapshot.volume_usage import StorageFact

DRIVER = "disks.example.com"
CLAIMS = tuple("abcdef")
INLINE = tuple(
    facts.Volume("x", "gcePersistentDisk", identity=(name,), driver=DRIVER, handle=f"gce-{name}", read_only=read_only)
    for name in "xy"
    for read_only in (False, True)
)
NODES = tuple(node(f"n{i}") for i in range(4))
TEMPLATE = node("template")
STORED: tuple[StorageFact, ...] = (
    DISKS,
    LOCAL,
    *(bound(name, f"v-{name}", access_modes=("ReadWriteOncePod",) if name == "a" else ()) for name in "abc"),
    *(disk(f"v-{name}") for name in "abc"),
    bound("d", "v-c"),
    waiting("e"),
    waiting("f", "local"),
    local("v-f", "n1"),
    local("w-f", "new-1"),
    *(facts.CSINode(found.name, ((DRIVER, limit),)) for found, limit in zip(NODES, (1, 2, 3, 9), strict=True)),
    facts.VolumeAttachment("va", DRIVER, "n1", "v-b"),
    facts.VolumeAttachment("vb", DRIVER, "n2", "v-c"),
)
SPECS = st.lists(st.sampled_from((*map(uses, CLAIMS), *INLINE)), min_size=1, max_size=3).map(tuple)
ACTIONS = st.sampled_from(("fork", "commit", "revert", "append", "place", "lift", "bind"))
STEPS = st.lists(st.tuples(ACTIONS, SPECS, st.integers(0, 99)), max_size=25)


@dataclass
class Model:
    """Which pods are where, by name."""

    pods: dict[str, tuple[facts.Pod, str]]
    appended: int = 0
    older: list["Model"] = field(default_factory=list)

    def copy(self) -> "Model":
        return Model(dict(self.pods), self.appended, list(self.older))

    def build(self) -> cluster_snapshot.Snapshot:
        new = [replace(TEMPLATE, name=f"new-{i}", labels={facts.HOSTNAME: f"new-{i}"}) for i in range(self.appended)]
        pods = [replace(found, node_name=where) for found, where in self.pods.values()]
        return cluster(*NODES, *new, *STORED, *pods)


def step(
    seen: cluster_snapshot.Snapshot, model: Model, action: str, volumes: tuple[facts.Volume, ...], pick: int
) -> Model:
    """Do one thing to both, if it can be done."""
    real = [name for name in model.pods if not name.startswith("placed")]
    name = real[pick % len(real)]
    there = model.pods[name][1]
    node_row = pick % seen.nodes.count
    if action == "fork":
        seen.fork()
        model.older.append(model.copy())
    elif action in ("commit", "revert") and seen.forks:
        getattr(seen, action)()
        older = model.older.pop()
        return older if action == "revert" else model
    elif action == "append" and seen.forks and model.appended < 4:
        seen.append(TEMPLATE, [f"new-{model.appended}"])
        model.appended += 1
    elif action == "place":
        imagined = pod(*volumes, name=f"placed-{len(model.pods)}")
        seen.place(seen.shape_of(imagined), node_row)
        model.pods[imagined.name] = imagined, seen.nodes.names[node_row]
    elif action == "lift" and there:
        seen.unbind(seen.pods.rows[f"uid-{name}"])
        model.pods[name] = model.pods[name][0], ""
    elif action == "bind" and not there:
        seen.bind(seen.pods.rows[f"uid-{name}"], node_row)
        model.pods[name] = model.pods[name][0], seen.nodes.names[node_row]
    return model


def verdicts(seen: cluster_snapshot.Snapshot, waits: facts.Pod) -> dict[str, list[bool]]:
    found = {}
    for rule in (volume_restrictions, node_volume_limits, volume_binding):
        mask = rule.mask(seen, seen.shape_of(waits), model_settings.DEFAULT_FILTER_CONFIG)
        found[rule.NAME] = [True] * seen.nodes.count if mask is None else mask.tolist()
    return found


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(SPECS, st.integers(0, 3)), min_size=1, max_size=5), STEPS, SPECS)
def test_filters_see_what_a_cluster_built_so_would_show(
    there: list[tuple[tuple[facts.Volume, ...], int]],
    steps: list[tuple[str, tuple[facts.Volume, ...], int]],
    wanted: tuple[facts.Volume, ...],
) -> None:
    model = Model({f"r{i}": (pod(*volumes, name=f"r{i}"), f"n{row}") for i, (volumes, row) in enumerate(there)})
    seen = model.build()
    waits = pod(*wanted)
    for action, volumes, pick in steps:
        model = step(seen, model, action, volumes, pick)
        assert verdicts(seen, waits) == verdicts(model.build(), waits)
