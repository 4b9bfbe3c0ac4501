"""Matching: what we wished against what the other did, within a window of time.

Wishes repeat: as long as the other does not act, every decision of ours wants the same again. So sizes are compared as
levels. For each group there is at most one open question, from the first wish or deed on: which size did we want, which
did the other set? It is answered as soon as both are equal, or when the window is over; one wish may so be answered by
several deeds. For each node there is one question, too: who wanted it gone? What is left open on one side only is held
against what is left open on the other side only: another group, or another node of the same group.

A difference is told once; the wish behind it is not told again while it stands unchanged.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from windlass.autoscaler.shadow.deeds import Deed, Marked, Resized
from windlass.autoscaler.shadow.verdicts import Direction, Kind, Verdict
from windlass.autoscaler.shadow.wishes import Grow, Reluctance, Remove, Wish


@dataclass(frozen=True, slots=True)
class Question:
    """One group that someone raises, or one node that someone removes."""

    subject: str
    group: str
    opened_s: float
    from_size: int = 0
    wanted: int = 0
    """The size that we want at most, and the one that the other has set; of a node, 0 or 1."""
    done: int = 0
    wished_s: float | None = None
    """When we wished it first."""
    done_s: float | None = None
    """When the other did it last."""
    ours: str = ""
    theirs: str = ""

    @property
    def lead_s(self) -> float | None:
        return None if self.wished_s is None or self.done_s is None else self.done_s - self.wished_s

    def wish(self, level: int, at_s: float, why: str) -> "Question":
        first_s = at_s if self.wished_s is None else self.wished_s
        return replace(self, wanted=max(self.wanted, level), wished_s=first_s, ours=why)

    def do(self, level: int, at_s: float, ours: str, theirs: str) -> "Question":
        ours = self.ours if self.wished_s is not None else ours
        return replace(self, done=max(self.done, level), done_s=at_s, ours=ours, theirs=theirs or self.theirs)


@dataclass(frozen=True, slots=True)
class Book:
    """What is open, and what was told and still stands."""

    groups: Mapping[str, Question] = field(default_factory=dict)
    nodes: Mapping[str, Question] = field(default_factory=dict)
    told_groups: Mapping[str, Question] = field(default_factory=dict)
    told_nodes: Mapping[str, Question] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Turn:
    """What happened since the last time, and now."""

    deeds: tuple[Deed, ...]
    wishes: tuple[Wish, ...]
    reluctance: Reluctance
    """Why we had not done what the other did: from the decision before, which had not seen it yet."""
    theirs: Mapping[str, str] = field(default_factory=dict)
    """What the other said, by group or node."""
    silence: Mapping[str, str] = field(default_factory=dict)
    """Why the other did nothing for a pod, by namespace/name."""
    now_s: float = 0.0


def settle(book: Book, turn: Turn, window_s: float) -> tuple[Book, tuple[Verdict, ...]]:
    """Enter deeds and wishes, and answer what can be answered."""
    page = _Page(book, turn)
    for deed in turn.deeds:
        page.enter_deed(deed)
    for wish in turn.wishes:
        page.enter_wish(wish)
    page.forget_told(turn.wishes)
    page.answer(window_s)
    return Book(page.groups, page.nodes, page.told_groups, page.told_nodes), tuple(page.verdicts)


def close(book: Book, now_s: float) -> tuple[Verdict, ...]:
    """Answer everything that is open, at the end."""
    return settle(book, Turn((), (), Reluctance(), now_s=now_s), 0.0)[1]


class _Page:
    """The book while one turn is entered."""

    def __init__(self, book: Book, turn: Turn) -> None:
        self.groups, self.nodes = dict(book.groups), dict(book.nodes)
        self.told_groups, self.told_nodes = dict(book.told_groups), dict(book.told_nodes)
        self.verdicts: list[Verdict] = []
        self._turn = turn

    def enter_deed(self, deed: Deed) -> None:
        match deed:
            case Resized(group, from_size, to_size, at_s) if to_size > from_size:
                ours = self._turn.reluctance.of_group(group)
                told = self.told_groups.pop(group, None)
                fresh = Question(group, group, at_s, from_size, from_size, from_size)
                theirs = self._turn.theirs.get(group, "")
                if told is not None and to_size == told.wanted:
                    rest = replace(told, from_size=from_size)  # what was done before was told before
                    self._tell(Direction.UP, Kind.LATE, rest.do(to_size, at_s, ours, theirs))
                    return
                self.groups[group] = self.groups.get(group, fresh).do(to_size, at_s, ours, theirs)
            case Marked(node, group, at_s):
                ours, theirs = self._turn.reluctance.of_node(node), self._turn.theirs.get(node, "")
                told = self.told_nodes.pop(node, None)
                if told is not None:
                    self._tell(Direction.DOWN, Kind.LATE, told.do(1, at_s, ours, theirs))
                    return
                self.nodes[node] = self.nodes.get(node, Question(node, group, at_s)).do(1, at_s, ours, theirs)

    def enter_wish(self, wish: Wish) -> None:
        match wish:
            case Grow(group, from_size, to_size, at_s, why, pods):
                told = self.told_groups.get(group)
                if told is not None and told.wanted == to_size:
                    return
                self.told_groups.pop(group, None)
                fresh = Question(group, group, at_s, from_size, from_size, from_size)
                question = self.groups.get(group, fresh).wish(to_size, at_s, why)
                silence = next((self._turn.silence[pod] for pod in pods if pod in self._turn.silence), "")
                self.groups[group] = replace(question, theirs=question.theirs or silence)
            case Remove(node, group, at_s, why) if node not in self.told_nodes:
                self.nodes[node] = self.nodes.get(node, Question(node, group, at_s)).wish(1, at_s, why)

    def forget_told(self, wishes: Iterable[Wish]) -> None:
        """What is not wished any more may be told again when it is."""
        subjects = {wish.group if isinstance(wish, Grow) else wish.node for wish in wishes}
        self.told_groups = {group: told for group, told in self.told_groups.items() if group in subjects}
        self.told_nodes = {node: told for node, told in self.told_nodes.items() if node in subjects}

    def answer(self, window_s: float) -> None:
        for open_ones, direction in ((self.groups, Direction.UP), (self.nodes, Direction.DOWN)):
            for subject, question in list(open_ones.items()):
                if question.wanted == question.done:
                    self._tell(direction, Kind.AGREED, open_ones.pop(subject))
            for subject, question in list(open_ones.items()):
                if subject in open_ones and self._turn.now_s - question.opened_s >= window_s:
                    self._differ(direction, open_ones.pop(subject), open_ones)

    def _differ(self, direction: Direction, question: Question, open_ones: dict[str, Question]) -> None:
        kind = _classify(question)
        if kind is not Kind.OTHER_SIZE and (other := _find_opposite(direction, question, kind, open_ones)):
            del open_ones[other.subject]
            ours, theirs = (question, other) if kind is Kind.ONLY_WINDLASS else (other, question)
            merged = replace(ours, done=ours.from_size + theirs.done - theirs.from_size, done_s=theirs.done_s)
            merged = replace(merged, theirs=theirs.theirs or ours.theirs)
            self._tell(direction, Kind.OTHER_CHOICE, merged, theirs.subject)
            question = ours
        else:
            self._tell(direction, kind, question)
        if question.wished_s is not None:
            (self.told_groups if direction is Direction.UP else self.told_nodes)[question.subject] = question

    def _tell(self, direction: Direction, kind: Kind, question: Question, instead: str = "") -> None:
        wanted, done = question.wanted - question.from_size, question.done - question.from_size
        told = (question.ours, question.theirs, self._turn.now_s, question.lead_s, instead)
        self.verdicts.append(Verdict(direction, kind, question.subject, wanted, done, *told))


def _classify(question: Question) -> Kind:
    if question.wanted > question.from_size and question.done > question.from_size:
        return Kind.OTHER_SIZE
    return Kind.ONLY_WINDLASS if question.wanted > question.from_size else Kind.ONLY_OTHER


def _find_opposite(
    direction: Direction, question: Question, kind: Kind, open_ones: Mapping[str, Question]
) -> Question | None:
    """A question that only the other side has answered: of another group, or of another node of the group."""
    wanted = {Kind.ONLY_WINDLASS: Kind.ONLY_OTHER, Kind.ONLY_OTHER: Kind.ONLY_WINDLASS}[kind]
    for other in open_ones.values():
        if _classify(other) is wanted and (direction is Direction.UP or other.group == question.group):
            return other
    return None
