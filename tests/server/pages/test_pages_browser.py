"""The pages in Debian's Chromium: what a person does with mouse and keyboard, and how it looks.

Screenshots go to the folder that KERNELWORKS_SCREENSHOTS names, or to `.screenshots` in the checkout.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kernelworks.model.variant import BackendFacts, FrameworkFacts, KernelDependency, Platform, Variant
from kernelworks_server.database.engine import now
from kernelworks_server.database.tables import downloads
from kernelworks_server.records import Repo
from kernelworks_server.rights import MACHINE

if TYPE_CHECKING:
    from conftest import Site  # type: ignore[import-not-found]

DRIVER, CHROMIUM = shutil.which("chromedriver"), shutil.which("chromium")

pytestmark = [
    pytest.mark.server,
    pytest.mark.skipif(not (DRIVER and CHROMIUM), reason="needs Debian's chromium and chromium-driver"),
]

_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the name that W3C WebDriver gives to a reference
DESKTOP, PHONE = (1280, 900), (390, 844)
TAB, ENTER = "\ue004", "\ue007"
REPORT = {
    "kernelworks": "0.1.0",
    "host": {
        "python": "3.12",
        "implementation": "cpython",
        "free-threaded": False,
        "torch": "2.13.0+cu130",
        "cxx11-abi": True,
        "backends": [{"name": "cuda", "version": "13.0", "devices": ["9.0"]}, {"name": "cpu", "devices": []}],
        "cpu": "x86_64",
        "os": "linux",
        "libc": "glibc 2.36",
    },
}
CARD = b"""---
license: apache-2.0
---
# SiLU and multiply

`silu_and_mul`, the gate of SwiGLU feed-forward blocks, in one pass over memory, **forward and backward**.

```python
kernel = get_kernel("demo/silu-and-mul", version=2)
y = kernel.silu_and_mul(x)  # shape (64, 4096)
```

| name | what it does |
|---|---|
| `silu_and_mul(x, out=None)` | `x` of shape `(..., 2 * d)` to `(..., d)` |
| `layers.SiluAndMul` | the same as a layer for `kernelize` |

## Numerics

Inputs are widened to float32, the whole formula is evaluated there, and the result is rounded once.
"""


class Browser:
    """One session of W3C WebDriver, which is JSON over HTTP."""

    def __init__(self, driver: str, shots: Path) -> None:
        self._driver = driver
        self._shots = shots
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage"]
        options = {"binary": CHROMIUM, "args": flags}
        capabilities = {"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        self._session = self._ask("POST", "/session", {"capabilities": {"alwaysMatch": capabilities}})["sessionId"]

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self._driver}{path}", data, method=method)  # noqa: S310  # loopback
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=60) as response:
            return json.load(response)["value"]

    def do(self, path: str, **body: Any) -> Any:
        return self._ask("POST", f"/session/{self._session}{path}", body)

    def close(self) -> None:
        self._ask("DELETE", f"/session/{self._session}")

    def open(self, url: str) -> None:
        self.do("/url", url=url)

    def run(self, script: str) -> Any:
        return self.do("/execute/sync", script=script, args=[])

    def click(self, selector: str) -> None:
        self.do(f"/element/{self._find(selector)}/click")

    def write(self, selector: str, text: str) -> None:
        self.do(f"/element/{self._find(selector)}/value", text=text)

    def press(self, key: str) -> None:
        actions = [{"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]
        self.do("/actions", actions=[{"type": "key", "id": "keyboard", "actions": actions}])

    def walk(self, wanted: str) -> None:
        """Press Tab until the element `wanted` has the focus; every stop on the way must be seen to have it."""
        for _ in range(99):
            self.press(TAB)
            hidden = "const at = document.activeElement; return at !== document.body && !at.matches(':focus-visible')"
            assert not self.run(hidden), self.run("return document.activeElement.outerHTML.slice(0, 200)")
            if self.run(f"return document.activeElement.matches({json.dumps(wanted)})"):
                return
        raise AssertionError(f"Tab does not lead to {wanted}")

    def text(self, selector: str) -> str:
        return str(self.run(f"return document.querySelector({json.dumps(selector)}).innerText"))

    def become(self, size: tuple[int, int], scheme: str) -> None:
        self._devtools(
            "Emulation.setDeviceMetricsOverride", width=size[0], height=size[1], deviceScaleFactor=1, mobile=False
        )
        self._devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def allow_clipboard(self, origin: str) -> None:
        permissions = ["clipboardReadWrite", "clipboardSanitizedWrite"]
        self._devtools("Browser.grantPermissions", origin=origin, permissions=permissions)

    def clipboard(self) -> str:
        script = "const done = arguments[0]; navigator.clipboard.readText().then(done, done)"
        return str(self.do("/execute/async", script=script, args=[]))

    def complaints(self) -> list[str]:
        """What the browser's console says of pages since it was last asked."""
        return [entry["message"] for entry in self.do("/se/log", type="browser")]

    def shoot(self, name: str) -> None:
        """Keep the whole page as it looks as `name`.png."""
        shot = self._devtools("Page.captureScreenshot", captureBeyondViewport=True)
        (self._shots / f"{name}.png").write_bytes(base64.b64decode(shot["data"]))

    def _devtools(self, command: str, **params: Any) -> Any:
        return self.do("/goog/cdp/execute", cmd=command, params=params)

    def _find(self, selector: str) -> str:
        return str(self.do("/element", using="css selector", value=selector)[_ELEMENT])


