"""`kernel-build migrate`: older manifests in the newest edition, with all else kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelworks.errors import UsageError
from kernelworks_build.errors import ManifestError
from kernelworks_build.manifest import migrate, parse_manifest
from kernelworks_build.toml import parse_toml

OLD = """\
# A kernel.
[general]
name = "relu" # its name
version = 1
license = "mit"
backends = ["cpu"]

# It has a binding.
[torch]
src = ["binding.cpp"]

[kernel.relu]
backend = "cpu"
depends = ["torch"]
src = [
  "relu.cpp", # the only one
]
"""
NEW = OLD.replace("version = 1\n", "version = 1\nedition = 5\n")


def test_a_migrated_file_keeps_comments_order_line_ends_and_byte_order_mark() -> None:
    assert migrate(OLD.encode(), "build.toml").new == NEW.encode()
    windows = b"\xef\xbb\xbf" + OLD.replace("\n", "\r\n").encode()
    assert migrate(windows, "build.toml").new == b"\xef\xbb\xbf" + NEW.replace("\n", "\r\n").encode()


def test_the_newest_edition_stays_as_it_is() -> None:
    found = migrate(NEW.encode(), "build.toml")
    assert (found.new, found.edition, found.diff("build.toml")) == (NEW.encode(), 5, "")


def test_a_licence_must_be_given_where_the_file_names_none() -> None:
    nameless = OLD.replace('license = "mit"\n', "").encode()
    with pytest.raises(UsageError, match="edition 5 needs a licence"):
        migrate(nameless, "build.toml")
    assert parse_toml(migrate(nameless, "build.toml", "apache-2.0").new.decode())["general"]["license"] == "apache-2.0"
    with pytest.raises(ManifestError, match="is not one line of text"):
        migrate(nameless, "build.toml", "a\nb")


def test_a_faulty_manifest_is_not_migrated() -> None:
    with pytest.raises(ManifestError, match=r"build\.toml:5:11: `general\.license` must be text"):
        migrate(OLD.replace('"mit"', "1").encode(), "build.toml")


def test_inline_tables_and_dotted_keys_are_migrated_in_their_own_form() -> None:
    text = (
        'general = { name = "relu", universal = false, cuda-minver = "12.4" }\n'
        'torch.src = ["binding.cpp"]\n'
        'kernel.relu = { backend = "cuda", depends = [], src = ["relu.cu"] }'
    )
    assert migrate(text.encode(), "build.toml", "mit").new.decode() == (
        'general = { name = "relu", version = 1, edition = 5, license = "mit", backends = ["cuda"], '
        'cuda.minver = "12.4" }\n'
        'torch.src = ["binding.cpp"]\n'
        'kernel.relu = { backend = "cuda", depends = [], src = ["relu.cu"] }'
    )


NAMES = st.sampled_from(["relu", "_relu", "fast-relu", "Relu2"])
FILES = st.lists(st.sampled_from(["a.cpp", "b c.cc", "größe.h"]), min_size=1, max_size=3, unique=True)
DEPENDS = st.lists(st.sampled_from(["torch", "cutlass_sycl", "cutlass_4_0"]), max_size=2, unique=True)
BINDING = {"src": FILES}


def table(required: dict[str, Any], **optional: Any) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(required, optional={key.replace("_", "-"): value for key, value in optional.items()})


FIRST = table(
    {
        "general": table({"name": st.just("relu")}),
        "torch": table(BINDING, universal=st.booleans(), include=FILES, pyext=st.just(["json"])),
        "kernel": st.dictionaries(
            NAMES,
            table(
                {"depends": DEPENDS, "src": FILES},
                language=st.sampled_from(["cuda", "cuda-hipify", "metal"]),
                cuda_capabilities=st.just(["9.0a"]),
                rocm_archs=st.just(["gfx942"]),
            ),
            min_size=1,
        ),
    }
)
SECOND = table(
    {
        "general": table(
            {"name": st.just("relu")},
            universal=st.booleans(),
            cuda_minver=st.just("12.4"),
            cuda_maxver=st.just("13.0"),
            python_depends=st.permutations(["einops", "nvidia-cutlass-dsl"]),
            hub=table({}, branch=st.just("v1")),
        ),
        "torch": table(BINDING, minver=st.just("2.9"), pyext=st.just(["json"])),
    },
    kernel=st.dictionaries(
        NAMES,
        table({"backend": st.sampled_from(["cpu", "cuda"]), "depends": DEPENDS, "src": FILES}, cxx_flags=st.just([])),
    ),
)
COMPONENT = st.fixed_dictionaries({"backend": st.just("cuda"), "depends": DEPENDS, "src": FILES})
GENERAL = {"name": st.just("relu"), "backends": st.just(["cuda"])}
THIRD = table({"general": table(GENERAL, version=st.integers(0, 9))}, torch=table(BINDING, maxver=st.just("2.15")))
FOURTH = table(
    {
        "general": table(
            GENERAL | {"version": st.just(1), "license": st.just("mit")}, cuda=table({}, minver=st.just("12"))
        ),
        "torch": table(BINDING, stable_abi=st.just("2.11")),
        "kernel": st.dictionaries(NAMES, COMPONENT, min_size=1),
    }
)


@settings(max_examples=80, deadline=None)
@given(FIRST | SECOND | THIRD | FOURTH)
def test_the_migrated_file_says_what_was_read_of_the_old_one_and_is_migrated_once(document: dict[str, Any]) -> None:
    data = tomli_w.dumps(document).encode()
    manifest, diagnostics = parse_manifest(data, "build.toml")
    assert manifest, diagnostics
    migrated = migrate(data, "build.toml", "unknown")
    again, told = parse_manifest(migrated.new, "build.toml")
    assert again == manifest
    assert "old-edition" not in {one.code for one in told}
    assert migrate(migrated.new, "build.toml").new == migrated.new


@pytest.fixture(name="project")
def old_project(tmp_path: Path) -> Path:
    (tmp_path / "build.toml").write_text(OLD)
    return tmp_path


def test_the_command_rewrites_the_file_and_shows_what_changed(project: Path, kernel_build: Any) -> None:
    (project / "build.toml").chmod(0o640)
    done = kernel_build("migrate", project)
    assert (done.code, done.stdout) == (0, "")
    assert "\n+edition = 5\n" in done.stderr
    assert (project / "build.toml").read_text() == NEW
    assert (project / "build.toml").stat().st_mode & 0o777 == 0o640
    assert kernel_build("migrate", project).stderr == f"{project}/build.toml: of edition 5 already\n"


def test_the_command_can_check_without_writing_and_speak_json(project: Path, kernel_build: Any) -> None:
    done = kernel_build("migrate", project, "--check", "--json")
    assert (done.code, done.document["error"]["context"]["edition"]) == (20, 4)
    assert (project / "build.toml").read_text() == OLD
    document = json.loads(kernel_build("migrate", project, "--json").stdout)
    assert (document["from"], document["to"], document["changed"], document["diagnostics"]) == (4, 5, True, [])
    assert kernel_build("migrate", project, "--check").code == 0


def test_check_fails_on_warnings_only_where_it_is_strict(project: Path, kernel_build: Any) -> None:
    done = kernel_build("check", project, "--manifest-only", "--json")
    assert (done.code, done.document["diagnostics"][0]["code"]) == (0, "old-edition")
    assert kernel_build("check", project, "--manifest-only", "--strict").code == 20
