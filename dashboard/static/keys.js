// Everything by keyboard: cards by arrows or h j k l, search, time, help, and the look.
import { present, step } from "./travel.js";

const WAYS = { j: "down", ArrowDown: "down", k: "up", ArrowUp: "up", h: "left", ArrowLeft: "left", l: "right", ArrowRight: "right" };

export function keys() {
  const help = document.getElementById("keys");
  document.getElementById("help").addEventListener("click", () => help.showModal());
  document.getElementById("theme").addEventListener("click", turn);
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || help.open) return;
    if (event.key === "Escape") leave(event.target);
    if (event.target.closest("input, select, textarea")) return;
    if (press(event.key, help)) event.preventDefault();
  });
}

/** Out of a search, and of what is unfolded above the page. */
function leave(element) {
  if (element.type === "search") element.blur();
  document.querySelector(".pause[open]")?.removeAttribute("open");
}

/** Whether `key` meant something here. */
function press(key, help) {
  if (key in WAYS) return move(WAYS[key]);
  switch (key) {
    case "/": return focus(document.querySelector("[type=search]"));
    case "?": help.showModal(); return true;
    case "t": turn(); return true;
    case "[": step(-1); return true;
    case "]": step(1); return true;
    case "n": present(); return true;
    case "u": document.getElementById("up")?.click(); return true;
    default: return false;
  }
}

function focus(element) {
  element?.focus();
  return element !== null;
}

/** Dark where it is light, and the other way round; this machine remembers it. */
function turn() {
  const dark = getComputedStyle(document.documentElement).colorScheme === "dark"
    || (!document.documentElement.dataset.theme && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.dataset.theme = dark ? "light" : "dark";
  try {
    localStorage.setItem("theme", document.documentElement.dataset.theme);
  } catch {
    // storage that is switched off: it lasts as long as the page
  }
}

/** To the nearest card that way; to the first where none is held. */
function move(way) {
  const tiles = [...document.querySelectorAll(".tile")].filter((tile) => tile.getClientRects().length);
  if (!tiles.length) return false;
  const held = document.activeElement.closest(".tile");
  const next = held ? nearest(held, tiles, way) : tiles[0];
  next?.querySelector(".title").focus();
  next?.scrollIntoView({ block: "nearest", inline: "nearest" });
  return true;
}

function nearest(held, tiles, way) {
  const here = held.getBoundingClientRect();
  let best = null, least = Infinity;
  for (const tile of tiles) {
    const there = tile.getBoundingClientRect();
    const across = there.left - here.left, down = there.top - here.top;
    const along = { down, up: -down, right: across, left: -across }[way];
    const aside = Math.abs(way === "down" || way === "up" ? across : down);
    if (along <= 1 || ((way === "down" || way === "up") && aside >= here.width / 2)) continue;
    const far = way === "down" || way === "up" ? along : along * 4 + aside;
    if (far < least) [best, least] = [tile, far];
  }
  return best;
}
