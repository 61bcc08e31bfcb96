"""Every rule of the audit passes a sound kernel and fails one that breaks it, on real ELF files.

The files are linked against stub libraries that the tests make, so that the host's libc does not matter.
"""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from kernelworks.model.variant import BackendFacts, DeviceArchs, FrameworkFacts, Platform, PythonAbi
from kernelworks_build.audit import Report, audit
from kernelworks_build.audit.rules import RULES
from kernelworks_build.claims import Claims
from kernelworks_build.errors import AuditError

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc on this machine to make ELF files with")

CODE = Path(__file__).parent / "fixtures" / "fatbin"
BUNDLES = CODE.with_name("offload")
ID = "_silu_cpu_1a2b3c4d"
MODULE = f"{ID}.abi3.so"
RELU = "_ZN2at4_ops4relu4callERKNS_6TensorE"
TORCH = {"2.11.0": frozenset({RELU, "aoti_torch_get_sizes"}), "2.13.0": frozenset({RELU})}
LISTS = {f"torch-{release}": names for release, names in TORCH.items()} | {"rocm-7.2": frozenset({"hipLaunchKernel"})}

SILU = Claims(
    name="torch-stable-abi211-cpu-x86_64-linux",
    id=ID,
    package="silu",
    framework=FrameworkFacts("torch-stable-abi", (2, 11)),
    backend=BackendFacts("cpu", None),
    python_abi=PythonAbi("abi3", (3, 9)),
    platform=Platform(platform.machine(), "linux", (2, 28)),
    torch_releases=tuple(TORCH),
)
SILU_CUDA = replace(SILU, backend=BackendFacts("cuda", (13, 0), DeviceArchs(("8.0", "9.0", "12.0"))))
SILU_ROCM = replace(SILU, backend=BackendFacts("rocm", (7, 2), DeviceArchs(("gfx942", "gfx1100"))))

SOURCE = f"""
extern void __gmon_start__(void) __attribute__((weak));
extern int relu(void) __asm__("{RELU}");
extern void *PyModule_Create2(void *, int), *memcpy(void *, void *, unsigned long);
void *PyInit_{ID}(void) {{
    relu();
    if (__gmon_start__) memcpy(0, 0, 0);
    return PyModule_Create2(0, 1013);
}}
"""


class Workshop:
    """A folder of stub libraries and the package folder that is audited."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.package = root / "package"
        self.package.mkdir()
        self.libc = self.stub("libc.so.6", {"GLIBC_2.14": ["memcpy"], "GLIBC_2.34": ["dlsym"]})
        self.torch = self.stub("libtorch_cpu.so")
        (self.package / "__init__.py").write_text("from . import _ops\n")

    def gcc(self, out: Path, source: str, arguments: Iterable[str | Path]) -> Path:
        command = ["gcc", "-shared", "-fPIC", "-nostdlib", "-fno-builtin", "-x", "c", "-", "-x", "none"]
        subprocess.run([*command, *arguments, "-o", out], input=source, text=True, check=True, capture_output=True)
        return out

    def stub(self, soname: str, versions: dict[str, list[str]] | None = None) -> Path:
        """A library that exports `versions`: symbol version -> functions."""
        versions = versions or {}
        script = self.root / f"{soname}.map"
        script.write_text(
            "".join(f"{version} {{ global: {'; '.join(names)}; }};\n" for version, names in versions.items())
        )
        source = "".join(f"void {name}(void) {{}}\n" for names in versions.values() for name in names)
        flags = [f"-Wl,-soname,{soname}", *([f"-Wl,--version-script={script}"] if versions else [])]
        return self.gcc(self.root / soname, source, flags)

    def kernel(self, extra: str = "", *arguments: str | Path, name: str = MODULE, source: str = SOURCE) -> Path:
        """The sound kernel, with `extra` source and `arguments` of the compiler."""
        return self.gcc(
            self.package / name,
            source + extra,
            [self.libc, "-Wl,--no-as-needed", self.torch, "-Wl,-z,noexecstack", *arguments],
        )

    def cuda_kernel(self, *code: str) -> Path:
        """The sound kernel with the fat binaries `code` inside, needing CUDA's libraries."""
        cudart = self.stub("libcudart.so.13", {"libcudart.so.13": ["cudaLaunchKernel"]})
        section = "".join(f'.balign 8\\n.incbin \\"{CODE / name}.bin\\"\\n' for name in code)
        asm = f'__asm__(".section .nv_fatbin,\\"a\\"\\n{section}.previous");'
        launch = "extern void cudaLaunchKernel(void); void launch(void) { cudaLaunchKernel(); }"
        return self.kernel(asm + launch, cudart, self.stub("libtorch_cuda.so"))

    def rocm_kernel(self, code: str, extra: str = "", *arguments: str | Path) -> Path:
        """The sound kernel with the offload bundles `code` inside, needing torch's ROCm library and HIP's runtime."""
        asm = (
            f'__asm__(".section .hip_fatbin,\\"a\\"\\n.balign 4096\\n.incbin \\"{BUNDLES / code}.bin\\"\\n.previous");'
        )
        launch = "extern void hipLaunchKernel(void); void launch(void) { hipLaunchKernel(); }"
        return self.kernel(asm + launch + extra, self.stub("libtorch_hip.so"), *arguments)

    def audit(self, claims: Claims = SILU) -> Report:
        return audit(claims, self.package, LISTS.__getitem__)


