"""Asking: a question put to a live autoscaler, to the cluster of the current kubeconfig, or to a recording."""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from windlass import errors
from windlass.cli import servers, style

if TYPE_CHECKING:
    from windlass.explain import document, look, questions

ADDRESS = "WINDLASS_ADDRESS"
"""The environment's word for --address."""


@dataclass(frozen=True, slots=True)
class Source:
    """Who is asked. Without a server and a recording: the API server, with these flags of the autoscaler's."""

    server: servers.Server | None = None
    recording: Path | None = None
    at: str = ""
    flags: Sequence[str] = ()


def find_source(address: str | None, recording: Path | None, at: str | None, flags: Sequence[str]) -> Source:
    """InvalidInput for what does not go together."""
    if at and recording is None:
        raise errors.InvalidInput("--at: found no --recording, expected the file that it is a time of")
    if recording is not None:
        if flags or address:
            raise errors.InvalidInput("--recording: it has its own settings; expected no flags and no --address")
        return Source(recording=recording, at=at or "")
    if address and flags:
        raise errors.InvalidInput(f"--address: the autoscaler has its own settings; expected no {flags[0]}")
    asked = "" if flags else address or os.environ.get(ADDRESS, "")
    return Source(servers.find(asked) if asked else None, flags=flags)


def ask(question: "questions.Question", source: Source) -> "document.Account":
    """The answer. servers.NotFound if there is no such object, InvalidInput for a source that cannot be used."""
    from windlass.explain import questions

    if source.server is not None:
        return _ask_server(question, source.server)
    answer = questions.answer(question, take_look(source))
    if isinstance(answer, questions.Unknown):
        raise servers.NotFound(str(answer))
    return answer


def take_look(source: Source) -> "look.Look":
    """A look at a recording, or at the cluster."""
    from windlass.explain import look

    if source.recording is not None:
        from windlass.autoscaler.recording import replay

        at_s = read_time(source.at, source.recording) if source.at else float("inf")
        return look.take(*replay.load_until(source.recording, at_s))
    import asyncio

    from windlass import clock
    from windlass.autoscaler import command_line, once

    command = command_line.read(command_line.split(source.flags))
    for warning in command.warnings:
        print(f"windlass: {warning}", file=sys.stderr)
    return look.take(*asyncio.run(once.observe(command.settings, command.wiring, clock.Real())))


def read_time(text: str, recording: Path) -> float:
    """A time, or how long after the recording's beginning."""
    from windlass.autoscaler.recording import replay
    from windlass.kube import durations, times

    try:
        return times.parse(text)
    except ValueError:
        pass
    try:
        return replay.find_beginning_s(recording) + durations.parse(text)
    except ValueError:
        accepted = f"{times.ACCEPTED}, or {durations.ACCEPTED} after the recording's beginning"
        raise errors.InvalidInput(f"--at: found {text!r}, expected {accepted}") from None


def _ask_server(question: "questions.Question", asked: servers.Server) -> "document.Account":
    from windlass.autoscaler import explaining
    from windlass.explain import cluster, document, groups, nodes, pods
    from windlass.explain.questions import About

    kinds = {
        About.POD: pods.PodAccount,
        About.NODE: nodes.NodeAccount,
        About.GROUP: groups.GroupAccount,
        About.CLUSTER: cluster.ClusterAccount,
    }
    said = servers.fetch(asked, explaining.path_of(question))
    try:
        return document.read(kinds[question.about], said)
    except ValueError as error:
        raise errors.InvalidInput(f"{asked.address}: no autoscaler answers there: {error}") from None


def print_answer(account: "document.Account", output: str) -> None:
    """On standard output."""
    from windlass.explain import document, questions

    if output == "json":
        print(document.write(account, indented=True).decode())
    else:
        print(*questions.tell(account, style.of_stream(sys.stdout)), sep="\n")
