"use strict";

// Copies the line beside the button. Pages over plain HTTP have no clipboard, so the selection is the other way.
async function copy(text) {
  if (navigator.clipboard && window.isSecureContext) {
    try {
      await navigator.clipboard.writeText(text.textContent);
      return true;
    } catch {
      // not allowed: the other way
    }
  }
  getSelection().selectAllChildren(text);
  return document.execCommand("copy");
}

document.documentElement.classList.add("lively");

document.addEventListener("click", async (event) => {
  const button = event.target.closest("button.copy");
  if (!button) return;
  const done = await copy(button.parentElement.querySelector("code"));
  button.textContent = done ? "Copied" : "Press Ctrl+C";
  document.getElementById("said").textContent = done ? "copied" : "selected; press Ctrl+C to copy";
  setTimeout(() => { button.textContent = "Copy"; }, 2000);
});

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const search = document.getElementById("search");
  const typing = event.target.closest("input, textarea, select");
  if (event.key === "/" && !typing) {
    event.preventDefault();
    search.focus();
    search.select();
  } else if (event.key === "Escape" && event.target === search) {
    search.blur();
  }
});
