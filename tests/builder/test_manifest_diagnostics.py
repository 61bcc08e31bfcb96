"""The refusals of the manifest: each with file, line, column, what and hint."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernelworks_build.errors import ManifestError
from kernelworks_build.manifest import Diagnostic, check_manifest, parse_manifest, read_manifest, require

GOLDEN = Path(__file__).parent / "golden" / "manifest"

VALID = """\
[general]
name = "relu"
version = 1
edition = 5
license = "Apache-2.0"
backends = ["cpu"]

[torch]
src = ["torch-ext/torch_binding.cpp"]

[kernel.relu_cpu]
backend = "cpu"
depends = ["torch"]
src = ["cpu/relu.cpp"]
"""
FILES = (
    "torch-ext/torch_binding.cpp",
    "torch-ext/torch_binding.h",
    "torch-ext/relu/__init__.py",
    "cpu/relu.cpp",
)


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory: every file of a small kernel but its manifest."""
    root = tmp_path / "relu"
    for file in FILES:
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).touch()
    monkeypatch.chdir(root)
    return root


def said(manifest: str | bytes) -> list[str]:
    """What is said of a manifest with this content in the working directory."""
    Path("build.toml").write_bytes(manifest.encode() if isinstance(manifest, str) else manifest)
    return [str(diagnostic) for diagnostic in check_manifest(Path())]


def test_a_valid_manifest_has_no_fault() -> None:
    assert said(VALID) == []


def test_every_fault_of_a_file_is_reported_at_once_in_the_order_of_the_file() -> None:
    Path("outside").symlink_to("../outside")
    found = said((GOLDEN / "many_faults.toml").read_text(encoding="utf-8"))
    assert "\n".join(found) + "\n" == (GOLDEN / "many_faults.txt").read_text(encoding="utf-8")


