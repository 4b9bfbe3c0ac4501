"""Explaining over HTTP: what the next loop makes of a pod, a node, a group or the cluster, between two loops.

/explain/pod/<namespace>/<name>    /explain/node/<name>    /explain/group/<id>    /statusz

JSON, or text with ?output=text. Whoever does not lead has no memory to answer from, and says so (503).
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

from aiohttp import web

from windlass import errors, unexpected
from windlass.engine.memory import Memory
from windlass.engine.observation import Observation
from windlass.engine.settings import Settings
from windlass.explain import choices, document, look, questions
from windlass.explain.nodes import NodeAccount
from windlass.explain.pods import PodAccount
from windlass.explain.questions import About, Question

T = TypeVar("T")

EXPLAIN_PATH = "/explain/"
STATUS_PATH = "/statusz"

_PATHS = {
    About.POD: f"{EXPLAIN_PATH}pod/{{namespace}}/{{name}}",
    About.NODE: f"{EXPLAIN_PATH}node/{{name}}",
    About.GROUP: f"{EXPLAIN_PATH}group/{{name:.+}}",
    About.CLUSTER: STATUS_PATH,
}


_KINDS = {About.POD: "Pod", About.NODE: "Node"}


class Answering(Protocol):
    """Someone who decides, and can be asked between two decisions."""

    @property
    def past(self) -> Mapping[str, choices.Past]:
        """Why groups grew the last time."""

    @property
    def set_aside(self) -> Sequence[errors.InvalidObject]:
        """Objects that cannot be read, or not in full."""

    async def ask(self, question: Callable[[Observation, Memory, Settings, float], T]) -> T:
        """WindlassError if there is nothing to answer from."""


def path_of(question: Question) -> str:
    """Where the question is answered."""
    return _PATHS[question.about].replace(":.+", "").format(namespace=question.namespace, name=question.name)


def add_routes(app: web.Application, asked: Answering) -> None:
    """Serve answers."""
    for about, path in _PATHS.items():
        app.router.add_get(path, _make_handler(about, asked))


def _look(asked: Answering, moment: tuple[Observation, Memory, Settings, float]) -> look.Look:
    return replace(look.take(*moment), past=asked.past)


def _make_handler(about: About, asked: Answering) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def handle(request: web.Request) -> web.Response:
        found = request.match_info
        question = Question(about, found.get("name", ""), found.get("namespace", ""))
        wants_text = request.query.get("output") == "text"
        try:
            answer = await asked.ask(lambda *moment: questions.answer(question, _look(asked, moment)))
            return _respond(_add_complaint(answer, asked.set_aside), wants_text)
        except errors.WindlassError as error:
            return web.Response(status=503, text=f"{error}\n")
        except Exception as error:
            said = f"{type(error).__name__}: {unexpected.describe(error)}"
            unexpected.report(unexpected.Place.EXPLAIN, str(question), said, error)
            return web.Response(status=503, text=f"{question} could not be explained: {said}; see the log\n")

    return handle


def _add_complaint(
    answer: document.Account | questions.Unknown, set_aside: Sequence[errors.InvalidObject]
) -> document.Account | questions.Unknown:
    """An object that exists and cannot be read is not one that does not exist; of one that can, what does not count."""
    match answer:
        case questions.Unknown(question) if not answer.why and question.about in _KINDS:
            name = f"{question.namespace}/{question.name}" if question.about is About.POD else question.name
            return replace(answer, why=_find_complaint(set_aside, _KINDS[question.about], name))
        case PodAccount():
            return replace(answer, complaint=_find_complaint(set_aside, "Pod", answer.key))
        case NodeAccount():
            return replace(answer, complaint=_find_complaint(set_aside, "Node", answer.name))
    return answer


def _find_complaint(set_aside: Sequence[errors.InvalidObject], kind: str, name: str) -> str:
    return next((str(one) for one in set_aside if (one.kind, one.name) == (kind, name)), "")


def _respond(answer: document.Account | questions.Unknown, wants_text: bool) -> web.Response:
    if isinstance(answer, questions.Unknown):
        return web.Response(status=404, text=f"{answer}\n")
    if wants_text:
        return web.Response(text="\n".join(questions.tell(answer)) + "\n")
    return web.Response(body=document.write(answer), content_type="application/json")