@pytest.fixture
def shop(tmp_path: Path) -> Workshop:
    return Workshop(tmp_path)


def verdict(report: Report, rule: str) -> str:
    (found,) = (result.verdict for result in report.results if result.rule.id == rule)
    return found


def evidence(report: Report, rule: str) -> list[str]:
    """What the rule's findings say: those that are not good where there are some, else the good ones."""
    (findings,) = (result.findings for result in report.results if result.rule.id == rule)
    return [item.evidence for item in findings if not item.ok] or [item.evidence for item in findings]


def test_a_sound_cpu_kernel_passes_every_rule_that_applies(shop: Workshop) -> None:
    shop.kernel()
    report = shop.audit()
    report.require()
    assert report.ok
    assert {rule.id: verdict(report, rule.id) for rule in RULES} == {
        rule.id: "not applicable" if rule.id in {"device-archs", "op-namespace"} else "pass" for rule in RULES
    }
    assert report.libraries == ("libc.so.6", "libtorch_cpu.so")
    assert report.torch_symbols == (RELU,)
    assert report.device_archs == DeviceArchs()
    assert report.glibc == (2, 14)


def test_a_sound_cuda_kernel_passes_every_rule(shop: Workshop) -> None:
    shop.cuda_kernel("sass-8.0-9.0-12.0")
    report = shop.audit(SILU_CUDA)
    report.require()
    assert {verdict(report, rule.id) for rule in RULES if rule.id != "op-namespace"} == {"pass"}
    assert report.device_archs == SILU_CUDA.backend.archs
    assert report.libraries == ("libc.so.6", "libcudart.so.13", "libtorch_cpu.so", "libtorch_cuda.so")


def test_a_noarch_variant_passes_with_text_alone(shop: Workshop) -> None:
    claims = replace(SILU, python_abi=PythonAbi("none", None), platform=Platform(None, None, None), torch_releases=())
    report = shop.audit(claims)
    assert report.ok
    assert verdict(report, "files") == "pass"
    assert {verdict(report, rule.id) for rule in RULES if rule.id != "files"} == {"not applicable"}
    assert evidence(report, "libc-floor") == ["no binary needs glibc"]
    assert report.glibc is None


def test_every_finding_has_evidence_and_the_report_is_json(shop: Workshop) -> None:
    shop.kernel()
    document = json.loads(json.dumps(shop.audit().to_json()))
    assert document["ok"] is True
    assert document["glibc"] == "2.14"
    assert document["torch-symbols"] == [RELU]
    assert document["device-archs"] == {"sass": [], "ptx": []}
    assert [rule["rule"] for rule in document["rules"]] == [rule.id for rule in RULES]
    assert all(finding["evidence"] for rule in document["rules"] for finding in rule["findings"])
    (versions,) = (rule for rule in document["rules"] if rule["rule"] == "symbol-versions")
    assert versions["findings"] == [{"ok": True, "evidence": "GLIBC_2.14 (cap 2.28)", "file": MODULE}]


