"""Debs, source distributions and wheels as bags of files: what is taken, where it goes, and what is refused."""

from __future__ import annotations

import io
import re
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from kernelworks_build.errors import ToolchainError
from kernelworks_build.toolchain import deb, sdist, wheel
from kernelworks_build.toolchain.lock import Artifact
from kernelworks_build.toolchain.recipes import Layout, Place, layout
from kernelworks_build.toolchain.tree import FileEntry, LinkEntry, write
from kernelworks_build.toolchain.unpack import unpack


def write_deb(path: Path, members: list[tarfile.TarInfo], data: bytes = b"data", compression: str = "xz") -> Path:
    payload = io.BytesIO()
    with tarfile.open(fileobj=payload, mode=f"w:{compression}") as archive:  # type: ignore[call-overload]
        for member in members:
            member.size = len(data) if member.isreg() else 0
            archive.addfile(member, io.BytesIO(data))
    parts = {
        "debian-binary": b"2.0\n",
        "control.tar.xz": b"odd",
        f"data.tar.{compression}": payload.getvalue(),
    }
    text = b"!<arch>\n"
    for name, content in parts.items():
        header = f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(content):<10}`\n"
        text += header.encode() + content + b"\n" * (len(content) % 2)
    path.write_bytes(text)
    return path


def member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "", mode: int = 0o644) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode = kind, target, mode
    return info


def write_wheel(path: Path, files: Mapping[str, bytes], mode: int = 0o100644) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            info = zipfile.ZipInfo(name)
            info.external_attr = mode << 16
            archive.writestr(info, data)
    return path


def write_sdist(path: Path, *members: tarfile.TarInfo, data: bytes = b"data") -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for item in members:
            item.size = len(data) if item.isreg() else 0
            archive.addfile(item, io.BytesIO(data))
    return path


def artifact(name: str, kind: str) -> Artifact:
    return Artifact(name, "1", kind, f"{name}.{kind}", 1, "a" * 64)


@pytest.mark.parametrize("compression", ["xz", "gz"])
def test_a_deb_gives_what_it_has_below_usr_with_the_merged_folders_of_the_root(
    tmp_path: Path, compression: str
) -> None:
    path = write_deb(
        tmp_path / "a.deb",
        [
            member("./", tarfile.DIRTYPE),
            member("./etc/a.conf"),
            member("./usr/bin/tool", mode=0o755),
            member("./usr/bin/again", tarfile.LNKTYPE, "./usr/bin/tool", 0o755),
            member("./lib/x/liba.so.1"),
            member("./usr/lib/x/liba.so", tarfile.SYMTYPE, "/lib/x/liba.so.1"),
            member("./lib64/ld.so", tarfile.SYMTYPE, "../lib/x/liba.so.1"),
        ],
        compression=compression,
    )

    assert list(deb.entries(path)) == [
        FileEntry("bin/tool", True, b"data"),
        FileEntry("bin/again", True, b"data"),
        FileEntry("lib/x/liba.so.1", False, b"data"),
        LinkEntry("lib/x/liba.so", "liba.so.1"),
        LinkEntry("lib64/ld.so", "../lib/x/liba.so.1"),
    ]


@pytest.mark.parametrize(
    ("hostile", "says"),
    [
        (member("./usr/../../out"), "outside of the tree"),
        (member("/usr/bin/out"), "outside of the tree"),
        (member("./usr/bin/a", tarfile.SYMTYPE, "/etc/shadow"), "outside of the tree"),
        (member("./usr/bin/a", tarfile.SYMTYPE, "../../../../etc/shadow"), "outside of the tree"),
        (member("./usr/dev/a", tarfile.CHRTYPE), "neither file, folder nor link"),
    ],
)
def test_a_deb_that_leaves_its_tree_is_refused(tmp_path: Path, hostile: tarfile.TarInfo, says: str) -> None:
    path = write_deb(tmp_path / "evil.deb", [hostile])

    with pytest.raises(ToolchainError, match=says):
        write(tmp_path / "tree", deb.entries(path), path.name)
    assert not [path for path in (tmp_path / "tree").rglob("*") if not path.is_dir()]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"no archive", "is no Debian package"),
        (b"!<arch>\n", "has no payload"),
        (b"!<arch>\n" + b"data.tar.lz4    0           0     0     100644  4         `\nlz4!", "cannot read"),
    ],
)
def test_what_is_no_deb_is_refused(tmp_path: Path, content: bytes, says: str) -> None:
    (tmp_path / "a.deb").write_bytes(content)

    with pytest.raises(ToolchainError, match=says):
        list(deb.entries(tmp_path / "a.deb"))


def test_a_wheel_gives_its_files_and_no_links(tmp_path: Path) -> None:
    plain = write_wheel(tmp_path / "a.whl", {"a/": b"", "a/b": b"1"}, mode=0o100755)
    linked = write_wheel(tmp_path / "b.whl", {"a/b": b"/etc/shadow"}, mode=0o120777)

    assert list(wheel.entries(plain)) == [FileEntry("a/b", True, b"1")]
    with pytest.raises(ToolchainError, match=r"`a/b` of `b\.whl` is a link"):
        list(wheel.entries(linked))
    with pytest.raises(ToolchainError, match="is no wheel"):
        list(wheel.entries(Path(__file__)))


