// The slider over the whole log: any position, played or stepped through; the address carries the position.
import { go, onSwap } from "./view.js";

const STEPS = 80; // of a whole play
const BEAT = 300; // milliseconds, at least, between two of them

let slider, head, playing = false, shown = null, wished = null;

export function travel() {
  slider = document.getElementById("at");
  if (!slider) return;
  head = Number(slider.max);
  slider.addEventListener("input", () => show(Number(slider.value)));
  document.getElementById("travel").addEventListener("submit", (event) => event.preventDefault());
  document.getElementById("play").addEventListener("click", () => (playing ? stop() : play()));
  document.getElementById("now").addEventListener("click", (event) => {
    event.preventDefault();
    stop();
    show(head);
  });
  onSwap(told);
  told();
}

/** The log has grown up to `position`: whoever looks at now stays there. */
export function grown(position) {
  if (!slider) return;
  const atEnd = Number(slider.value) === head;
  head = position;
  slider.max = position;
  if (atEnd) slider.value = position;
  say();
}

/** Look at `by` events earlier or later. */
export function step(by) {
  if (!slider) return;
  stop();
  slider.value = Number(slider.value) + by;
  show(Number(slider.value));
}

/** Look at now. */
export function present() {
  if (!slider) return;
  stop();
  slider.value = head;
  show(head);
}

/** Show the board at `position`: one question at a time, and the last wish is always granted. */
async function show(position) {
  wished = position;
  say();
  if (shown !== null) return;
  while (wished !== null) {
    shown = wished;
    wished = null;
    await go(at(shown), "replace").catch(stop);
  }
  shown = null;
}

async function play() {
  playing = true;
  pressed();
  let here = Number(slider.value) >= head ? 1 : Number(slider.value);
  const size = Math.max(1, Math.ceil((head - here) / STEPS));
  while (playing) {
    slider.value = here;
    const begun = performance.now();
    await show(here);
    if (here >= head) break;
    here = Math.min(here + size, head);
    await new Promise((then) => setTimeout(then, Math.max(0, BEAT - (performance.now() - begun))));
  }
  stop();
}

function stop() {
  playing = false;
  pressed();
}

function pressed() {
  document.getElementById("play").setAttribute("aria-pressed", String(playing));
}

function at(position) {
  const given = new URLSearchParams(location.search);
  given.delete("after");
  if (position >= head) given.delete("at");
  else given.set("at", position);
  return given.size ? `/?${given}` : "/";
}

/** What has come tells where it stands. */
function told() {
  const main = document.getElementById("main");
  document.getElementById("now").hidden = !main.dataset.at;
  if (!playing && wished === null && shown === null) slider.value = main.dataset.at || head;
  say();
}

function say() {
  const value = Number(slider.value);
  document.getElementById("time").classList.toggle("gone", value < head);
  document.getElementById("where").textContent = value >= head ? `${said(head)} events, now` : `${said(value)} of ${said(head)}`;
  slider.setAttribute("aria-valuetext", value >= head ? "now" : `position ${value} of ${head}`);
}

function said(number) {
  return number.toLocaleString("en");
}