@pytest.mark.parametrize(("binding", "expected"), [("__attribute__((weak))", "pass"), ("", "fail")])
def test_of_a_library_that_needs_nothing_of_libc_the_compilers_own_reference_is_weak(
    shop: Workshop, binding: str, expected: str
) -> None:
    shop.kernel(f"extern void __cxa_finalize(void *) {binding}; void fini(void) {{ __cxa_finalize(0); }}")
    assert verdict(shop.audit(), "unversioned-symbols") == expected


def test_all_failures_are_raised_together(shop: Workshop) -> None:
    shop.kernel("extern int __libc_single_threaded; int f(void) { return __libc_single_threaded; }", "-Wl,-rpath,/x")
    with pytest.raises(AuditError) as caught:
        shop.audit().require()
    assert f"breaks 2 of {len(RULES)} rules" in caught.value.message
    assert caught.value.context["findings"] == [
        {"rule": "search-path", "ok": False, "evidence": "searches `/x`", "file": MODULE},
        {
            "rule": "unversioned-symbols",
            "ok": False,
            "evidence": "nobody is known to bring `__libc_single_threaded` (`__libc_single_threaded`)",
            "file": MODULE,
        },
    ]


@pytest.mark.parametrize(
    ("name", "put", "fault"),
    [
        ("__pycache__/x.cpython-311.pyc", lambda path: path.write_bytes(b"x"), "is Python bytecode"),
        ("weights.bin", lambda path: path.write_bytes(b"\xff\0"), "is neither text nor a shared object"),
        ("link.py", lambda path: path.symlink_to("__init__.py"), "is a symbolic link"),
        ("libx.so.1", lambda path: path.write_bytes(b""), "`libx.so.1` is not a readable ELF file: "),
    ],
)
def test_what_is_neither_text_nor_code_fails(
    shop: Workshop, name: str, put: Callable[[Path], object], fault: str
) -> None:
    shop.kernel()
    (shop.package / name).parent.mkdir(exist_ok=True)
    put(shop.package / name)
    (found,) = evidence(shop.audit(), "files")
    assert found.startswith(fault)


def test_a_truncated_module_fails_instead_of_crashing(shop: Workshop) -> None:
    module = shop.kernel()
    module.write_bytes(module.read_bytes()[:-100])
    report = shop.audit()
    (found,) = evidence(report, "files")
    assert found.startswith(f"`{MODULE}` is cut short: the table of sections would end at byte ")
    assert evidence(report, "module-name") == [f"the claimed module `{ID}` is missing"]


def test_malformed_device_code_fails_instead_of_crashing(shop: Workshop) -> None:
    shop.kernel('__asm__(".section .nv_fatbin,\\"a\\"\\n.quad 7, 7\\n.previous");')
    (found,) = evidence(shop.audit(), "files")
    assert found.startswith(f"malformed device code: `.nv_fatbin` of `{MODULE}`, byte 0 of 16")


def test_a_module_under_another_name_fails(shop: Workshop) -> None:
    shop.kernel(name="_silu.abi3.so")
    assert evidence(shop.audit(), "module-name") == [f"file `_silu` with `PyInit_{ID}`, claimed is `{ID}` alone"]


def test_a_module_with_another_init_function_fails(shop: Workshop) -> None:
    shop.kernel(source=SOURCE.replace(f"PyInit_{ID}", "PyInit__silu"))
    assert evidence(shop.audit(), "module-name") == [f"file `{ID}` with `PyInit__silu`, claimed is `{ID}` alone"]


def test_a_module_in_a_variant_without_one_fails(shop: Workshop) -> None:
    shop.kernel()
    report = shop.audit(replace(SILU, python_abi=PythonAbi("none", None)))
    assert evidence(report, "module-name") == [f"is the module `{ID}`, claimed is none"]
    assert "imports `PyModule_Create2`, claimed is no Python ABI" in evidence(report, "python-abi")