REFUSALS = {
    "unknown key": (
        'license = "Apache-2.0"',
        'license = "Apache-2.0"\nlicence = "MIT"',
        "6:1: `licence` is not a key of `[general]`; did you mean `license`?",
    ),
    "unknown key with an underscore": (
        'backend = "cpu"',
        'backend = "cpu"\ncxx_flags = []',
        "13:1: `cxx_flags` is not a key of `[kernel.relu_cpu]`; did you mean `cxx-flags`?",
    ),
    "missing key": (
        "version = 1\n",
        "",
        "1:2: `[general]` lacks the key `version`; add `version = 1`",
    ),
    "wrong type": (
        "version = 1",
        "version = true",
        "3:11: `general.version` must be a whole number, not `true`",
    ),
    "version below zero": (
        "version = 1",
        "version = -1",
        "3:11: `-1` is below zero; a major version is 0 or more",
    ),
    "unknown backend": (
        'backends = ["cpu"]',
        'backends = ["cpu", "CUDA"]',
        "6:20: `CUDA` is not a known backend; did you mean `cuda`?",
    ),
    "unknown backend of a component": (
        'backend = "cpu"',
        'backend = "cpuu"',
        "12:11: `cpuu` is not a known backend of a component; did you mean `cpu`?",
    ),
    "component without a backend": (
        'backend = "cpu"\n',
        "",
        '11:9: `[kernel.relu_cpu]` lacks the key `backend`; add `backend = "cuda"`',
    ),
    "no backend": (
        'backends = ["cpu"]',
        "backends = []",
        '6:12: `general.backends` is empty; list at least one, as in `["cpu", "cuda"]`',
    ),
    "declared backend without component": (
        'backends = ["cpu"]',
        'backends = ["cpu", "cuda"]',
        (
            "6:20: no component is compiled for backend `cuda`; "
            'add a `[kernel.<name>]` with `backend = "cuda"`, or remove it from `backends`'
        ),
    ),
    "declared backend that has only noarch kernels": (
        'backends = ["cpu"]',
        'backends = ["cpu", "tpu"]',
        (
            "6:20: no component is compiled for backend `tpu`; "
            "only `[torch-noarch]` kernels can have it; remove it from `backends`"
        ),
    ),
    "component of an undeclared backend": (
        "[kernel.relu_cpu]",
        '[kernel.relu_xpu]\nbackend = "xpu"\ndepends = []\nsrc = ["cpu/relu.cpp"]\n\n[kernel.relu_cpu]',
        (
            "12:11: warning: `relu_xpu` is not built: `xpu` is not among the backends of `[general]`; "
            'add `"xpu"` to `backends`'
        ),
    ),
    "empty source list": (
        'src = ["cpu/relu.cpp"]',
        "src = []",
        '14:7: `kernel.relu_cpu.src` is empty; list at least one, as in `["csrc/kernel.cu"]`',
    ),
    "missing source": (
        '"cpu/relu.cpp"',
        '"cpu/relu.cc"',
        "14:8: `cpu/relu.cc` does not exist; did you mean `cpu/relu.cpp`?",
    ),
    "missing folder of a source": (
        '"cpu/relu.cpp"',
        '"cpuu/relu.cpp"',
        "14:8: `cpuu/relu.cpp` does not exist; did you mean `cpu/relu.cpp`?",
    ),
    "source above the project": (
        '"cpu/relu.cpp"',
        '"../relu.cpp"',
        "14:8: `../relu.cpp` may leave the project; paths hold no `..`; move the file into the project",
    ),
    "absolute source": (
        '"cpu/relu.cpp"',
        '"/etc/passwd"',
        "14:8: `/etc/passwd` is an absolute path; paths are relative to the folder of build.toml",
    ),
    "source on a drive": (
        '"cpu/relu.cpp"',
        '"C:/relu.cpp"',
        "14:8: `C:/relu.cpp` is an absolute path; paths are relative to the folder of build.toml",
    ),
    "no framework": (
        '[torch]\nsrc = ["torch-ext/torch_binding.cpp"]\n',
        "",
        "1:1: the manifest lacks a framework table; add one of `[torch]`, `[tvm-ffi]`, `[torch-noarch]`",
    ),
    "noarch with a component": (
        '[torch]\nsrc = ["torch-ext/torch_binding.cpp"]\n',
        "[torch-noarch]\n",
        (
            "10:9: warning: `relu_cpu` is not built: a `[torch-noarch]` kernel has no components; "
            "use `[torch]`, or remove it"
        ),
    ),
    "unquoted version keeps its digits": (
        "[torch]",
        "[torch]\nstable-abi = 2.10",
        ('9:14: `torch.stable-abi` must be text in quotes, not the number `2.10`; write it in quotes: `"2.10"`'),
    ),
    "bounds upside down": (
        "[torch]",
        '[torch]\nminver = "2.10"\nmaxver = "2.9"',
        "10:10: maxver `2.9` is below minver `2.10`, so nothing would be built",
    ),
    "tool that is no table": (
        "[torch]",
        "[tool]\nkernelworks = 1\n\n[torch]",
        (
            "9:15: `tool.kernelworks` must be a table, not the number `1`; "
            "write its keys below a header `[tool.kernelworks]`"
        ),
    ),
}


@pytest.mark.parametrize(("old", "new", "expected"), REFUSALS.values(), ids=REFUSALS.keys())
def test_a_fault_is_reported_with_its_place_and_what_to_do(old: str, new: str, expected: str) -> None:
    assert VALID.count(old) == 1
    assert said(VALID.replace(old, new)) == [f"build.toml:{expected}"]


@pytest.mark.parametrize(
    ("name", "broken", "hint"),
    [
        ("My_Kernel", "it must start with a lower-case letter; it may hold lower-case", "try `my-kernel`"),
        ("a.b", "it may hold lower-case letters, digits and dashes, not `.`", "try `a-b`"),
        ("-x", "it must start with a lower-case letter", "try `x-kernel`"),
        ("x-", "it must not end with a dash", "try `x-kernel`"),
        ("x", "it needs at least 2 characters", "try `x-kernel`"),
        ("", "it needs at least 2 characters", "a name looks like `silu-and-mul`"),
        ("class", "it is a keyword of Python", "try `class-kernel`"),
        ("json", "it is a module of Python's standard library", "try `json-kernel`"),
        ("k" * 300, "it has 300 characters and may have 64", "try `kkk"),
        ("größe", "it may hold lower-case letters, digits and dashes, not `ß`, `ö`", "try `grosse`"),
    ],
)
def test_a_bad_name_is_refused_with_the_rule_that_it_breaks(name: str, broken: str, hint: str) -> None:
    (found,) = said(VALID.replace('"relu"', f'"{name}"'))
    assert found.startswith("build.toml:2:8: ")
    assert f"cannot be the name of a kernel: {broken}" in found
    assert hint in found


