// Filters act as they are set; the address always says which are.
import { go } from "./view.js";

const PAUSE = 250; // milliseconds after the last letter of a search

export function filters() {
  const form = document.getElementById("filters");
  if (!form) return;
  let waiting = 0;
  const apply = () => {
    clearTimeout(waiting);
    for (const select of form.querySelectorAll("select")) select.classList.toggle("set", select.value !== "");
    show(wanted(form), "push");
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    apply();
  });
  form.addEventListener("change", (event) => {
    if (event.target.type !== "search") apply();
  });
  form.querySelector("[type=search]").addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(apply, PAUSE);
  });
  window.addEventListener("popstate", () => {
    fill(form, new URLSearchParams(location.search));
    show(location.href, "keep");
  });
}

/** Put it in place; a browser that cannot says itself why. */
function show(url, how) {
  go(url, how).catch(() => location.assign(url));
}

/** The address of what the form says, at the position that is looked at. */
function wanted(form) {
  const given = new URLSearchParams();
  for (const [name, value] of new FormData(form)) if (value !== "" && name !== "at") given.set(name, value);
  const at = new URLSearchParams(location.search).get("at");
  if (at) given.set("at", at);
  return given.size ? `/?${given}` : "/";
}

function fill(form, given) {
  for (const field of form.elements) {
    if (field.type === "checkbox") field.checked = given.has(field.name);
    else if (field.name && field.type !== "hidden") field.value = given.get(field.name) ?? "";
    if (field.tagName === "SELECT") field.classList.toggle("set", field.value !== "");
  }
}