def test_code_for_another_cpu_fails(shop: Workshop) -> None:
    shop.kernel()
    report = shop.audit(replace(SILU, platform=Platform("riscv64", "linux", (2, 28))))
    assert evidence(report, "platform") == [
        f"ELF64 DYN for {platform.machine()} linux, claimed is ELF64 DYN for riscv64 linux"
    ]


def test_a_library_outside_the_list_fails_and_the_list_is_shown(shop: Workshop) -> None:
    shop.kernel("", shop.stub("libgomp.so.1"))
    (found,) = evidence(shop.audit(), "libraries")
    assert found.startswith("needs `libgomp.so.1` (allowed: ")
    assert "libtorch_cpu.so" in found


def test_a_cpu_variant_must_not_need_the_toolkit_nor_a_cuda_variant_another_major(shop: Workshop) -> None:
    shop.cuda_kernel("sass-8.0-9.0-12.0")
    assert [text.split(" (")[0] for text in evidence(shop.audit(SILU), "libraries")] == [
        "needs `libcudart.so.13`",
        "needs `libtorch_cuda.so`",
    ]
    older = replace(SILU_CUDA, backend=replace(SILU_CUDA.backend, version=(12, 4)))
    assert [text.split(" (")[0] for text in evidence(shop.audit(older), "libraries")] == ["needs `libcudart.so.13`"]
    assert evidence(shop.audit(older), "symbol-versions") == [
        "`libcudart.so.13` libcudart.so.13 (not in the policy) for `cudaLaunchKernel`"
    ]


@pytest.mark.parametrize("tags", ["--enable-new-dtags", "--disable-new-dtags"])
def test_a_search_path_fails(shop: Workshop, tags: str) -> None:
    shop.kernel("", "-Wl,-rpath,$ORIGIN/../torch/lib", f"-Wl,{tags}")
    assert evidence(shop.audit(), "search-path") == ["searches `$ORIGIN/../torch/lib`"]


def test_a_shipped_copy_of_a_runtime_fails_by_file_name_and_by_soname(shop: Workshop) -> None:
    shop.kernel()
    shutil.copy(shop.torch, shop.package / "libcudart-9f2c.so.13")
    shutil.copy(shop.torch, shop.package / "_private.so")
    assert evidence(shop.audit(), "vendored") == ["is a copy of `libtorch*`", "is a copy of `libcudart*`"]


def test_a_symbol_version_above_the_cap_fails_and_names_the_symbol(shop: Workshop) -> None:
    shop.kernel("extern int dlsym(void); int f(void) { return dlsym(); }")
    report = shop.audit()
    assert evidence(report, "symbol-versions") == ["`libc.so.6` GLIBC_2.34 (cap 2.28) for `dlsym`"]
    assert report.glibc == (2, 34)


def test_a_version_of_an_unknown_family_fails(shop: Workshop) -> None:
    libm = shop.stub("libm.so.6", {"GLIBC_PRIVATE": ["secret"]})
    shop.kernel("extern int secret(void); int f(void) { return secret(); }", libm)
    assert evidence(shop.audit(), "symbol-versions") == ["`libm.so.6` GLIBC_PRIVATE (not in the policy) for `secret`"]


def test_a_glibc_above_the_claimed_floor_fails_though_the_policy_allows_it(shop: Workshop) -> None:
    shop.kernel()
    report = shop.audit(replace(SILU, platform=replace(SILU.platform, glibc=(2, 13))))
    assert evidence(report, "libc-floor") == ["glibc 2.14 is needed, 2.13 is claimed"]
    assert verdict(report, "symbol-versions") == "pass"


def test_a_source_that_was_forgotten_fails_as_a_symbol_that_nobody_brings(shop: Workshop) -> None:
    shop.kernel('extern int own(void) __asm__("_Z7forwardRKN2at6TensorE"); int f(void) { return own(); }')
    report = shop.audit()
    (found,) = evidence(report, "unversioned-symbols")
    assert "_Z7forwardRKN2at6TensorE" in found
    assert verdict(report, "torch-symbols") == "pass"


