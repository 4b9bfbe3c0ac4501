"""Compiled code of one expression node, and the generator protocol by which node builders request code of other nodes."""

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
    """What is always spent when the node is evaluated. It is charged by the node around it."""
    more: int | None = 0
    """What may be spent beyond that, at most; None if only the input can tell."""
    is_constant: bool = False
    type: str = ""
    """What is known of the type of its value: see `types`."""

    @property
    def most(self) -> int | None:
        """What evaluating the node costs at most."""
        return None if self.more is None else self.cost + self.more

    def charged(self, scope: "Scope") -> Step:
        """The step, paying for itself where costs are counted."""
        if not self.cost or not scope.is_metered:
            return self.step
        step, cost = self.step, self.cost

        def evaluate(variables: Variables) -> Value:
            charge(variables, cost)
            return step(variables)

        return evaluate


@dataclass(frozen=True, slots=True)
class Scope:
    """Where a node stands: the names that it may use, and whether costs are counted there."""

    names: frozenset[str]
    is_metered: bool = True
    bound: frozenset[str] = frozenset()
    """Names whose value may be an error, which is one only where the name is used."""
    records: Mapping[str, RecordType] = field(default_factory=dict)
    """By name, the types of variables whose fields are known."""
    issues: list[Issue] = field(default_factory=list)
    """What is wrong with the expression, as far as it is built. All scopes of an expression share it."""

    def add(self, *names: str) -> "Scope":
        return self._with(names, self.bound - frozenset(names))

    def bind(self, name: str) -> "Scope":
        return self._with((name,), self.bound | {name})

    def _with(self, names: tuple[str, ...], bound: frozenset[str]) -> "Scope":
        """The scope in which these names mean something else."""
        records = {name: known for name, known in self.records.items() if name not in names}
        return replace(self, names=self.names | frozenset(names), bound=bound, records=records)


BuildRequest: TypeAlias = tuple[parser.Node, Scope]
Builder: TypeAlias = Generator[BuildRequest, Code, Code]
"""Yields nodes, with their scopes; is sent their code; returns the code of its own node.

So trees are built without recursion, however deep they are.
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
    """The sum, if all of it is known."""
    total = 0
    for cost in costs:
        if cost is None:
            return None
        total += cost
    return total
