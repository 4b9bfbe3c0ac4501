"""Compiled code of one expression node, and the generator protocol by which node builders request other nodes' code."""

from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from windlass.cel import costs, parser
from windlass.cel.checker import Issue, RecordType
from windlass.cel.values import Value

Variables: TypeAlias = Mapping[str, Value]
Step: TypeAlias = Callable[[Variables], Value]


@dataclass(frozen=True, slots=True)
class Code:
    """A node as a function of the variables."""

    step: Step
    cost: int = 0
    """The fixed cost of an evaluation. It is charged by the parent node."""
    more: int | None = 0
    """Upper bound of further costs; None if it depends on the input."""
    is_constant: bool = False
    type: str = ""
    """The static type of its value: see `checker`."""

    @property
    def most(self) -> int | None:
        """Upper bound of the cost of the node."""
        return None if self.more is None else self.cost + self.more

    def charged(self, scope: "Scope") -> Step:
        """The step, charging its fixed cost if costs are counted."""
        if not self.cost or not scope.is_metered:
            return self.step
        step, cost = self.step, self.cost

        def evaluate(variables: Variables) -> Value:
            charge(variables, cost)
            return step(variables)

        return evaluate


@dataclass(frozen=True, slots=True)
class Scope:
    """The scope of a node: the names in it, and whether costs are counted."""

    names: frozenset[str]
    is_metered: bool = True
    bound: frozenset[str] = frozenset()
    """Names whose value may be an error, which is raised where the name is used."""
    records: Mapping[str, RecordType] = field(default_factory=dict)
    """Types of variables with known fields, by name."""
    issues: list[Issue] = field(default_factory=list)
    """Issues of the expression so far. All scopes of an expression share the list."""

    def add(self, *names: str) -> "Scope":
        return self._with(names, self.bound - frozenset(names))

    def bind(self, name: str) -> "Scope":
        return self._with((name,), self.bound | {name})

    def _with(self, names: tuple[str, ...], bound: frozenset[str]) -> "Scope":
        """The scope with these names bound anew."""
        records = {name: known for name, known in self.records.items() if name not in names}
        return replace(self, names=self.names | frozenset(names), bound=bound, records=records)


BuildRequest: TypeAlias = tuple[parser.Node, Scope]
Builder: TypeAlias = Generator[BuildRequest, Code, Code]
"""Yields nodes, with their scopes; is sent their code; returns the code of its own node.

So trees of any depth are built without recursion.
"""


def charge(variables: Variables, cost: int) -> None:
    variables[costs.METER_KEY].charge(cost)


def build_all(nodes: Iterable[parser.Node], scope: Scope) -> Generator[BuildRequest, Code, list[Code]]:
    """The code of several nodes."""
    made: list[Code] = []
    for node in nodes:
        code = yield node, scope
        made.append(code)
    return made


def sum_costs(costs: Iterable[int | None]) -> int | None:
    """The sum, or None if one of the costs is unknown."""
    total = 0
    for cost in costs:
        if cost is None:
            return None
        total += cost
    return total