def test_a_std_symbol_that_torch_happens_to_leak_is_not_taken_for_torch_s(shop: Workshop) -> None:
    leaked = "_ZNKRSt7__cxx1115basic_stringbufIcSt11char_traitsIcESaIcEE3strEv"
    shop.kernel(f'extern int str(void) __asm__("{leaked}"); int f(void) {{ return str(); }}')
    report = audit(SILU, shop.package, lambda lock: LISTS[lock] | {leaked})
    (found,) = evidence(report, "unversioned-symbols")
    assert leaked in found
    assert report.torch_symbols == (RELU,)


def test_the_openmp_runtime_comes_with_torch_and_the_functions_of_tvm_ffi_with_tvm_ffi_alone(shop: Workshop) -> None:
    calls = "int f(void) { return GOMP_parallel() + TVMFFIFoo(); }"
    shop.kernel(f"extern int GOMP_parallel(void), TVMFFIFoo(void); {calls}")
    assert evidence(shop.audit(), "unversioned-symbols") == ["nobody is known to bring `TVMFFIFoo` (`TVMFFIFoo`)"]
    tvm_ffi = replace(SILU, framework=FrameworkFacts("tvm-ffi", (0, 1)), torch_releases=())
    found = "".join(evidence(shop.audit(tvm_ffi), "unversioned-symbols"))
    assert ("GOMP_parallel" in found, "TVMFFIFoo" in found) == (True, False)


def test_a_torch_symbol_must_be_in_every_claimed_release(shop: Workshop) -> None:
    shop.kernel("extern int aoti_torch_get_sizes(void); int f(void) { return aoti_torch_get_sizes(); }")
    report = shop.audit()
    assert evidence(report, "torch-symbols") == ["torch 2.13.0 lacks `aoti_torch_get_sizes` (`aoti_torch_get_sizes`)"]
    assert verdict(report, "unversioned-symbols") == "pass"
    assert report.torch_symbols == (RELU, "aoti_torch_get_sizes")


def test_a_symbol_that_torch_dropped_everywhere_is_still_reported_as_torch_s(shop: Workshop) -> None:
    shop.kernel('extern int gone(void) __asm__("_ZN3c104goneEi"); int f(void) { return gone(); }')
    (found,) = evidence(shop.audit(), "torch-symbols")
    assert found.startswith("torch 2.11.0, 2.13.0 lacks `")
    assert found.endswith("(`_ZN3c104goneEi`)")


@pytest.mark.parametrize(
    ("symbol", "fault"),
    [
        ("PyUnicode_AsUTF8AndSize", "in the stable ABI since 3.10; claimed is 3.9"),
        ("_PyObject_GetDictPtr", "which is not in the stable ABI"),
    ],
)
def test_a_python_symbol_outside_the_claimed_stable_abi_fails(shop: Workshop, symbol: str, fault: str) -> None:
    shop.kernel(f"extern int {symbol}(void); int f(void) {{ return {symbol}(); }}")
    assert evidence(shop.audit(), "python-abi") == [f"imports `{symbol}`, {fault}"]


def test_the_file_name_tag_must_be_that_of_the_claimed_python_abi(shop: Workshop) -> None:
    shop.kernel()
    report = shop.audit(replace(SILU, python_abi=PythonAbi("exact", (3, 12))))
    expected = f"cpython-312-{platform.machine()}-linux-gnu.so"
    assert evidence(report, "python-abi") == [f"tag `abi3.so`, claimed is `{expected}`"]
    (shop.package / MODULE).rename(shop.package / f"{ID}.{expected}")
    assert shop.audit(replace(SILU, python_abi=PythonAbi("exact", (3, 12)))).ok


def test_missing_and_extra_device_code_fails_machine_code_and_ptx_apart(shop: Workshop) -> None:
    shop.cuda_kernel("sass-8.0-9.0-12.0", "sass-9.0-ptx-9.0")
    claims = replace(
        SILU_CUDA, backend=replace(SILU_CUDA.backend, archs=DeviceArchs(("9.0", "9.0a", "12.0"), ("12.0",)))
    )
    assert evidence(shop.audit(claims), "device-archs") == [
        "no machine code for 9.0a, which was asked for (inside: 8.0, 9.0, 12.0)",
        "machine code for 8.0, which was not asked for",
        "no PTX for 12.0, which was asked for (inside: 9.0)",
        "PTX for 9.0, which was not asked for",
    ]