def test_a_source_behind_a_symbolic_link_that_leaves_the_project_is_refused(project: Path) -> None:
    (project.parent / "secret.cpp").touch()
    Path("cpu/relu.cpp").unlink()
    Path("cpu/relu.cpp").symlink_to("../../secret.cpp")
    assert said(VALID) == [
        ("build.toml:14:8: `cpu/relu.cpp` leaves the project through a symbolic link; copy the file into the project")
    ]


def test_a_source_behind_a_symbolic_link_inside_the_project_is_accepted() -> None:
    Path("cpu/relu.cpp").rename("cpu/other.cpp")
    Path("cpu/relu.cpp").symlink_to("other.cpp")
    assert said(VALID) == []


def test_a_python_file_behind_a_symbolic_link_that_leaves_the_project_is_refused() -> None:
    Path("torch-ext/relu/secret.py").symlink_to("/etc/passwd")
    assert said(VALID) == [
        (
            "build.toml:2:8: `torch-ext/relu/secret.py` leaves the project through a symbolic link; "
            "copy the file into the project"
        )
    ]


def test_a_kernel_without_its_python_package_is_refused() -> None:
    Path("torch-ext/relu").rename("torch-ext/relu_")
    assert said(VALID) == [
        (
            "build.toml:2:8: the Python package of the kernel is missing: "
            "`torch-ext/relu/__init__.py` does not exist; did you mean `torch-ext/relu_`?"
        )
    ]


def test_a_python_module_that_the_build_writes_itself_is_warned_of() -> None:
    Path("torch-ext/relu/_ops.py").touch()
    assert said(VALID) == [
        "build.toml:2:8: warning: `torch-ext/relu/_ops.py` is not used: each build writes its own; remove it"
    ]


def test_a_linked_folder_in_the_python_package_is_refused() -> None:
    Path("torch-ext/relu/layers").symlink_to("../../cpu")
    assert said(VALID) == [
        (
            "build.toml:2:8: `torch-ext/relu/layers` is a linked folder, which is not shipped; "
            "copy the folder into the package"
        )
    ]


@pytest.mark.parametrize(
    "content",
    [
        "",
        '[build]\ntarget = "wasm"\n',
        '[generic]\nname = "os"\n[toolchain]\nversion = "1"\n',
        '[kernel]\nversion = "6.1"\npatches = []\n',
        "[general]\nverbose = true\n",
    ],
)
def test_the_file_of_another_tool_is_no_kernel_manifest(content: str) -> None:
    (found,) = said(content)
    assert found.startswith("build.toml:1:1: this is not a kernel manifest: ")


def test_a_folder_without_manifest_is_refused() -> None:
    assert [str(one) for one in check_manifest(Path("cpu"))] == [
        (
            "cpu/build.toml:1:1: there is no `build.toml` in `cpu`; "
            "`kernel-build init NAME` starts a kernel; else give the folder that holds it"
        )
    ]
    assert check_manifest(Path("nowhere"))[0].what == "`nowhere` is not a folder"


def test_of_an_edition_that_no_file_carries_only_the_edition_is_reported() -> None:
    assert said(VALID.replace("edition = 5", "edition = 6\ncolour = 1")) == [
        "build.toml:4:11: edition 6 is not read here; the newest is 5; a newer kernel-build may know it"
    ]
    assert "remove the key: editions before carry none" in said(VALID.replace("edition = 5", "edition = 3"))[0]


@pytest.mark.parametrize("rest", ["", '[general.hub]\nrepo-id = "org/relu"\n'])
def test_a_misspelt_table_is_not_taken_for_an_older_edition(rest: str) -> None:
    assert said(VALID.replace("[general]", "[genral]") + rest) == [
        "build.toml:1:2: `genral` is not a table of a manifest; did you mean `general`?"
    ]


def test_a_misspelt_backend_is_one_fault_without_those_that_follow_from_it() -> None:
    cuda = '\n[kernel.relu_cuda]\nbackend = "cuda"\ndepends = ["torch"]\nsrc = ["cpu/relu.cpp"]\n'
    text = VALID.replace('["cpu"]', '["cpu", "cud"]').replace("[kernel", '[torch.stable-abi]\ncuda = "2.11"\n\n[kernel')
    assert said(text + cuda) == ["build.toml:6:20: `cud` is not a known backend; did you mean `cuda`?"]


