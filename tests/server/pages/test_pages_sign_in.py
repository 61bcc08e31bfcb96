"""Signing in on the pages: what it opens and for whom, and that no other page can do it for somebody."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from kernelworks.model.variant import Variant
from kernelworks_server.pages.visit import Visit

if TYPE_CHECKING:
    from conftest import Site  # type: ignore[import-not-found]

pytestmark = pytest.mark.server


@pytest.fixture
def token(site: Site, variant: Callable[..., Variant], index: Callable[..., bytes]) -> str:
    """The token of ann, who may read `demo/secret`."""
    repo = site.repo("demo/secret", private=True)
    site.commit(repo, "v1", {"kernel.json": index(1, variant("secret-cpu")), "README.md": b"# hush"})
    made: str = site.server.user("ann", scope="read")
    site.server.services.people.add_member("demo", "ann", "read")
    return made


def own(site: Site) -> dict[str, str]:
    """What a browser says of a form on a page of this registry."""
    return {"Origin": site.server.url}


def cookie_of(site: Site, token: str) -> str:
    answer = site.post("/login", own(site), token=token)
    assert answer.status == 303
    return str(answer.headers["Set-Cookie"]).partition(";")[0]


def test_who_signs_in_sees_what_is_private_and_theirs(site: Site, token: str) -> None:
    cookie = cookie_of(site, token)
    site.repo("other/hidden", private=True)
    page = site.get("/demo/secret", cookie=cookie)
    assert page.status == 200
    assert "hush" in page.text
    start = site.get("/", cookie=cookie).text
    assert "demo/secret" in start
    assert "other/hidden" not in start
    assert site.get("/other/hidden", cookie=cookie).status == 404


def test_a_page_for_somebody_is_kept_by_nobody(site: Site, token: str) -> None:
    cookie = cookie_of(site, token)
    for path in ("/", "/demo", "/demo/secret", "/demo/secret/fit", "/demo/nought"):
        answer = site.get(path, cookie=cookie)
        assert answer.headers["Cache-Control"] == "private, no-store"
        assert "Cookie" in answer.headers["Vary"]
        assert "Sign out" in answer.text
    file = site.get("/kernels/demo/secret/resolve/v1/README.md", cookie=cookie)
    assert (file.status, file.headers["Cache-Control"]) == (200, "private, no-store")


def test_the_cookie_is_for_this_registry_alone_and_not_the_token(site: Site, token: str) -> None:
    answer = site.post("/login", own(site), token=token, back="/demo/secret?revision=v1")
    assert answer.headers["Location"] == "/demo/secret?revision=v1"
    told = str(answer.headers["Set-Cookie"])
    assert token not in told
    assert {part.strip().lower() for part in told.split(";")} >= {"httponly", "samesite=lax", "path=/"}
    assert "secure" not in told.lower()
    assert "Max-Age=1209600" in told


def test_behind_https_the_cookie_never_travels_in_the_clear(
    site: Site, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Visit, "address", "https://kernels.example.org")
    answer = site.post("/login", {"Origin": "https://kernels.example.org"}, token=token)
    assert "; Secure" in str(answer.headers["Set-Cookie"])


@pytest.mark.parametrize("back", ["//example.org/x", "/\\example.org", "https://example.org", "javascript:1", "", "x"])
def test_nobody_is_led_elsewhere_by_signing_in(site: Site, token: str, back: str) -> None:
    assert site.post("/login", own(site), token=token, back=back).headers["Location"] == "/"


def test_a_line_break_in_the_way_back_makes_no_header(site: Site, token: str) -> None:
    answer = site.post("/login", own(site), token=token, back="/x\r\nSet-Cookie: a=b")
    assert answer.headers["Location"] == "/"
    assert len(answer.headers.get_all("Set-Cookie")) == 1


@pytest.mark.parametrize("origin", [None, "", "null", "https://example.org", "http://127.0.0.1:1"])
@pytest.mark.parametrize("path", ["/login", "/logout"])
def test_a_form_from_elsewhere_is_refused(site: Site, token: str, path: str, origin: str | None) -> None:
    answer = site.post(path, {} if origin is None else {"Origin": origin}, token=token)
    assert answer.status == 403
    assert "Set-Cookie" not in answer.headers


@pytest.mark.parametrize("shown", ["", "kw_nobody", "é", "x" * 5_000])
@pytest.mark.usefixtures("token")
def test_a_token_that_does_not_work_is_told_so(site: Site, shown: str) -> None:
    answer = site.post("/login", own(site), token=shown, back="/demo")
    assert answer.status == 401
    assert "unknown, revoked or expired" in answer.text
    assert 'value="/demo"' in answer.text
    assert "Set-Cookie" not in answer.headers


def test_signing_out_ends_the_session_and_forgets_the_cookie(site: Site, token: str) -> None:
    cookie = cookie_of(site, token)
    answer = site.post("/logout", {**own(site), "Cookie": cookie})
    assert (answer.status, answer.headers["Location"]) == (303, "/")
    assert "Max-Age=0" in str(answer.headers["Set-Cookie"])
    assert site.get("/demo/secret", cookie=cookie).status == 404


def test_who_signs_in_again_ends_the_session_before(site: Site, token: str) -> None:
    before = cookie_of(site, token)
    site.post("/login", {**own(site), "Cookie": before}, token=token)
    assert site.get("/demo/secret", cookie=before).status == 404


def test_a_revoked_token_ends_its_sessions_at_once(site: Site, token: str) -> None:
    cookie = cookie_of(site, token)
    site.server.services.people.revoke("ann", "read 0")
    assert site.get("/demo/secret", cookie=cookie).status == 404


def test_signing_out_takes_a_form_and_no_link(site: Site, token: str) -> None:
    cookie = cookie_of(site, token)
    assert site.get("/logout", cookie=cookie).status == 405
    assert site.get("/demo/secret", cookie=cookie).status == 200


def test_a_session_opens_nothing_but_pages_and_files(site: Site) -> None:
    cookie = cookie_of(site, site.server.token)
    site.repo("demo/secret", private=True)
    assert site.get("/demo/secret", cookie=cookie).status == 200
    for path in ("/api/whoami-v2", "/api/kernels/demo/secret", "/api/kernels/demo/secret/xet-write-token/main"):
        assert site.get(path, cookie=cookie).status == 401, path
    body = {"name": "relu", "organization": "demo", "type": "kernel"}
    assert site.post("/api/repos/create", {"Cookie": cookie, **own(site)}, **body).status in {400, 401}


def test_who_signs_in_is_told_apart_from_a_token_in_a_header(site: Site, token: str) -> None:
    cookie = cookie_of(site, token)
    stranger = site.server.user("eve")
    assert site.get("/demo/secret", token=stranger, cookie=cookie).status == 404


def test_a_missing_page_offers_to_sign_in_and_come_back(site: Site) -> None:
    page = site.get("/demo/secret?revision=v1").text
    assert 'href="/login?back=/demo/secret%3Frevision%3Dv1"' in page
    form = site.get("/login?back=/demo/secret%3Frevision%3Dv1").text
    assert 'name="back" value="/demo/secret?revision=v1"' in form
    assert urlsplit(site.server.url).netloc not in form