@pytest.fixture(scope="module")
def driver() -> Iterator[str]:
    command = [str(DRIVER), "--port=0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        port = next(found[1] for line in process.stdout if (found := re.search(r"on port (\d+)\.", line)))
        yield f"http://127.0.0.1:{port}"
        process.terminate()


@pytest.fixture
def browser(driver: str) -> Iterator[Browser]:
    shots = Path(os.environ.get("KERNELWORKS_SCREENSHOTS") or Path(__file__).parents[3] / ".screenshots")
    shots.mkdir(parents=True, exist_ok=True)
    opened = Browser(driver, shots)
    yield opened
    opened.close()


@pytest.fixture
def shop(site: Site, variant: Callable[..., Variant], index: Callable[..., bytes]) -> str:
    """The address of a registry with some kernels; `demo/silu-and-mul` is the one to look at."""

    def stable(
        cpu: str, backend: str, toolkit: tuple[int, int] | None, size: int, *archs: str, **facts: Any
    ) -> Variant:
        digits = "".join(map(str, toolkit or ()))
        name = f"torch-stable-abi211-{ {'cuda': 'cu', 'rocm': 'rocm'}.get(backend, backend) }{digits}-{cpu}-linux"
        platform = Platform(cpu, "linux", (2, 28))
        return variant(name, size=size, backend=BackendFacts(backend, toolkit), archs=archs, platform=platform, **facts)

    def full(minor: int, size: int) -> Variant:
        facts = {"framework": FrameworkFacts("torch", (2, minor), cxx11=True), "backend": BackendFacts("cuda", (13, 0))}
        return variant(f"torch2{minor}-cxx11-cu130-x86_64-linux", size=size, archs=("9.0a", "10.0a"), **facts)

    cpu = stable("x86_64", "cpu", None, 184_230)
    arm = stable("aarch64", "cpu", None, 171_002)
    cuda = stable("x86_64", "cuda", (13, 0), 1_432_118, "8.0", "8.6", "8.9", "9.0", "10.0", "12.0", ptx=("12.0",))
    cuda_arm = stable("aarch64", "cuda", (13, 0), 903_551, "9.0", "10.0")
    cuda12 = stable("x86_64", "cuda", (12, 6), 1_201_774, "7.5", "8.0", "8.6", "9.0")
    rocm = stable("x86_64", "rocm", (7, 1), 2_118_340, "gfx90a", "gfx942", hermetic=False)
    repo = site.repo("demo/silu-and-mul")
    site.commit(repo, "v1", {"kernel.json": index(1, cpu, cuda12), "README.md": CARD}, "Publish version 1")
    site.commit(repo, "v2", {"kernel.json": index(2, cpu, cuda, cuda12), "README.md": CARD}, "Publish version 2")
    everything = (cpu, arm, cuda, cuda_arm, cuda12, rocm, full(12, 3_300_000), full(13, 3_412_000))
    site.commit(repo, "v2", {"kernel.json": index(2, *everything)}, "Add ROCm, aarch64 and full-ABI builds")
    site.commit(site.repo("demo/rms-norm"), "v1", {"kernel.json": index(1, cpu, cuda)})
    site.commit(site.repo("attention/flash-decode"), "v3", {"kernel.json": index(3, cuda, cuda_arm, rocm)})
    site.commit(site.repo("attention/foreign"), "main", {"build/torch-cpu/__init__.py": b"", "README.md": CARD})
    site.server.services.people.set_trusted("demo", trusted=True)
    needs = (KernelDependency("demo/silu-and-mul", 2), KernelDependency("elsewhere/rope", 1))
    mlp = stable("x86_64", "cuda", (13, 0), 88_120, "9.0", kernel_depends=needs, python_depends=("einops",))
    site.commit(site.repo("demo/fused-mlp"), "v1", {"kernel.json": index(1, mlp)})
    site.commit(site.repo("demo/unreleased", private=True), "v1", {"kernel.json": index(1, cuda), "README.md": CARD})
    _remarks(site)
    _downloads(site, repo)
    return str(site.server.url)


def _remarks(site: Site) -> None:
    repositories = site.server.services.repositories
    norm = repositories.get(MACHINE, "kernel", "demo/rms-norm")
    repositories.deprecate(MACHINE, norm, "it was slower than compiled code", "attention/flash-decode")
    decode = repositories.get(MACHINE, "kernel", "attention/flash-decode")
    repositories.yank(MACHINE, decode, "v3", "wrong results for heads of 80")


def _downloads(site: Site, repo: Repo) -> None:
    """Thirteen weeks with weekends, a slow start, and more on new versions."""
    today = now() // 86_400_000_000
    weekend = {2, 3}  # the epoch began on a Thursday
    counts = [(age * 7919 % 13 + 4) * (91 - age) // (18 if (today - age) % 7 in weekend else 6) for age in range(91)]
    rows = [
        {"repo": repo.id, "day": today - age, "variant": variant, "count": count // share + 1}
        for age, count in enumerate(counts)
        for variant, share in (("torch-stable-abi211-cu130-x86_64-linux", 1), ("torch213-cxx11-cu130-x86_64-linux", 4))
    ]
    with site.server.services.database.write() as connection:
        connection.execute(downloads.insert(), rows)


def test_a_person_searches_opens_a_kernel_copies_the_line_and_asks_for_a_machine(browser: Browser, shop: str) -> None:
    browser.become(DESKTOP, "light")
    browser.allow_clipboard(shop)
    browser.open(shop)
    browser.shoot("start")
    browser.press("/")
    assert browser.run("return document.activeElement.id") == "search"
    browser.write("#search", "silu\ue007")
    browser.click(".kernels .name")
    assert browser.run("return location.pathname") == "/demo/silu-and-mul"
    browser.shoot("kernel")
    browser.click(".use .copy")
    assert browser.clipboard() == 'get_kernel("demo/silu-and-mul", version=2)'
    assert browser.text("#said") == "copied"
    browser.click(".tabs a:last-child")
    browser.shoot("fit-form")
    browser.write("textarea", json.dumps(REPORT))
    browser.click("button[type=submit]")
    assert browser.text("#answer") == "It gets torch213-cxx11-cu130-x86_64-linux"
    browser.shoot("fit")
    assert browser.complaints() == []


def test_without_a_clipboard_the_line_is_copied_by_selection(browser: Browser, shop: str) -> None:
    browser.open(f"{shop}/demo/silu-and-mul")
    browser.run("Object.defineProperty(window, 'isSecureContext', {value: false})")
    browser.run("window.setTimeout = () => {}")  # what the button says stays, however late it is read
    browser.click(".use .copyable:nth-of-type(2) .copy")
    assert browser.text(".use .copyable:nth-of-type(2) .copy") == "Copied"
    assert str(browser.run("return getSelection().toString()")).startswith('get_kernel("demo/silu-and-mul", revision="')


def test_a_person_signs_in_sees_what_is_private_and_signs_out(browser: Browser, site: Site, shop: str) -> None:
    name = "annabella-of-the-very-long-name"
    token = site.server.user(name, scope="read")
    site.server.services.people.add_member("demo", name, "read")
    browser.become(DESKTOP, "light")
    browser.open(f"{shop}/demo/unreleased?revision=v1")
    browser.click("main a[href^='/login']")
    browser.write("input[name=token]", "kw_wrong\ue007")
    assert "unknown, revoked or expired" in browser.text("main")
    browser.shoot("sign-in-failed")
    browser.write("input[name=token]", f"{token}\ue007")
    assert browser.run("return location.pathname + location.search") == "/demo/unreleased?revision=v1"
    assert browser.run("return document.cookie") == ""
    browser.shoot("signed-in")
    browser.become(PHONE, "light")
    browser.shoot("signed-in-phone")
    assert browser.run("return document.documentElement.scrollWidth") <= PHONE[0]
    browser.become(DESKTOP, "light")
    browser.open(shop)
    assert "demo/unreleased" in browser.text(".kernels")
    browser.click(".account button")
    assert "demo/unreleased" not in browser.text(".kernels")
    browser.do("/back")
    assert "demo/unreleased" not in browser.text("main")


def test_all_of_it_works_with_the_keyboard_alone(browser: Browser, shop: str) -> None:
    browser.become(DESKTOP, "dark")
    browser.open(shop)
    browser.walk("select[name=backend]")
    browser.press("r")
    browser.walk(".filters button")
    browser.shoot("keyboard")
    browser.press(ENTER)
    assert browser.run("return new URLSearchParams(location.search).get('backend')") == "rocm"
    browser.walk(".kernels .name[href='/demo/silu-and-mul']")
    browser.press(ENTER)
    assert browser.run("return location.pathname") == "/demo/silu-and-mul"
    browser.walk(".scroll")
    browser.walk(".downloads summary")
    browser.press(ENTER)
    assert browser.run("return document.querySelector('.downloads .numbers').checkVisibility()")
    browser.walk(".tabs a[href*='fit']")
    browser.press(ENTER)
    browser.walk("textarea")


def test_the_plot_has_a_bar_for_each_day_in_both_schemes(browser: Browser, shop: str) -> None:
    for scheme in ("light", "dark"):
        browser.become(DESKTOP, scheme)
        browser.open(f"{shop}/demo/silu-and-mul")
        assert browser.run("return document.querySelectorAll('.downloads rect').length") == 91
        colours = browser.run(
            "return [getComputedStyle(document.querySelector('.downloads rect')).fill,"
            " getComputedStyle(document.body).backgroundColor]"
        )
        assert colours[0] != colours[1]
        assert browser.run("return document.querySelector('.downloads svg').getBoundingClientRect().width") > 200
        assert browser.complaints() == []


def test_a_slash_in_a_field_is_a_slash(browser: Browser, shop: str) -> None:
    browser.open(f"{shop}/demo/silu-and-mul/fit")
    browser.write("textarea", "a/b")
    assert browser.run("return document.querySelector('textarea').value") == "a/b"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_no_page_is_wider_than_its_screen_or_too_faint_to_read(
    browser: Browser, shop: str, size: tuple[int, int], scheme: str
) -> None:
    browser.become(size, scheme)
    for name, path in {
        "start": "/",
        "kernel": "/demo/silu-and-mul",
        "old": "/demo/silu-and-mul?revision=v1",
        "foreign": "/attention/foreign",
        "owner": "/demo",
        "missing": "/demo/nought",
        "fit-form": "/demo/silu-and-mul/fit",
        "mlp": "/demo/fused-mlp",
        "deprecated": "/demo/rms-norm",
        "yanked": "/attention/flash-decode",
        "sign-in": "/login",
    }.items():
        browser.open(f"{shop}{path}")
        browser.shoot(f"{name}-{'phone' if size == PHONE else 'desktop'}-{scheme}")
        assert browser.run("return document.documentElement.scrollWidth") <= size[0], path
        assert browser.run(FAINTEST) >= 4.5, path  # WCAG 2.2, level AA


FAINTEST = """
const canvas = new OffscreenCanvas(1, 1).getContext("2d", {willReadFrequently: true});
const paint = (colour, under) => {
  canvas.fillStyle = under; canvas.fillRect(0, 0, 1, 1);
  canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
  return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
};
const light = (parts) => {
  const linear = (part) => part <= .04045 ? part / 12.92 : ((part + .055) / 1.055) ** 2.4;
  const [r, g, b] = parts.map(part => linear(part / 255));
  return .2126 * r + .7152 * g + .0722 * b;
};
const ground = (element) => {
  for (; element; element = element.parentElement) {
    const colour = getComputedStyle(element).backgroundColor;
    if (colour !== "rgba(0, 0, 0, 0)") return colour;
  }
  return "white";
};
let faintest = 21;
const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (texts.nextNode()) {
  const element = texts.currentNode.parentElement;
  if (!texts.currentNode.data.trim() || !element.checkVisibility()) continue;
  if (element.closest(".slash, .none, option")) continue;
  const under = ground(element);
  const both = [getComputedStyle(element).color, under].map(colour => light(paint(colour, under)));
  faintest = Math.min(faintest, (Math.max(...both) + .05) / (Math.min(...both) + .05));
}
return faintest;
"""
"""The lowest contrast of a text with its ground; the slash of a title and the dash of an empty cell are ornaments."""
