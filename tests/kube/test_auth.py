from collections import deque
from pathlib import Path

import pytest

from tests.kube.fake_api_server import Bytes, answer, refusal
from windlass import clock
from windlass.kube import auth, errors
from windlass.kube.transport import Certificate, Request, Response

GET = Request("GET", "/", headers={"accept": "x"})


class Server:
    """Takes one token, and keeps the answers it gave."""

    def __init__(self, token: str) -> None:
        self.token = token
        self.seen: list[Request] = []
        self.answers: deque[Response] = deque()

    async def send(self, request: Request) -> Response:
        self.seen.append(request)
        good = request.headers.get("authorization") == f"Bearer {self.token}"
        self.answers.append(answer(200, {}) if good else refusal(401, "Unauthorized"))
        return self.answers[-1]


def test_a_token_that_is_refused_is_read_again_and_the_request_sent_again(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("old\n")
    virtual = clock.VirtualClock()

    async def main() -> None:
        server = Server("old")
        signed = auth.AuthenticatedTransport(server, auth.FileCredentials(virtual, token=file))
        assert (await signed.send(GET)).status == 200
        file.write_text("new\n")
        server.token = "new"
        assert (await signed.send(GET)).status == 200
        assert [request.headers["authorization"] for request in server.seen] == [
            "Bearer old",
            "Bearer old",
            "Bearer new",
        ]
        refused = server.answers[1].stream
        assert isinstance(refused, Bytes)
        assert refused.closed

    virtual.run(main())


def test_without_better_credentials_the_refusal_is_the_answer(tmp_path: Path) -> None:
    async def main() -> None:
        server = Server("other")
        response = await auth.AuthenticatedTransport(
            server, auth.StaticCredentials(auth.bearer_credential("mine"))
        ).send(GET)
        assert response.status == 401
        assert len(server.seen) == 1
        assert server.seen[0].headers["accept"] == "x"

    clock.VirtualClock().run(main())


def test_a_token_is_read_again_every_minute_and_kept_while_the_file_is_away(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("one")
    virtual = clock.VirtualClock()

    async def main() -> list[str]:
        files = auth.FileCredentials(virtual, token=file)
        seen = []
        for token in (None, "two", "two", None, ""):
            if token is not None:
                file.write_text(token)
            seen.append((await files.current()).headers["authorization"])
            await virtual.sleep(40)
            if token == "two":
                file.unlink()
        return seen

    assert virtual.run(main()) == ["Bearer one", "Bearer one", "Bearer two", "Bearer two", "Bearer two"]


@pytest.mark.parametrize("content", [None, "", "\n"])
def test_a_token_that_is_not_there_is_said_so(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "token"
    if content is not None:
        file.write_text(content)

    with pytest.raises(errors.CredentialsFailed, match="token"):
        clock.VirtualClock().run(auth.FileCredentials(clock.VirtualClock(), token=file).current())


def test_certificate_files_are_read_and_sent_along(tmp_path: Path) -> None:
    (tmp_path / "crt").write_text("CERT")
    (tmp_path / "key").write_text("KEY")
    files = auth.FileCredentials(clock.VirtualClock(), certificate=(tmp_path / "crt", tmp_path / "key"))

    credential = clock.VirtualClock().run(files.current())
    assert credential == auth.Credential({}, Certificate(b"CERT", b"KEY"))


def test_secrets_are_not_printed() -> None:
    assert "s3cret" not in repr(auth.bearer_credential("s3cret", Certificate(b"c", b"s3cret")))
    assert auth.basic_credential("me", "pw").headers == {"authorization": "Basic bWU6cHc="}
