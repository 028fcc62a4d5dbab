import pytest

from pfl_audit.errors import UsageError
from pfl_audit.models.endpoint.address import read_address, read_key


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("https://api.example.com", "https://api.example.com/v1/chat/completions"),
        ("https://api.example.com/v1/", "https://api.example.com/v1/chat/completions"),
        ("https://api.example.com/openai/v2/chat/completions", "https://api.example.com/openai/v2/chat/completions"),
        ("http://localhost:8000/v1", "http://localhost:8000/v1/chat/completions"),
        ("http://127.1.2.3:11434", "http://127.1.2.3:11434/v1/chat/completions"),
        ("http://[::1]:8000", "http://[::1]:8000/v1/chat/completions"),
    ],
)
def test_an_address_may_be_that_of_the_host_the_api_or_the_chat(given: str, url: str) -> None:
    assert read_address(given).url == url


@pytest.mark.parametrize("host", ["10.0.0.7:8000", "example.com", "localhost.example.com", "127.0.0.1.example.com"])
def test_http_does_not_leave_the_machine_unless_asked(host: str) -> None:
    with pytest.raises(UsageError, match="not this machine"):
        read_address(f"http://{host}/v1")
    assert read_address(f"http://{host}/v1", insecure=True).host == host


@pytest.mark.parametrize(
    "given",
    [
        "", "example.com/v1", "ftp://example.com", "file:///etc/passwd", "https://", "https://user:secret@example.com",
        "https://example.com/v1?key=secret", "https://example.com/#secret", "https://example.com:99999/v1",
        "https://exa mple.com", "https://example.com/\nHost: other", "https://[::1", "https://example.com:0/v1",
    ],
)  # fmt: skip
def test_what_is_no_plain_address_is_refused_without_being_quoted(given: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_address(given)
    assert "secret" not in str(caught.value)


def test_the_key_goes_to_its_own_host_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-open")
    assert read_key(None, read_address("https://api.openai.com")).headers == {"Authorization": "Bearer sk-open"}
    for other in ("http://localhost:8000", "https://example.com", "https://openai.com.example.com"):
        assert read_key(None, read_address(other)).headers == {}
    named = read_key("OPENAI_API_KEY", read_address("https://example.com"))
    assert named.headers == {"Authorization": "Bearer sk-open"}
    assert "sk-open" not in repr(named)


@pytest.mark.parametrize("value", [None, "", "sk-\nsecret", "sk-secret ", "sk-sécret", "s" * 9000])
def test_a_key_that_is_missing_or_no_header_is_refused_without_being_quoted(
    value: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VENDOR_KEY", raising=False)
    if value is not None:
        monkeypatch.setenv("VENDOR_KEY", value)
    with pytest.raises(UsageError) as caught:
        read_key("VENDOR_KEY", read_address("https://example.com"))
    assert "s-" not in str(caught.value)
    assert "cret" not in str(caught.value)
