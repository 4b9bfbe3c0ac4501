"""Random pods that rules disagree about, and random contexts to judge them in."""

from dataclasses import replace

from hypothesis import strategies as st

from tests.engine.drainability import builders
from windlass.engine.drainability import context
from windlass.engine.model import facts, node_groups, well_known

SYSTEM = "kube-system"
SCRATCH = facts.PodSpec(volumes=(facts.Volume("scratch", "emptyDir"),))
LOCAL_VOLUMES = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"

selectors = st.sampled_from(
    [
        node_groups.DrainedPodSelector(),
        node_groups.DrainedPodSelector(builders.labelled(app="web")),
        node_groups.DrainedPodSelector(namespace=builders.labelled(team="a")),
    ]
)
drain_rules = st.builds(
    lambda rules, unreadable: builders.rules_on_n0(*rules, unreadable=unreadable),
    st.lists(
        st.builds(
            lambda behavior, pods: node_groups.MachineDrainRule("capi", behavior, behavior, pods=tuple(pods)),
            st.sampled_from(facts.DrainBehavior),
            st.lists(selectors, max_size=2),
        ),
        max_size=2,
    ),
    st.sampled_from(["", "", "", "not readable"]),
)
contexts = st.builds(
    lambda replicas, listed, allowed, **options: builders.context(
        *[facts.Controller("ReplicaSet", "default", "web", replicas=r) for r in replicas],
        listed=listed,
        budgets=tuple(
            replace(builders.budget(number, app="web"), allows_unhealthy=lets_unhealthy_go)
            for number, lets_unhealthy_go in allowed
        ),
        **options,
    ),
    replicas=st.lists(st.integers(0, 5), max_size=1),
    listed=st.booleans(),
    allowed=st.lists(st.tuples(st.integers(0, 2), st.booleans()), max_size=2),
    spares_unhealthy=st.booleans(),
    respect_machine_drain_rules=st.booleans(),
    drain_rules=st.one_of(st.just(context.NO_DRAIN_RULES), drain_rules),
    skip_system_pods=st.booleans(),
    skip_local_storage=st.booleans(),
    skip_custom_controllers=st.booleans(),
    min_replicas=st.integers(0, 3),
)
pods = st.builds(
    lambda annotations, **changes: builders.pod(
        annotations={key: value for key, value in annotations.items() if value is not None}, **changes
    ),
    annotations=st.fixed_dictionaries(
        {
            well_known.SAFE_TO_EVICT_ANNOTATION: st.sampled_from([None, "true", "false", "on-completion", "maybe"]),
            well_known.DAEMONSET_POD_ANNOTATION: st.sampled_from([None, None, "true"]),
            well_known.MIRROR_ANNOTATION: st.sampled_from([None, None, None, "m"]),
            LOCAL_VOLUMES: st.sampled_from([None, "scratch", " scratch"]),
        }
    ),
    name=st.sampled_from(["p0", "p1", "p2"]),
    namespace=st.sampled_from(["default", SYSTEM]),
    owner=st.sampled_from([None, builders.REPLICA_SET, facts.Owner("apps/v1", "DaemonSet", "agent", "u")]),
    spec=st.sampled_from([facts.PodSpec(), SCRATCH]),
    phase=st.sampled_from(["Running", "Running", "Succeeded", "Failed"]),
    restart_policy=st.sampled_from(["Always", "Never"]),
    created_s=st.sampled_from([0.0, builders.NOW_S - 100, builders.NOW_S - 7200]),
    deleted_s=st.sampled_from([None, None, builders.NOW_S - 10, builders.NOW_S - 100]),
    health=st.sampled_from(facts.PodHealth),
    drain_behavior=st.sampled_from(facts.DrainBehavior),
)