def test_a_source_distribution_gives_its_files_and_no_links(tmp_path: Path) -> None:
    plain = write_sdist(tmp_path / "a.tar.gz", member("a-1", tarfile.DIRTYPE), member("a-1/b", mode=0o755))
    linked = write_sdist(tmp_path / "b.tar.gz", member("b-1/c", tarfile.SYMTYPE, "/etc/shadow"))
    short = tmp_path / "c.tar.gz"
    short.write_bytes(plain.read_bytes()[:-20])

    assert list(sdist.entries(plain)) == [FileEntry("a-1/b", True, b"data")]
    with pytest.raises(ToolchainError, match=r"`b-1/c` of `b\.tar\.gz` is neither file nor folder"):
        list(sdist.entries(linked))
    for path in (short, Path(__file__)):
        with pytest.raises(ToolchainError, match="is no source distribution"):
            list(sdist.entries(path))


def test_the_headers_of_a_source_distribution_lie_where_those_of_a_wheel_do(tmp_path: Path) -> None:
    root = "flashinfer_python-0.2.6/3rdparty/cutlass"
    names = (f"{root}/include/a.h", f"{root}/tools/util/include/b.h", f"{root}/examples/c.cu", f"{root}/../setup.py")
    path, item = write_sdist(tmp_path / "x.tar.gz", *map(member, names)), artifact("flashinfer-python", "sdist")

    unpack({item: path}, layout("cutlass"), tmp_path / "tree")

    found = [str(file.relative_to(tmp_path / "tree")) for file in (tmp_path / "tree").rglob("*") if file.is_file()]
    assert sorted(found) == ["include/a.h", "tools/util/include/b.h"]


def test_only_wheels_are_cut() -> None:
    plan = layout("cutlass")

    assert plan.cut_of(artifact("flashinfer-python", "wheel"))
    assert plan.cut_of(artifact("flashinfer-python", "sdist")) is None


def test_a_wheel_that_leaves_its_tree_is_refused(tmp_path: Path) -> None:
    path = write_wheel(tmp_path / "evil.whl", {"nvidia/cu13/../../out": b""})

    with pytest.raises(ToolchainError, match=r"`evil.wheel` names `\.\./\.\./out`, which is outside"):
        unpack({artifact("evil", "wheel"): path}, layout("cuda"), tmp_path / "tree")
    assert not (tmp_path / "out").exists()


def test_a_link_of_the_recipe_that_leads_to_nothing_is_an_error(tmp_path: Path) -> None:
    path, links = write_wheel(tmp_path / "a.whl", {"lib/a": b""}), {"lib/b": "c", "lib64": "lib"}
    every_file = Layout(re.compile(""), (Place(frozenset(), re.compile("(.+)"), r"\1"),), None, links)

    with pytest.raises(ToolchainError, match="lead to nothing: `lib/b`"):
        unpack(
            {artifact("a", "wheel"): path},
            every_file,
            tmp_path / "tree",
        )


def test_cuda_wheels_of_both_shapes_merge_into_one_toolkit(tmp_path: Path) -> None:
    new = {"nvidia/cu13/bin/nvcc": b"x", "nvidia/cu13/nvvm/bin/cicc": b"x", "nvidia/cu13/include/a.h": b"h"}
    old = {
        "nvidia/runtime/lib/libcudart.so.13": b"so",
        "nvidia/runtime/__init__.py": b"",
        "x.dist-info/RECORD": b"",
    }
    wheels = {
        artifact("nvcc", "wheel"): write_wheel(tmp_path / "a.whl", new),
        artifact("runtime", "wheel"): write_wheel(tmp_path / "b.whl", old),
    }

    unpack(wheels, layout("cuda"), tmp_path / "tree")

    root = tmp_path / "tree"
    files = {str(path.relative_to(root)): path.stat().st_mode & 0o111 for path in root.rglob("*") if path.is_file()}
    assert {name for name, executable in files.items() if executable} == {"bin/nvcc", "nvvm/bin/cicc"}
    assert files.keys() == {
        "bin/nvcc", "nvvm/bin/cicc", "include/a.h", "lib/libcudart.so", "lib/libcudart.so.13"
    }  # fmt: skip
    assert (root / "lib64").readlink() == Path("lib")


def test_two_cuda_wheels_with_one_path_and_two_contents_are_an_error(tmp_path: Path) -> None:
    wheels = {
        artifact(name, "wheel"): write_wheel(tmp_path / f"{name}.whl", {"nvidia/cu13/include/a.h": name.encode()})
        for name in ("one", "two")
    }

    with pytest.raises(ToolchainError, match=r"`include/a\.h` of `two\.wheel` has another content"):
        unpack(wheels, layout("cuda"), tmp_path / "tree")


def test_the_c_library_is_put_apart_where_no_compiler_looks() -> None:
    entries = [FileEntry("include/stdio.h", False, b""), FileEntry("lib/x86_64-linux-gnu/crti.o", False, b"")]

    placed = [entry.path for entry in layout("host").place("libc6-dev", entries)]

    assert placed == [
        "share/kernelworks/libc6-dev/include/stdio.h",
        "share/kernelworks/libc6-dev/lib/x86_64-linux-gnu/crti.o",
    ]
    assert [entry.path for entry in layout("host").place("gcc-12", entries[:1])] == ["include/stdio.h"]


def test_python_has_one_pyconfig_that_of_the_architecture() -> None:
    entries = [
        FileEntry("include/python3.11/pyconfig.h", False, b"chooser"),
        FileEntry("include/x86_64-linux-gnu/python3.11/pyconfig.h", False, b"real"),
        FileEntry("lib/libpython3.11.a", False, b""),
    ]

    assert list(layout("python").place("libpython3.11-dev", entries)) == [
        FileEntry("include/python3.11/pyconfig.h", False, b"real")
    ]
