"""The pages over HTTP: what they show, whom they show it to, and what they make of hostile content."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from kernelworks.model.variant import BackendFacts, FrameworkFacts, Platform, Variant
from kernelworks_server.errors import BadRequest
from kernelworks_server.people import RESERVED

if TYPE_CHECKING:
    from conftest import Site  # type: ignore[import-not-found]

pytestmark = pytest.mark.server

Variants = Callable[..., Variant]
Indexes = Callable[..., bytes]

CUDA = BackendFacts("cuda", (13, 0))
HOST: dict[str, Any] = {
    "python": "3.12",
    "implementation": "cpython",
    "free-threaded": False,
    "torch": "2.13.0+cu130",
    "cxx11-abi": True,
    "backends": [{"name": "cuda", "version": "13.0", "devices": ["9.0"]}, {"name": "cpu", "devices": []}],
    "cpu": "x86_64",
    "os": "linux",
    "libc": "glibc 2.36",
}


def report(**changes: Any) -> str:
    """What `kernelworks doctor --json` would print on a machine with an H100."""
    return json.dumps({"kernelworks": "0.1.0", "registry": "x", "cache": "/c", "host": {**HOST, **changes}}, indent=2)


@pytest.fixture
def kernel(site: Site, variant: Variants, index: Indexes) -> str:
    """The commit of version 2 of `demo/relu`, which lost a variant, won one, and has one rebuilt."""
    repo = site.repo("demo/relu")
    cpu, cuda = variant("relu-cpu"), variant("relu-cuda", backend=CUDA, archs=("8.6", "9.0"), ptx=("9.0",))
    old = variant("relu-old", framework=FrameworkFacts("torch", (2, 12), cxx11=True), hermetic=False)
    arm = variant("relu-arm", platform=Platform("aarch64", "linux", (2, 34)))
    site.commit(repo, "v1", {"kernel.json": index(1, cpu), "README.md": b"# one"})
    site.commit(repo, "v2", {"kernel.json": index(2, cpu, cuda, old), "README.md": b"---\na: b\n---\n# two\n\n`x`"})
    changed = index(2, variant("relu-cpu", size=9), cuda, arm)
    return str(site.commit(repo, "v2", {"kernel.json": changed}, "mend relu"))


def test_the_start_page_lists_kernels_with_what_they_are_for(site: Site, kernel: str) -> None:
    page = site.get("/").text
    for fact in ('href="/demo/relu"', "version 2", "3 variants", "CUDA 13.0", "9.0+PTX", "torch ≥ 2.11"):
        assert fact in page
    assert kernel not in page


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("q=rel", True),
        ("q=REL", True),
        ("q=gelu", False),
        ("q=%25", False),
        ("backend=cuda", True),
        ("backend=rocm", False),
        ("arch=8.9", True),
        ("arch=8.0", False),
        ("arch=12.0", True),
        ("arch=gfx942", False),
        ("torch=2.13", True),
        ("torch=2.10", False),
        ("torch=2.11&backend=cuda&arch=9.0&q=demo", True),
        ("after=demo/relu", False),
    ],
)
@pytest.mark.usefixtures("kernel")
def test_filters_find_kernels_by_their_newest_variants(site: Site, query: str, found: bool) -> None:
    assert ('href="/demo/relu"' in site.get(f"/?{query}").text) == found


@pytest.mark.parametrize(
    ("query", "words"),
    [("arch=fast", "`fast` is not a device arch"), ("torch=new", "`new` is not a version of torch")],
)
def test_a_filter_that_makes_no_sense_is_refused_in_words(site: Site, query: str, words: str) -> None:
    answer = site.get(f"/?{query}")
    assert answer.status == 400
    assert words in answer.words


def test_lists_are_paged_by_links_until_all_is_seen(site: Site) -> None:
    for number in range(30):
        site.repo(f"demo/kernel-{number:02}")
    seen: list[str] = []
    path: str | None = "/?q=kernel"
    while path:
        page = site.get(path).text
        seen += re.findall(r'class="name" href="/demo/(kernel-\d\d)"', page)
        following = re.search(r'rel="next" href="([^"]+)"', page)
        path = f"/{following[1].replace('&amp;', '&')}" if following else None
        assert path is None or "q=kernel" in path
    assert seen == [f"kernel-{number:02}" for number in range(30)]


def test_a_kernels_page_says_all_that_the_index_knows(site: Site, kernel: str) -> None:
    page = site.get("/demo/relu").text
    assert "get_kernel(&#34;demo/relu&#34;, version=2)" in page
    assert f"get_kernel(&#34;demo/relu&#34;, revision=&#34;{kernel}&#34;)" in page
    for fact in ("glibc ≥ 2.34", "Linux aarch64", "Python ≥ 3.10", "9.0+PTX", "Apache-2.0", "kernelworks 0.1.0"):
        assert fact in page
    assert f'href="/kernels/demo/relu/resolve/{kernel}/wheels/demo-relu-cpu.whl"' in page
    assert "<h3>two</h3>" in page
    assert "is not a trusted publisher here" in page


def test_versions_come_newest_first_with_what_changed(site: Site, kernel: str) -> None:
    page = site.get("/demo/relu").text
    assert page.index(">version 2<") < page.index(">version 1<")
    assert kernel[:8] in page
    assert "mend relu" in page
    assert "Since the commit before" in page
    for change in ('added"><code>relu-arm', 'removed"><code>relu-old', 'rebuilt"><code>relu-cpu'):
        assert change in page


def test_a_new_version_is_compared_with_the_one_before(site: Site, variant: Variants, index: Indexes) -> None:
    repo = site.repo("demo/relu")
    site.commit(repo, "v1", {"kernel.json": index(1, variant("relu-cpu"))})
    site.commit(repo, "v10", {"kernel.json": index(10, variant("relu-gpu", backend=CUDA, archs=("9.0",)))})
    page = site.get("/demo/relu").text
    assert "version=10)" in page
    assert "Since version 1" in page


@pytest.mark.usefixtures("kernel")
def test_an_older_version_says_that_a_newer_one_exists(site: Site) -> None:
    page = site.get("/demo/relu?revision=v1").text
    assert "version=1)" in page
    assert "<h3>one</h3>" in page
    assert "is newer" in page


def test_a_commit_that_is_no_versions_head_has_no_line_with_a_version(site: Site, kernel: str) -> None:
    page = site.get(f"/demo/relu?revision={kernel}").text
    assert f"revision=&#34;{kernel}&#34;" in page
    assert "version=" not in page.split('class="use"')[1].split("</section>")[0]


def test_a_build_without_a_sandbox_is_marked(site: Site, variant: Variants, index: Indexes) -> None:
    site.commit(site.repo("demo/x"), "v1", {"kernel.json": index(1, variant("x-cpu", hermetic=False))})
    assert "not hermetic" in site.get("/demo/x").text


def test_a_repository_without_an_index_shows_its_files_and_branches(site: Site) -> None:
    repo = site.repo("demo/foreign")
    site.commit(repo, "v1", {"build/torch-cpu/__init__.py": b"x = 1\n"})
    page = site.get("/demo/foreign").text
    assert "no <code>kernel.json</code>" in page
    assert "build/torch-cpu/__init__.py" in page
    assert site.get("/demo/foreign?revision=main").status == 200
    assert site.get("/demo/foreign/fit").status == 404
    assert site.get("/demo/foreign?revision=v7").status == 404


def test_a_model_repository_has_a_page_too(site: Site) -> None:
    site.commit(site.repo("demo/weights", kind="model"), "main", {"README.md": b"# weights"})
    page = site.get("/demo/weights").text
    assert "<h3>weights</h3>" in page
    assert "/models/demo/weights/resolve/" in page


@pytest.mark.parametrize(
    "data",
    [b"", b"[1, 2", b"\xff", b'{"schema": 2}', b'{"schema": 1, "name": "<script>"}', b"[" * 100_000],
    ids=["empty", "torn", "binary", "newer", "script", "deep"],
)
def test_an_index_that_cannot_be_read_is_told_and_the_files_are_shown(site: Site, data: bytes) -> None:
    site.commit(site.repo("demo/broken"), "v1", {"kernel.json": data})
    answer = site.get("/demo/broken")
    assert answer.status == 200
    assert "The index of this revision cannot be read" in answer.text
    assert "/kernel.json" in answer.text
    assert "<script>" not in answer.text
    assert 'href="/demo/broken"' in site.get("/").text


def test_texts_of_an_index_and_a_commit_are_never_markup(site: Site, variant: Variants, index: Indexes) -> None:
    evil = "<img src=x onerror=alert(1)>\"'"
    repo = site.repo("demo/evil")
    data = index(1, variant("evil-cpu", python_depends=(evil,)), license=evil, builder=evil)
    site.commit(repo, "v1", {"kernel.json": data, f"{evil[:-2]}.txt": b"x"}, message=f"{evil}\u202e")
    page = site.get("/demo/evil").text
    assert "<img src=x" not in page
    assert page.count("&lt;img src=x onerror=alert(1)&gt;") >= 4
    assert "\u202e" not in page
    assert "[U+202E]" in page


def test_an_endless_index_is_shown_in_part(site: Site, variant: Variants, index: Indexes) -> None:
    many = [variant(f"v-{number}", framework=FrameworkFacts("torch", (2, number))) for number in range(300)]
    site.commit(site.repo("demo/many"), "v1", {"kernel.json": index(1, *many)})
    page = site.get("/demo/many").text
    assert page.count('class="variant"') == 200
    assert "no room for 100 more" in page


@pytest.mark.parametrize("path", ["/demo/secret", "/demo/secret/fit", "/demo/secret?revision=v1"])
def test_a_private_repository_looks_like_one_that_is_not_there(
    site: Site, variant: Variants, index: Indexes, path: str
) -> None:
    site.commit(site.repo("demo/secret", private=True), "v1", {"kernel.json": index(1, variant("secret-cpu"))})
    stranger = site.server.user("eve")
    for token in (None, stranger):
        hidden, missing = site.get(path, token=token), site.get(path.replace("secret", "nought"), token=token)
        assert hidden.status == missing.status == 404
        assert _plain(hidden.text).replace("secret", "nought") == _plain(missing.text)
        for listing in ("/", "/demo", "/?q=secret", "/?backend=cpu"):
            assert "demo/secret" not in site.get(listing, token=token).text
    shown = site.get(path, token=site.server.token)
    assert shown.status == 200
    assert shown.headers["Vary"] == "Authorization, Cookie"
    assert shown.headers["Cache-Control"].startswith("private")


def _plain(page: str) -> str:
    return re.sub(r'nonce="[^"]+"', "", page)


def test_an_unknown_token_is_refused(site: Site) -> None:
    assert site.get("/", token="kw_nobody").status == 401  # noqa: S106  # nobody has it


def test_an_organisations_page_lists_its_kernels(site: Site, kernel: str) -> None:
    site.repo("other/relu")
    site.server.services.people.set_trusted("demo", trusted=True)
    page = site.get("/DEMO").text
    assert "trusted publisher" in page
    assert 'href="/demo/relu"' in page
    assert "other/relu" not in page
    assert site.get("/nobody").status == 404
    assert "is not a trusted publisher" not in site.get(f"/demo/relu?revision={kernel}").text


@pytest.mark.usefixtures("kernel")
def test_a_machine_is_told_what_it_gets_and_every_reason_for_the_rest(site: Site) -> None:
    page = site.post("/demo/relu/fit", report=report(), revision="v2").words
    assert "It gets `relu-cuda`" in page
    assert "needs a `aarch64` CPU, and this is `x86_64`" in page
    assert "is for backend `cpu`, and `cuda` is wanted" in page
    assert 'ask for it: `backend="cpu"`' in page
    wanted = site.post("/demo/relu/fit", report=report(), revision="v2", backend="cpu").words
    assert "It gets `relu-cpu`" in wanted


@pytest.mark.usefixtures("kernel")
def test_a_machine_that_gets_nothing_is_told_so(site: Site) -> None:
    page = site.post("/demo/relu/fit", report=report(torch=None, backends=[{"name": "cpu", "devices": []}])).words
    assert "None of the 3 variants fits" in page
    assert "torch is not installed" in page


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "the report is empty"),
        ("hello", "the report is not valid JSON"),
        ("{}", "the report lacks the key `host`"),
        (report(python="three"), "`host.python` in the report is `three`"),
        (report(cpu="<script>alert(1)</script>"), "`host.cpu` in the report"),
        ("[" * 60_000, "the report is not valid JSON"),
        ("9" * 65_537, "the report has 65537 characters"),
    ],
    ids=["empty", "no JSON", "no host", "version", "script", "deep", "long"],
)
@pytest.mark.usefixtures("kernel")
def test_a_report_that_is_none_is_refused_in_words(site: Site, text: str, words: str) -> None:
    answer = site.post("/demo/relu/fit", report=text)
    assert answer.status == 422
    assert words in answer.words
    assert "<script>alert" not in answer.text


@pytest.mark.usefixtures("kernel")
def test_a_form_without_end_is_not_read(site: Site) -> None:
    connection = http.client.HTTPConnection(urlsplit(site.server.url).netloc, timeout=30)
    connection.putrequest("POST", "/demo/relu/fit")
    connection.putheader("Content-Length", str(1 << 40))
    connection.endheaders()
    response = connection.getresponse()
    assert response.status == 413
    assert response.headers["Content-Type"].startswith("text/html")
    assert response.headers["Connection"] == "close"
    connection.close()


@pytest.mark.usefixtures("kernel")
def test_every_page_forbids_what_is_not_its_own(site: Site) -> None:
    for path in ("/", "/demo", "/demo/relu", "/demo/relu/fit", "/demo/nought"):
        answer = site.get(path)
        policy = answer.headers["Content-Security-Policy"]
        nonce = re.search(r"script-src 'nonce-([^']+)'", policy)
        assert nonce is not None
        assert policy.startswith("default-src 'none'")
        assert "unsafe" not in policy
        assert answer.headers["Referrer-Policy"] == "same-origin"
        scripts = re.findall(r"<script[^>]*>", answer.text)
        assert len(scripts) == 1
        assert f'nonce="{nonce[1]}"' in scripts[0]
        assert not re.findall(r' (?:src|href)="(?:https?:)?//', answer.text)
        assert " style=" not in answer.text
        assert not re.findall(r" on[a-z]+=", answer.text)


@pytest.mark.usefixtures("kernel")
def test_what_a_page_links_to_is_there(site: Site) -> None:
    for page in ("/", "/demo", "/demo/relu", "/demo/relu/fit"):
        for address in set(re.findall(r' (?:src|href)="(/[^"]*)"', site.get(page).text)):
            if ".whl" not in address:  # the fixture's wheels are facts without bytes
                assert site.get(address.replace("&amp;", "&")).status == 200, address


def test_addresses_that_clients_print_lead_to_the_page(site: Site, kernel: str) -> None:
    assert site.get("/kernels/demo/relu").headers["Location"] == "/demo/relu"
    for view in ("tree/v2", f"commit/{kernel}"):
        location = site.get(f"/kernels/demo/relu/{view}").headers["Location"]
        assert location == f"/demo/relu?revision={view.partition('/')[2]}"
        assert site.get(location).status == 200


def test_no_page_stands_before_the_hubs_protocol(site: Site, kernel: str) -> None:
    for path in ("/api/kernels", "/api/kernels/demo/relu", "/api/kernels/demo/relu/refs", "/healthz"):
        answer = site.get(path)
        assert answer.status == 200
        assert answer.headers["Content-Type"].startswith("application/json")
    assert json.loads(site.get("/api/whoami-v2").text)["error"]
    file = site.get(f"/kernels/demo/relu/resolve/{kernel}/kernel.json")
    assert file.headers["X-Repo-Commit"] == kernel


@pytest.mark.parametrize("name", sorted(RESERVED))
def test_nobody_can_have_a_name_that_pages_leave_to_others(site: Site, name: str) -> None:
    with pytest.raises(BadRequest):
        site.server.services.people.create_org(name)


@pytest.mark.parametrize(
    "path", ["/demo/relu/..%2f..%2fetc", "/static/..%2froutes.py", "/static/none.css", "/%2e%2e/x", "/demo/re%00lu"]
)
@pytest.mark.usefixtures("kernel")
def test_strange_addresses_are_not_found(site: Site, path: str) -> None:
    assert site.get(path).status == 404


@pytest.mark.parametrize("query", ["q=%00", "revision=%0a", "after=%e2%80%ae"])
@pytest.mark.usefixtures("kernel")
def test_unprintable_questions_are_refused(site: Site, query: str) -> None:
    assert site.get(f"/?{query}").status == 400