def test_the_evidence_counts_the_fat_binaries_with_each_arch(shop: Workshop) -> None:
    shop.cuda_kernel("sass-8.0-9.0-12.0", "sass-9.0-ptx-9.0")
    archs = DeviceArchs(("8.0", "9.0", "12.0"), ("9.0",))
    report = shop.audit(replace(SILU_CUDA, backend=replace(SILU_CUDA.backend, archs=archs)))
    assert evidence(report, "device-archs") == [
        "machine code for 8.0, 9.0, 12.0 (in 1, 2, 1 of 2 fat binaries)",
        "PTX for 9.0 (in 1 of 2 fat binaries)",
    ]


def test_relocatable_device_code_does_not_count_as_code_that_runs(shop: Workshop) -> None:
    code = CODE / "relocatable-9.0.bin"
    shop.kernel(f'__asm__(".section __nv_relfatbin,\\"a\\"\\n.incbin \\"{code}\\"\\n.previous");')
    claims = replace(SILU_CUDA, backend=replace(SILU_CUDA.backend, archs=DeviceArchs(("9.0",))))
    report = shop.audit(claims)
    assert report.device_archs == DeviceArchs()
    assert evidence(report, "device-archs") == ["no machine code for 9.0, which was asked for (inside: none)"]


def test_a_sound_rocm_kernel_breaks_no_rule_and_what_nobody_can_look_up_is_not_called_checked(shop: Workshop) -> None:
    stream = 'extern int stream(void) __asm__("_ZN3c104cuda20getCurrentCUDAStreamEa"); int f(void) { return stream(); }'
    shop.rocm_kernel("two-units", stream)
    report = shop.audit(SILU_ROCM)
    report.require()
    verdicts = {rule.id: verdict(report, rule.id) for rule in RULES if rule.id != "op-namespace"}
    assert verdicts == {rule: "not checked" if rule == "torch-symbols" else "pass" for rule in verdicts}
    assert "1 from the toolkit" in "".join(evidence(report, "unversioned-symbols"))
    assert evidence(report, "torch-symbols") == [
        "no list has torch's symbols for this backend: `c10::cuda::getCurrentCUDAStream(signed char)`",
    ]
    assert report.torch_symbols == (RELU, "_ZN3c104cuda20getCurrentCUDAStreamEa")
    assert {finding["ok"] for rule in report.to_json()["rules"] for finding in rule["findings"]} == {True, None}


def test_a_symbol_that_no_library_of_the_toolkit_exports_fails_and_one_of_a_library_without_a_list_is_left_open(
    shop: Workshop,
) -> None:
    calls = "int f(void) { return hipLunchKernel() + rocblas_create_handle(); }"
    shop.rocm_kernel("two-units", f"extern int hipLunchKernel(void), rocblas_create_handle(void); {calls}")
    report = shop.audit(SILU_ROCM)
    assert evidence(report, "unversioned-symbols") == [
        "no list has what the toolkit's library exports: `rocblas_create_handle`",
        "no library of the toolkit exports `hipLunchKernel`",
    ]
    assert verdict(report, "unversioned-symbols") == "fail"


def test_a_library_of_cuda_that_torch_brings_is_left_open_and_one_that_it_does_not_bring_fails(shop: Workshop) -> None:
    calls = "extern int cublasLtMatmul(void), cusolverDnCreate(void); "
    calls += "int f(void) { return cublasLtMatmul() + cusolverDnCreate(); }"
    shop.kernel(calls, shop.stub("libtorch_cuda.so"))
    assert evidence(shop.audit(SILU_CUDA), "unversioned-symbols") == [
        "no list has what the toolkit's library exports: `cublasLtMatmul`",
        "nobody is known to bring `cusolverDnCreate` (`cusolverDnCreate`)",
    ]
    shop.kernel(calls)
    assert "nobody is known to bring `cublasLtMatmul`" in evidence(shop.audit(SILU), "unversioned-symbols")[0]


