"""The registry as a package index: pip downloads and installs from it; raw requests show what else it is told."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

import pytest

from kernelworks.model.digest import FileEntry, hash_bytes, hash_file
from kernelworks.model.index import INDEX_NAME, Index, Source
from kernelworks.model.variant import (
    BackendFacts,
    FrameworkFacts,
    Platform,
    PythonAbi,
    TorchSymbols,
    Variant,
)
from kernelworks_build.claims import Claims
from kernelworks_build.wheel import WheelName, write_wheel
from kernelworks_server.records import AddFile

if TYPE_CHECKING:
    from conftest import Server  # type: ignore[import-not-found]

pytestmark = pytest.mark.server

JSON = "application/vnd.pypi.simple.v1+json"
PIP = f"{JSON}, application/vnd.pypi.simple.v1+html; q=0.1, text/html; q=0.01"
PLATFORM = Platform("x86_64", "linux", (2, 28))
CPU = BackendFacts("cpu", None)
CUDA130 = BackendFacts("cuda", (13, 0))
STABLE211 = FrameworkFacts("torch-stable-abi", (2, 11))
TORCH213 = FrameworkFacts("torch", (2, 13), cxx11=True)
ABI3 = PythonAbi("abi3", (3, 9))
Build = tuple[str, FrameworkFacts, BackendFacts]
STABLE_CPU: Build = ("torch-stable-abi211-cpu", STABLE211, CPU)
STABLE_CUDA: Build = ("torch-stable-abi211-cu130", STABLE211, CUDA130)


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Any
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def files(self) -> list[str]:
        return [file["filename"] for file in self.json["files"]]


class _Stay(HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        return None


def get(url: str, accept: str = PIP, method: str = "GET", **headers: str) -> Answer:
    request = Request(url, headers={"Accept": accept, **headers}, method=method)  # noqa: S310  # loopback
    try:
        with build_opener(_Stay, ProxyHandler({})).open(request, timeout=30) as response:
            return Answer(response.status, response.headers, response.read())
    except HTTPError as error:
        with error:
            return Answer(error.code, error.headers, error.read())


def make_wheel(folder: Path, package: str, version: int, build: Build, abi: PythonAbi) -> tuple[Path, Variant]:
    """A wheel that says where it is from, as kernel-build writes it, and what an index tells of it."""
    local, framework, backend = build
    name, module = f"{local}-x86_64-linux", f"_{package}_1a2b3c4d"
    wheel_name = WheelName.of(
        Claims(name, module, package, framework, backend, abi, PLATFORM, ()), version, "manylinux_2_28_x86_64"
    )
    source = folder / f"{wheel_name.file} source"
    source.mkdir()
    (source / "__init__.py").write_text(f"VERSION = {version}\nBUILD = {local!r}\n")
    path = folder / wheel_name.file
    write_wheel(path, wheel_name, metadata={}, framework=framework, package=source, records={}, python_abi=abi)
    variant = Variant(
        name=name,
        id=module,
        framework=framework,
        backend=backend,
        python_abi=abi,
        platform=PLATFORM,
        libraries=(),
        torch_symbols=TorchSymbols(()),
        python_depends=(),
        wheel=FileEntry(f"wheels/{path.name}", *hash_file(path)),
        package=package,
        files=(),
        lock="0" * 64,
        hermetic=True,
    )
    return path, variant


@pytest.fixture
def publish(server: Server, tmp_path: Path) -> Callable[..., list[Path]]:
    """How a test publishes wheels as one version of a kernel."""

    def publish(
        repo_id: str,
        builds: Sequence[Build],
        *,
        version: int = 1,
        private: bool = False,
        abi: PythonAbi = ABI3,
        package: str | None = None,
        damage: bool = False,
    ) -> list[Path]:
        repositories, (owner, name) = server.services.repositories, repo_id.split("/")
        if owner not in {account.name for account in server.services.people.accounts("org")}:
            server.org(owner)
        kernel = name.lower().replace("_", "-").replace(".", "-")
        if version == 1:
            repositories.create(server.operator, "kernel", repo_id, private=private)
        repo = repositories.get(server.operator, "kernel", repo_id)
        repositories.create_branch(server.operator, repo, f"v{version}", None)
        folder = tmp_path / f"{owner} {name} {version}"
        folder.mkdir()
        made = [make_wheel(folder, package or kernel.replace("-", "_"), version, build, abi) for build in builds]
        variants = tuple(variant for _, variant in made)
        index = Index(kernel, version, "Apache-2.0", Source("0" * 64), "kernelworks 0", variants).to_bytes()
        contents = {variant.wheel.path: path.read_bytes() + b"!" * damage for path, variant in made}
        operations = []
        for path, data in {INDEX_NAME: index, **contents}.items():
            sha256, size = repositories.receive(repo, [data], expected=None, limit=1 << 24)
            operations.append(AddFile(path, sha256, size, lfs=path.endswith(".whl")))
        repositories.commit(
            server.operator, repo, f"v{version}", operations, message="publish", description="", parent=None
        )
        return [path for path, _ in made]

    return publish


def run_pip(*arguments: str) -> subprocess.CompletedProcess[str]:
    """What pip says, with no configuration of this machine."""
    clean = {name: value for name, value in os.environ.items() if not name.upper().startswith("PIP_")}
    return subprocess.run(
        [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-cache-dir", "--no-input", *arguments],
        env={**clean, "PIP_CONFIG_FILE": os.devnull, "NO_PROXY": "*", "no_proxy": "*"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_pip_downloads_the_very_wheel_that_was_published(server: Server, publish: Any, tmp_path: Path) -> None:
    cpu, cuda = publish("acme/silu-and-mul", [STABLE_CPU, STABLE_CUDA])
    for flavour, wheel in (("torch213-cpu", cpu), ("torch214-cu132", cuda)):
        index = f"{server.url}/simple/{flavour}/"
        done = run_pip("download", "--no-deps", "--dest", str(tmp_path / flavour), "--index-url", index, "silu-and-mul")
        assert done.returncode == 0, done.stderr
        assert [path.name for path in (tmp_path / flavour).iterdir()] == [wheel.name]
        assert hash_file(tmp_path / flavour / wheel.name) == hash_file(wheel)


def test_pip_installs_the_newest_version_or_the_one_it_is_told(server: Server, publish: Any, tmp_path: Path) -> None:
    publish("acme/relu", [STABLE_CPU])
    publish("acme/relu", [STABLE_CPU], version=2)
    index = f"{server.url}/simple/torch213-cpu/"
    for requirement, version in (("relu", 2), ("relu==1", 1)):
        target = tmp_path / requirement
        done = run_pip("install", "--no-deps", "--target", str(target), "--index-url", index, requirement)
        assert done.returncode == 0, done.stderr
        assert f"VERSION = {version}\n" in (target / "relu" / "__init__.py").read_text()


def test_pip_passes_over_a_yanked_version_unless_it_is_told_that_one(
    server: Server, publish: Any, tmp_path: Path
) -> None:
    publish("acme/relu", [STABLE_CPU])
    publish("acme/relu", [STABLE_CPU], version=2)
    repositories = server.services.repositories
    repo = repositories.get(server.operator, "kernel", "acme/relu")
    repositories.yank(server.operator, repo, "v2", "wrong <for> NaN")
    index = f"{server.url}/simple/torch213-cpu/"
    for requirement, version, words in (("relu", 1, ""), ("relu==2+torch.stable.abi211.cpu", 2, "wrong <for> NaN")):
        target = tmp_path / str(version)
        done = run_pip("install", "--no-deps", "--target", str(target), "--index-url", index, requirement)
        assert done.returncode == 0, done.stderr
        assert f"VERSION = {version}\n" in (target / "relu" / "__init__.py").read_text()
        assert words in done.stderr
    listed = {file["filename"].split("-")[1][0]: file.get("yanked") for file in get(f"{index}relu/").json["files"]}
    assert listed == {"1": None, "2": "wrong <for> NaN"}
    page = get(f"{index}relu/", accept="text/html").body.decode()
    assert page.count('data-yanked="wrong &lt;for&gt; NaN"') == page.count("data-yanked") == 1


def test_a_locked_address_is_found_after_a_rename_and_wheels_keep_the_name_of_their_package(
    server: Server, publish: Any, tmp_path: Path
) -> None:
    publish("acme/relu", [STABLE_CPU])
    index = f"{server.url}/simple/torch213-cpu"
    locked = get(f"{index}/relu/").json["files"][0]["url"]
    server.org("other")
    rename = server.services.repositories.rename
    rename(server.operator, "kernel", "acme/relu", "other/relu")
    assert len(get(f"{index}/@other/relu/").files) == 1
    rename(server.operator, "kernel", "other/relu", "other/gelu")
    assert get(f"{index}/").json["projects"] == []
    assert get(f"{index}/gelu/").status == get(f"{index}/relu/").status == 404

    done = run_pip("install", "--no-deps", "--target", str(tmp_path / "site"), f"relu @ {locked}")

    assert done.returncode == 0, done.stderr
    assert (tmp_path / "site" / "relu" / "__init__.py").is_file()


def test_pip_reads_metadata_before_the_wheel(server: Server, publish: Any, tmp_path: Path) -> None:
    publish("acme/relu", [STABLE_CPU])
    report = tmp_path / "report.json"
    done = run_pip(
        *("install", "--dry-run", "--ignore-installed", "--no-deps", "--report", str(report), "-v"),
        *("--index-url", f"{server.url}/simple/torch213-cpu/", "relu"),
    )
    assert done.returncode == 0, done.stderr
    metadata = json.loads(report.read_text())["install"][0]["metadata"]
    assert metadata["requires_dist"] == ["torch >= 2.11"]
    fetched = [line for line in done.stdout.splitlines() if "Downloading" in line]
    assert ".whl.metadata" in fetched[0], done.stdout  # older versions of pip fetch the wheel as well


@pytest.mark.parametrize("installer", ["pip", "uv"])
def test_newest_installers_take_the_very_wheel_whose_hash_they_are_told(
    server: Server, publish: Any, environment: Callable[[str], Path], tmp_path: Path, installer: str
) -> None:
    (wheel,) = publish("acme/relu", [STABLE_CPU])
    version = wheel.name.split("-")[1]
    requirement = tmp_path / "requirements.txt"
    index = f"{server.url}/simple/torch213-cpu/@acme/"
    python = str(environment(installer))
    program = {
        "pip": (python, "-m", "pip", "install", "--no-cache-dir", "--index-url", index),
        "uv": (*(python, "-m", "uv", "pip", "install", "--no-config", "--no-cache"), "--default-index", index),
    }[installer]

    def install(digest: str) -> bool:
        requirement.write_text(f"relu=={version} --hash=sha256:{digest}\n")
        target = ("--no-deps", "--require-hashes", "--target", str(tmp_path / digest), "-r", str(requirement))
        alone = {**os.environ, "PIP_CONFIG_FILE": os.devnull, "NO_PROXY": "*"}
        done = subprocess.run([*program, *target], env=alone, capture_output=True, text=True, check=False)
        assert done.returncode == 0 or "hash" in done.stderr.lower(), done.stderr
        return done.returncode == 0

    assert not install("0" * 64)
    assert install(hash_file(wheel)[1])
    assert (tmp_path / hash_file(wheel)[1] / "relu" / "__init__.py").is_file()


def test_pip_gets_a_private_kernel_with_a_token_alone(server: Server, publish: Any, tmp_path: Path) -> None:
    publish("acme/secret", [STABLE_CPU], private=True)
    member, stranger = server.user("mia"), server.user("sam")
    server.services.people.add_member("acme", "mia", "read")
    for user, status in ((f"mia:{member}@", 0), (f"{member}@", 0), (f"sam:{stranger}@", 1), ("", 1)):
        index = f"{server.url.replace('://', f'://{user}')}/simple/torch213-cpu/"
        done = run_pip("download", "--no-deps", "--dest", str(tmp_path / f"{user}x"), "--index-url", index, "secret")
        assert done.returncode == status, done.stderr


def test_what_a_token_does_not_open_is_not_there(server: Server, publish: Any) -> None:
    publish("acme/secret", [STABLE_CPU], private=True)
    publish("acme/open", [STABLE_CPU])
    index = f"{server.url}/simple/torch213-cpu"
    bearer = {"Authorization": f"Bearer {server.token}"}
    stranger = {"Authorization": f"Bearer {server.user('sam')}"}
    assert get(f"{index}/", **bearer).json["projects"] == [{"name": "open"}, {"name": "secret"}]
    file = get(f"{index}/secret/", **bearer).json["files"][0]["url"]
    assert get(file, **bearer).status == 200
    for asker in ({}, stranger):
        for scope in ("", "/@acme"):
            assert get(f"{index}{scope}/", **asker).json["projects"] == [{"name": "open"}]
            missing = get(f"{index}{scope}/absent/", **asker)
            hidden = get(f"{index}{scope}/secret/", **asker)
            assert hidden.status == missing.status == 404
            assert hidden.body.replace(b"secret", b"absent") == missing.body
        for address in (file, f"{file}.metadata"):
            hidden, missing = get(address, **asker), get(address.replace("/acme/secret/", "/acme/absent/"), **asker)
            assert hidden.status == missing.status
            assert hidden.status in {401, 404}
            assert hidden.body.replace(b"secret", b"absent") == missing.body


@pytest.mark.parametrize("credentials", ["Bearer kw_wrong", "Basic bWlhOmt3X3dyb25n", "Basic Og==", "Basic !"])
def test_a_wrong_token_is_refused_rather_than_taken_for_nobody(server: Server, credentials: str) -> None:
    assert get(f"{server.url}/simple/torch213-cpu/", Authorization=credentials).status == 401


@pytest.mark.parametrize(
    ("flavour", "locals_"),
    [
        ("torch213-cpu", {"torch.stable.abi211.cpu"}),
        ("torch211-cpu", {"torch.stable.abi211.cpu"}),
        ("torch29-cpu", set()),
        ("torch213-cu130", {"torch213.cxx11.cu130"}),
        ("torch213-cu132", {"torch213.cxx11.cu130"}),
        ("torch214-cu130", {"torch.stable.abi211.cu130"}),
        ("torch214-cu129", {"torch.stable.abi211.cu128"}),
        ("torch214-cu126", set()),
    ],
)
def test_a_flavour_gets_the_one_wheel_that_the_loader_would_take(
    server: Server, publish: Any, flavour: str, locals_: set[str]
) -> None:
    cuda128 = ("torch-stable-abi211-cu128", STABLE211, BackendFacts("cuda", (12, 8)))
    publish("acme/relu", [STABLE_CPU, STABLE_CUDA, ("torch213-cxx11-cu130", TORCH213, CUDA130), cuda128])
    answer = get(f"{server.url}/simple/{flavour}/relu/")
    files = answer.files if answer.status == 200 else []
    assert {re.split(r"[+-]", file)[2] for file in files} == locals_
    listed = get(f"{server.url}/simple/{flavour}/").json["projects"]
    assert listed == ([{"name": "relu"}] if locals_ else [])


def test_the_newest_floor_is_taken_where_local_versions_would_sort_otherwise(server: Server, publish: Any) -> None:
    older = ("torch-stable-abi29-cpu", FrameworkFacts("torch-stable-abi", (2, 9)), CPU)
    publish("acme/relu", [older, STABLE_CPU])
    assert [file.split("-")[1] for file in get(f"{server.url}/simple/torch213-cpu/relu/").files] == [
        "1+torch.stable.abi211.cpu"
    ]


@pytest.mark.parametrize(
    ("flavour", "words"),
    [
        ("torch999-cpu", "`999` in `torch999-cpu` is not a known torch version"),
        ("torch213-cu139", "`139` in `torch213-cu139` is not a known cuda version"),
        ("torch213-cu", "lacks the version of CUDA"),
        ("torch213-metal", "the loader's backends are cpu, cuda"),
        ("torch213", "such as `torch213-cu130` or `torch213-cpu`"),
        ("torch-stable-abi211-cpu", "such as `torch213-cu130` or `torch213-cpu`"),
    ],
)
def test_an_unknown_flavour_is_not_found_in_words(server: Server, flavour: str, words: str) -> None:
    for rest in ("", "/", "/relu/", "/@acme/", "/@acme/relu/"):
        answer = get(f"{server.url}/simple/{flavour}{rest}")
        assert answer.status == 404
        assert words in answer.json["error"]


def test_the_index_of_nobody_is_not_found_and_that_of_somebody_without_kernels_is_empty(server: Server) -> None:
    server.org("acme")

    assert get(f"{server.url}/simple/torch213-cpu/@nobody/").status == 404
    assert get(f"{server.url}/simple/torch213-cpu/@acme/").json["projects"] == []


def test_without_a_flavour_there_is_no_index(server: Server) -> None:
    answer = get(f"{server.url}/simple/")
    assert answer.status == 404
    assert "one index per flavour" in answer.json["error"]


def test_json_tells_of_hashes_sizes_python_and_metadata(server: Server, publish: Any) -> None:
    (wheel,) = publish("acme/relu", [STABLE_CPU])
    answer = get(f"{server.url}/simple/torch213-cpu/relu/")
    size, sha256 = hash_file(wheel)
    with zipfile.ZipFile(wheel) as archive:
        metadata = archive.read("relu-1+torch.stable.abi211.cpu.dist-info/METADATA")
    (file,) = answer.json["files"]
    url = file.pop("url")
    assert answer.headers["Content-Type"] == JSON
    assert answer.json["meta"] == {"api-version": "1.1"}
    assert (answer.json["name"], answer.json["versions"]) == ("relu", ["1+torch.stable.abi211.cpu"])
    assert file == {
        "filename": wheel.name,
        "hashes": {"sha256": sha256},
        "size": size,
        "requires-python": ">=3.9",
        "core-metadata": {"sha256": hash_bytes(metadata)},
    }
    assert get(f"{url}.metadata").body == metadata
    assert get(url).body == wheel.read_bytes()
    part = get(url, Range="bytes=-22")
    assert (part.status, part.body) == (206, wheel.read_bytes()[-22:])
    assert get(url, method="HEAD").headers["Content-Length"] == str(size)


def test_html_tells_the_same(server: Server, publish: Any) -> None:
    (wheel,) = publish("acme/relu", [STABLE_CPU])
    told = get(f"{server.url}/simple/torch213-cpu/relu/").json["files"][0]
    answer = get(f"{server.url}/simple/torch213-cpu/relu/", accept="text/html")
    metadata = f"sha256={told['core-metadata']['sha256']}"
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert (
        f'<a href="{told["url"]}#sha256={told["hashes"]["sha256"]}" data-core-metadata="{metadata}"'
        f' data-dist-info-metadata="{metadata}" data-requires-python="&gt;=3.9">{wheel.name}</a>'
    ) in answer.body.decode()
    assert '<a href="relu/">relu</a>' in get(f"{server.url}/simple/torch213-cpu/", accept="*/*").body.decode()


@pytest.mark.parametrize(
    ("accept", "media"),
    [
        (PIP, JSON),
        ("application/vnd.pypi.simple.latest+json", JSON),
        (f"text/html, {JSON};q=0.5", "text/html; charset=utf-8"),
        (f"{JSON};q=0, */*", "text/html; charset=utf-8"),
        (f"{JSON};q=x", "text/html; charset=utf-8"),
        ("", "text/html; charset=utf-8"),
    ],
)
def test_the_form_is_the_one_that_is_preferred(server: Server, accept: str, media: str) -> None:
    assert get(f"{server.url}/simple/torch213-cpu/", accept=accept).headers["Content-Type"] == media


def test_a_wheel_for_any_python_says_nothing_of_python(server: Server, publish: Any) -> None:
    publish("acme/relu", [STABLE_CPU], abi=PythonAbi("none", None))
    assert "requires-python" not in get(f"{server.url}/simple/torch213-cpu/relu/").json["files"][0]


def test_names_are_normalised_and_other_spellings_redirected(server: Server, publish: Any) -> None:
    publish("acme/Silu_and.Mul", [STABLE_CPU])
    index = f"{server.url}/simple/torch213-cpu"
    assert get(f"{index}/").json["projects"] == [{"name": "silu-and-mul"}]
    assert get(f"{index}/silu-and-mul/").status == 200
    for scope in ("", "/@acme"):
        for spelling in ("Silu_and.Mul/", "silu--and-mul/", "silu-and-mul"):
            answer = get(f"{index}{scope}/{spelling}")
            assert (answer.status, answer.headers["Location"]) == (308, f"{index}{scope}/silu-and-mul/")
    assert get(index).headers["Location"] == f"{index}/"


def test_a_name_of_two_owners_is_only_in_the_index_of_each(server: Server, publish: Any) -> None:
    publish("acme/relu", [STABLE_CPU])
    publish("other/relu", [STABLE_CUDA])
    index = f"{server.url}/simple/torch213-cpu"
    refused = get(f"{index}/relu/")
    assert refused.status == 404
    assert "`acme/relu`, `other/relu`" in refused.json["error"]
    assert get(f"{index}/").json["projects"] == []
    assert get(f"{index}/@acme/").json["projects"] == [{"name": "relu"}]
    assert len(get(f"{index}/@acme/relu/").files) == 1
    assert get(f"{index}/@other/relu/").status == 404


def test_a_private_namesake_is_in_nobodys_way_who_cannot_see_it(server: Server, publish: Any) -> None:
    publish("acme/relu", [STABLE_CPU])
    publish("other/relu", [STABLE_CPU], private=True)
    index = f"{server.url}/simple/torch213-cpu/relu/"
    assert get(index).status == 200
    assert get(index, Authorization=f"Bearer {server.token}").status == 404


def test_wheels_that_are_not_what_they_are_listed_as_are_left_out(server: Server, publish: Any) -> None:
    publish("acme/relu", [STABLE_CPU], package="torch")
    publish("acme/gelu", [STABLE_CPU], damage=True)
    for project in ("relu", "gelu", "torch"):
        assert get(f"{server.url}/simple/torch213-cpu/{project}/").status == 404


def test_only_wheels_of_that_repository_have_an_address_here(server: Server, publish: Any) -> None:
    publish("acme/relu", [STABLE_CPU])
    publish("acme/gelu", [STABLE_CPU])
    url = get(f"{server.url}/simple/torch213-cpu/relu/").json["files"][0]["url"]
    assert get(url.replace("/acme/relu/", "/acme/gelu/")).status == 404
    assert get(url.rpartition("/wheels/")[0] + f"/{INDEX_NAME}").status == 404
    assert get(url.rpartition("/")[0] + "/absent.whl.metadata").status == 404


def test_metadata_of_a_hostile_archive_is_not_read(server: Server, tmp_path: Path) -> None:
    bomb = tmp_path / "bomb.whl"
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("relu-1.dist-info/METADATA", b"\0" * (1 << 23))
    double = tmp_path / "double.whl"
    with zipfile.ZipFile(double, "w") as archive:
        archive.writestr("relu-1.dist-info/METADATA", b"Name: relu\n")
        archive.writestr("gelu-1.dist-info/METADATA", b"Name: gelu\n")
    text = tmp_path / "text.whl"
    text.write_bytes(b"no archive")
    server.org("acme")
    repositories = server.services.repositories
    repo = repositories.create(server.operator, "kernel", "acme/relu", private=False)
    files = []
    for path in (bomb, double, text):
        sha256, size = repositories.receive(repo, [path.read_bytes()], expected=None, limit=1 << 24)
        files.append(AddFile(path.name, sha256, size, lfs=True))
    commit = repositories.commit(server.operator, repo, "main", files, message="upload", description="", parent=None)
    for path in (bomb, double, text):
        url = f"{server.url}/simple/files/acme/relu/{commit}/{path.name}"
        assert get(url).status == 200
        assert get(f"{url}.metadata").status == 404