def test_a_python_file_that_does_not_compile_is_an_error_at_its_place() -> None:
    Path("torch-ext/relu/ops.py").write_text("x = 1\ny = (\n")
    assert said(VALID) == ["torch-ext/relu/ops.py:2:5: not valid Python: '(' was never closed"]
    Path("torch-ext/relu/ops.py").write_text("x = '\\d'\n")  # only a warning of Python's
    assert said(VALID) == []


def test_a_file_that_no_index_may_list_is_refused_before_anything_is_built() -> None:
    deep = Path("torch-ext/relu", *["d" * 60] * 4, "long_enough.json")
    deep.parent.mkdir(parents=True)
    deep.touch()
    (found,) = said(VALID)
    assert "would not be loaded from a published kernel; name it so that it is printable, at most 255 bytes" in found


@pytest.mark.parametrize("line", ['license = "a\\u001b[2Jb"', 'upstream = "https://x/\\u001b[2J"'])
def test_a_text_that_a_terminal_could_obey_is_refused(line: str) -> None:
    key = line.partition(" ")[0]
    kept = "\n".join(other for other in VALID.splitlines() if not other.startswith(key))
    (found,) = said(kept.replace("edition = 5", f"edition = 5\n{line}"))
    assert "\x1b" not in found
    assert "\\x1b" in found


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("a = 1\nb = [1,\n", "3:1: not valid TOML: "),
        ("a = 1\n\nb == 2\n", "3:4: not valid TOML: invalid value; texts stand in quotes"),
        ("[a.b]\n[a.b]\n", "2:5: not valid TOML: the table `[a.b]` is given twice"),
        ("a = 1\na = 2\n", "2:1: not valid TOML: `a` is given twice"),
        (b"a = 1\nb = '\xff'\n", "2:6: not UTF-8 text; save it as UTF-8"),
        ("a = " + "[" * 50_000, "1:1: not a manifest: values are nested too deeply"),
    ],
    ids=["open list", "two signs", "double table", "double key", "not UTF-8", "deep"],
)
def test_what_is_not_toml_is_reported_in_the_same_form(content: str | bytes, expected: str) -> None:
    (found,) = said(content)
    assert found.startswith(f"build.toml:{expected}")


def test_columns_count_characters_and_survive_a_byte_order_mark_and_windows_lines() -> None:
    text = VALID.replace('"Apache-2.0"', '"Größe ✓"').replace("version = 1", "version = true")
    windows = b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode()
    assert said(windows) == said(text)
    assert said('x = {"ключ" = 1, y = 2}\n' + VALID)[0].startswith("build.toml:1:1: `x` is not a table")


def test_reading_a_faulty_manifest_raises_all_faults_as_text_and_as_json() -> None:
    said(VALID.replace("version = 1", "version = true").replace('"torch"]', '"torhc"]'))
    with pytest.raises(ManifestError) as caught:
        read_manifest(Path())
    assert caught.value.exit_code == 20
    assert str(caught.value).splitlines() == [
        "build.toml:3:11: `general.version` must be a whole number, not `true`",
        "build.toml:13:12: `torhc` is not a known dependency; did you mean `torch`?",
        "2 errors",
    ]
    assert caught.value.to_json()["context"]["diagnostics"][0] == {
        "file": "build.toml",
        "line": 3,
        "column": 11,
        "severity": "error",
        "code": "wrong-type",
        "what": "`general.version` must be a whole number, not `true`",
        "hint": None,
    }


def test_a_manifest_with_warnings_only_is_read() -> None:
    assert said(VALID.replace('"cpu/relu.cpp"', '"cpu/relu.cpp", "cpu/relu.cpp"')) == [
        "build.toml:14:24: warning: `cpu/relu.cpp` is listed twice; it is already in line 14"
    ]
    (component,) = read_manifest(Path()).components
    assert component.src == ("cpu/relu.cpp",)
    assert read_manifest(Path()).declared_sources() == ("cpu/relu.cpp", "torch-ext/torch_binding.cpp")


