"""Addresses that can be asked: as people write them, and as a dashboard prints its own."""

from pathlib import Path

import pytest

from windlass import errors
from windlass.cli import query_source


@pytest.mark.parametrize(
    ("address", "url", "token"),
    [
        ("10.0.0.7:8085", "http://10.0.0.7:8085", ""),
        (":8085", "http://127.0.0.1:8085", ""),
        ("http://localhost:8086/", "http://localhost:8086", ""),
        ("https://[::1]:8086/#token=a-b_c", "https://[::1]:8086", "a-b_c"),
    ],
)
def test_an_address_is_found_in_what_people_paste(address: str, url: str, token: str) -> None:
    status_server = query_source.parse_server(address)
    assert (status_server.url, status_server.token) == (url, token)
    assert status_server.headers == ({"Authorization": f"Bearer {token}"} if token else {})


def test_a_certificate_authority_means_tls(tmp_path: Path) -> None:
    assert query_source.parse_server("there:1", certificate_authority=tmp_path).url == "https://there:1"
    with pytest.raises(
        errors.InvalidInput, match="--certificate-authority: found 'http://there:1', expected an address"
    ):
        query_source.parse_server("http://there:1", certificate_authority=tmp_path)
    (tmp_path / "ca.crt").write_text("nonsense")
    with pytest.raises(errors.InvalidInput, match=r"--certificate-authority .*: cannot be used"):
        assert query_source.parse_server("there:1", certificate_authority=tmp_path / "ca.crt").tls


def test_the_token_of_a_file_is_read_without_its_newline(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret\n")
    assert query_source.parse_server("there:1", token_file=tmp_path / "token").token == "secret"
    assert query_source.parse_server("http://there:1/#token=other", token="secret").token == "secret"


def test_a_token_comes_from_the_environment_unless_another_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WINDLASS_TOKEN", "secret")
    assert query_source.parse_server("there:1").token == "secret"
    assert query_source.parse_server("http://there:1/#token=other").token == "other"


def test_a_token_on_the_command_line_is_warned_of(capsys: pytest.CaptureFixture[str]) -> None:
    query_source.parse_server("there:1", token="secret")
    assert capsys.readouterr().err == (
        "windlass: --token: other users of this machine can read it; use --token-file, or WINDLASS_TOKEN\n"
    )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"address": "ftp://there"}, "--address: found 'ftp://there', accepted are HOST:PORT"),
        ({"address": "there:1", "token": "a\nb"}, "--token: found invalid characters"),
        ({"address": "there:1", "token_file": Path("/no/such/file")}, "--token-file /no/such/file: cannot be read"),
        ({"address": "there:1", "token": "a", "token_file": Path("b")}, "--token: found --token-file as well"),
    ],
)
def test_what_lets_nobody_in_is_refused(given: dict[str, str], said: str) -> None:
    with pytest.raises(errors.InvalidInput, match=said):
        query_source.parse_server(**given)  # type: ignore[arg-type]
