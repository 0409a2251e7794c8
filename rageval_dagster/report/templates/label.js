// Keys for the page where people label, and a note that outlives a reload. Without it the buttons do.
"use strict";
const form = document.querySelector("form[data-draft]"), note = form?.elements.note;
if (note) {
  // A note goes to the server with its label. Until then it stays in this tab.
  const key = form.dataset.draft, kept = sessionStorage.getItem(key);
  if (kept === note.value) sessionStorage.removeItem(key);
  else if (kept !== null) note.value = kept;
  note.addEventListener("input", () => sessionStorage.setItem(key, note.value));
}
const unsure = form?.querySelector("[data-key='?']");
unsure?.addEventListener("click", event => {
  if (note.value.trim()) return;
  event.preventDefault();
  document.getElementById("why").hidden = false;
  note.focus();
});
addEventListener("keydown", event => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || event.isComposing) return;
  if (event.target === note) {
    if (event.key === "Escape") note.blur();
    const isWhy = event.key === "Enter" && !event.shiftKey && !document.getElementById("why").hidden;
    if (!isWhy) return;
    event.preventDefault();
    unsure.click();
  } else if (!event.target.matches("input, select, textarea")) {
    const pressed = [...document.querySelectorAll("[data-key]")].find(each => each.dataset.key === event.key);
    if (!pressed) return;
    event.preventDefault();
    pressed.click();
  }
});