KEYS = st.sampled_from(
    [
        "general",
        "name",
        "version",
        "edition",
        "backends",
        "torch",
        "torch-noarch",
        "stable-abi",
        "src",
        "kernel",
        "a",
        "backend",
        "cuda",
        "depends",
        "tool",
        "x_y",
        "language",
        "python-depends",
    ]
)
VALUES = st.recursive(
    st.sampled_from(
        [
            '"relu"',
            '"cuda"',
            '"cuda-hipify"',
            '"nvidia-cutlass-dsl"',
            '"cpu"',
            '""',
            "5",
            "1.10",
            "true",
            "1979-05-27",
            '"../x"',
            '"a\\nb"',
        ]
    ),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]")
        | st.dictionaries(KEYS, inner, max_size=4).map(
            lambda table: "{" + ", ".join(f"{key} = {value}" for key, value in table.items()) + "}"
        )
    ),
    max_leaves=12,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=80)
@given(st.dictionaries(KEYS, VALUES, max_size=6), VALUES, st.sampled_from(["edition = 5", "universal = true", "x = 1"]))
def test_any_toml_document_is_judged_with_one_line_per_fault_at_a_place_inside_it(
    document: dict[str, str], name: str, more: str
) -> None:
    text = f"general.name = {name}\ngeneral.{more}\n" + "".join(
        f"{key} = {value}\n" for key, value in document.items() if key != "general"
    )
    manifest, found = parse_manifest(text.encode(), "build.toml", Path())
    assert (manifest is None) == any(one.severity == "error" for one in found)
    for one in found:
        assert isinstance(one, Diagnostic)
        assert "\n" not in str(one)
        assert one.column <= len(text.splitlines()[one.line - 1])


@pytest.mark.parametrize(
    "flag",
    [
        "-march=native",
        "-mtune=native",
        "-mcpu=native",
        "@flags.txt",
        "-fplugin=x.so",
        "-fplugin-arg-x-y",
        "-specs=x",
        "--specs=x",
        "-B/usr/bin",
        "-o",
        "-ofile",
        "-wrapper",
        "-Xcompiler=-O2,-march=native",
        "--compiler-options='-O2 -B/usr/bin'",
        "-Xcompiler=@flags.txt",
    ],
)
def test_a_flag_that_leaves_the_toolchain_or_belongs_to_the_builder_is_refused(flag: str) -> None:
    (found,) = said(VALID.replace('src = ["cpu/relu.cpp"]', f'src = ["cpu/relu.cpp"]\ncxx-flags = ["{flag}"]'))
    assert found.startswith(f"build.toml:15:14: `{flag}`: ")
    with pytest.raises(ManifestError):
        read_manifest(Path())


@pytest.mark.parametrize("flag", ["-march=haswell", "-O3", "-fopenmp", "-Xcompiler=-O2,-fno-math-errno", "-DX=a@b"])
def test_other_flags_are_the_authors(flag: str) -> None:
    assert said(VALID.replace('src = ["cpu/relu.cpp"]', f'src = ["cpu/relu.cpp"]\ncxx-flags = ["{flag}"]')) == []


def test_the_severity_of_a_flag_is_an_error_only_where_nothing_may_be_built() -> None:
    said(VALID.replace('src = ["cpu/relu.cpp"]', 'src = ["cpu/relu.cpp"]\ncxx-flags = ["-lfoo"]'))
    (warning,) = check_manifest(Path())
    assert warning.severity == "warning"
    require([warning])
    assert read_manifest(Path()).name == "relu"


def test_without_files_only_the_manifest_itself_is_judged() -> None:
    said(VALID.replace('"cpu/relu.cpp"', '"cpu/gone.cpp"'))
    assert check_manifest(Path(), files=False) == []
    with pytest.raises(ManifestError, match="does not exist"):
        require(check_manifest(Path()))


@pytest.mark.parametrize("repo_id", ["org/name_", "org/a..b", "org.-/name", "a/b/c", "name", "-org/name"])
def test_a_repository_that_the_loader_would_refuse_is_refused(repo_id: str) -> None:
    (found,) = said(VALID.replace("[torch]", f'[general.hub]\nrepo-id = "{repo_id}"\n\n[torch]'))
    assert "is not a repository id; an id is `org/name`" in found