def test_the_archs_and_the_kernels_of_every_offload_bundle_are_the_evidence(shop: Workshop) -> None:
    shop.rocm_kernel("two-units")
    report = shop.audit(SILU_ROCM)
    assert report.device_archs == SILU_ROCM.backend.archs
    assert evidence(report, "device-archs") == [
        "machine code for gfx942, gfx1100 (in 2, 2 of 2 fat binaries)",
        "kernels: 3 for gfx942, 3 for gfx1100",
    ]


def test_a_target_id_with_other_features_than_asked_for_is_another_arch(shop: Workshop) -> None:
    shop.rocm_kernel("features")
    archs = DeviceArchs(("gfx90a", "gfx90a:sramecc-:xnack-"))
    report = shop.audit(replace(SILU_ROCM, backend=replace(SILU_ROCM.backend, archs=archs)))
    assert evidence(report, "device-archs") == [
        "no machine code for gfx90a, which was asked for (inside: gfx90a:sramecc+:xnack+, gfx90a:sramecc-:xnack-)",
        "machine code for gfx90a:sramecc+:xnack+, which was not asked for",
    ]


def test_machine_code_without_a_kernel_fails(shop: Workshop, tmp_path: Path) -> None:
    code = (BUNDLES / "two-units.bin").read_bytes()
    (tmp_path / "empty.bin").write_bytes(code.replace(b".kd\0", b".no\0"))
    shop.rocm_kernel(str(tmp_path / "empty"))
    assert evidence(shop.audit(SILU_ROCM), "device-archs") == ["the machine code for gfx942, gfx1100 holds no kernel"]


def test_compressed_device_code_fails_for_nobody_can_read_it(shop: Workshop) -> None:
    shop.rocm_kernel("compressed")
    (found,) = evidence(shop.audit(SILU_ROCM), "files")
    assert found.endswith("is a compressed bundle, which nothing here reads; compile with --no-offload-compress")


def test_the_hip_runtime_is_neither_named_nor_shipped(shop: Workshop) -> None:
    module = shop.rocm_kernel("two-units", "", "-Wl,--no-as-needed", shop.stub("libamdhip64.so.7"))
    shutil.copy(module, shop.package / "libamdhip64.so.7")
    report = shop.audit(SILU_ROCM)
    assert [text.split(" (")[0] for text in evidence(report, "libraries")] == ["needs `libamdhip64.so.7`"] * 2
    assert evidence(report, "vendored") == ["is a copy of `libamdhip64*`"]


def test_the_hip_runtime_and_the_unlisted_symbols_are_those_of_rocm_variants_alone(shop: Workshop) -> None:
    shop.rocm_kernel("two-units")
    assert "nobody is known to bring `hipLaunchKernel` (`hipLaunchKernel`)" in evidence(
        shop.audit(SILU), "unversioned-symbols"
    )
    shop.kernel('extern int gone(void) __asm__("_ZN3c104cuda4goneEi"); int f(void) { return gone(); }')
    assert verdict(shop.audit(SILU_CUDA), "torch-symbols") == "fail"


def test_exports_that_another_copy_would_share_fail(shop: Workshop) -> None:
    shop.kernel(
        'int one; __asm__(".type one, @gnu_unique_object");'
        'int yield(void) __asm__("_ZNSt11this_thread5yieldEv"); int yield(void) { return 0; }'
        'int weak(void) __asm__("_ZNSt6vectorIiSaIiEED1Ev");'
        "__attribute__((weak)) int weak(void) { return 0; }"
    )
    unique, standard = sorted(evidence(shop.audit(), "exports"), reverse=True)
    assert unique == "exports the unique symbol `one`; compile with -fno-gnu-unique"
    assert standard.endswith("of libstdc++; link with --exclude-libs,ALL")
    assert "yield" in standard


def test_an_executable_stack_and_relocated_code_fail(shop: Workshop) -> None:
    shop.kernel('__asm__(".text\\n.quad memcpy\\n");', "-Wl,-z,execstack", "-Wl,-z,notext")
    assert evidence(shop.audit(), "memory-protection") == ["has an executable stack and relocations in its code"]
