// The page as it changes: the server says which cards moved, their tiles are fetched and put where they belong.
import { fetched, go, onSwap, parsed, swapped, tileOf } from "./view.js";
import { now } from "./times.js";
import { grown } from "./travel.js";

const MOST = 150; // cards fetched one by one; with more the page is read anew
const LONGEST = 70; // tiles of a column before it is read anew
const AGAIN = 5000; // milliseconds before a stream that was refused is asked for again
const LOG = 3000; // milliseconds between two looks at the log of a live run
const SIGNS = { past: "the past", still: "not live" };
const LATEST_FIRST = new Set(["done", "archived"]);

let sign, stream = null, state = "still", position = 0, paused = "", waiting = new Set(), counts = {}, newest = 0, busy = false;

export function listen() {
  const main = document.getElementById("main");
  sign = document.getElementById("live");
  if (!sign || !main?.dataset.position) return;
  position = Number(main.dataset.head);
  onSwap(() => say(state));
  paused = main.dataset.paused ?? "";
  if (!document.hidden) attach();
  // a browser opens six connections to a server and no more: pages that nobody sees give theirs back
  document.addEventListener("visibilitychange", () => (document.hidden ? detach() : attach()));
  window.addEventListener("pagehide", detach);
  window.addEventListener("pageshow", attach);
  if (main.dataset.cardPage) setInterval(follow, LOG);
}

function attach() {
  if (!stream) stream = open();
}

function detach() {
  stream?.close();
  stream = null;
}

function open() {
  const opened = new EventSource(`/live?after=${position}`);
  opened.addEventListener("open", () => say("live"));
  opened.addEventListener("delta", (event) => hear(JSON.parse(event.data)));
  opened.addEventListener("reload", (event) => anew(JSON.parse(event.data)));
  opened.addEventListener("trouble", () => say("reconnecting"));
  opened.addEventListener("error", () => {
    say("reconnecting");
    if (opened.readyState === EventSource.CLOSED) setTimeout(() => again(opened), AGAIN);
  });
  return opened;
}

/** Ask anew for a stream that was refused, as by a server that began with other tokens. */
function again(refused) {
  if (stream !== refused) return;
  detach();
  attach();
}

/** The small sign: live, reconnecting, or the past. */
function say(next) {
  state = next;
  const past = document.getElementById("main").dataset.at !== "";
  const shown = past && state === "live" ? "past" : state;
  if (sign.dataset.state === shown) return;
  sign.dataset.state = shown;
  sign.firstElementChild.textContent = SIGNS[shown] ?? shown;
}

function hear(delta) {
  say("live");
  if (delta.position <= position) return;
  position = delta.position;
  newest = delta.at;
  grown(position);
  counts = delta.counts;
  for (const card of delta.cards) waiting.add(card.id);
  const told = delta.paused.map((pause) => pause.position).join(" ");
  const other = told !== paused;
  paused = told;
  if (other) anew(delta);
  else catchUp();
}

async function anew(told) {
  position = Math.max(position, told.position);
  grown(position);
  waiting.clear();
  try {
    if (!document.getElementById("main").dataset.at) await go(location.href, "keep");
    shown();
  } catch {
    say("reconnecting");
    setTimeout(() => anew(told), AGAIN);
  }
}

/** Show what has changed, one round after the other; nothing moves while the past is looked at. */
async function catchUp() {
  if (busy) return;
  busy = true;
  try {
    while (waiting.size) {
      const cards = [...waiting];
      waiting.clear();
      const main = document.getElementById("main");
      if (main.dataset.at) continue;
      if (main.dataset.cardPage) await card(main, cards);
      else if (cards.length > MOST || main.querySelector(".empty") || main.dataset.after) await go(location.href, "keep");
      else await board(cards);
      shown();
    }
  } catch {
    anew({ position });
  } finally {
    busy = false;
  }
}

/** The page's own measurement: how long after it happened the last change stood there, in milliseconds. */
function shown() {
  if (!newest) return;
  const lag = Math.max(0, Math.round(now() - newest / 1000));
  document.documentElement.dataset.lag = lag;
  document.documentElement.dataset.shown = position;
  sign.title = `The last change stood here ${(lag / 1000).toFixed(1)} s after it happened.`;
}

async function board(cards) {
  const asked = new URLSearchParams(location.search);
  for (const id of cards) asked.append("id", id);
  const answer = await fetch(`/fragments/tiles?${asked}`, { headers: { accept: "text/html" } });
  if (!answer.ok) throw new Error(answer.statusText);
  const page = parsed(await answer.text());
  const fresh = new Map([...page.querySelectorAll(".tile")].map((tile) => [tile.dataset.card, tile]));
  if (!cards.every((id) => place(id, fresh.get(id)))) {
    await go(location.href, "keep");
    return;
  }
  const filtered = Object.fromEntries([...page.querySelectorAll("data[data-count]")].map((each) => [each.dataset.count, Number(each.value)]));
  count(Object.keys(filtered).length ? filtered : counts);
}

/** Put the tile of a card where it belongs, or take it away; false where there is no place for it. */
function place(id, fresh) {
  const old = tileOf(id);
  const held = old?.contains(document.activeElement);
  if (!fresh) {
    old?.remove();
    return true;
  }
  const list = listOf(fresh);
  if (!list) {
    old?.remove();
    return fresh.dataset.status === "archived" || Boolean(new URLSearchParams(location.search).get("status"));
  }
  const was = old?.parentElement;
  old?.remove();
  const behind = [...list.children].find((tile) => before(fresh, tile));
  const more = list.parentElement.querySelector(".more");
  if (!behind && more && was !== list) return true;
  fresh.classList.add("changed");
  fresh.addEventListener("animationend", () => fresh.classList.remove("changed"), { once: true });
  list.insertBefore(document.adoptNode(fresh), behind ?? null);
  swapped(fresh);
  if (held) fresh.querySelector(".title").focus({ preventScroll: true });
  return list.children.length <= LONGEST;
}

function listOf(tile) {
  const status = `.tiles[data-status="${CSS.escape(tile.dataset.status)}"]`;
  if (!document.querySelector(".board.lanes")) return document.querySelector(status);
  return document.querySelector(`.lane[data-lane="${CSS.escape(tile.dataset.worker)}"] ${status}`);
}

/** Whether `one` stands above `other` in the column of both. */
function before(one, other) {
  const [a, b] = [one.dataset, other.dataset];
  const order = LATEST_FIRST.has(a.status)
    ? [b.updated - a.updated]
    : [b.priority - a.priority, a.created - b.created];
  return (order.find((difference) => difference !== 0) ?? (a.card < b.card ? -1 : 1)) < 0;
}

function count(numbers) {
  for (const [status, number] of Object.entries(numbers)) {
    for (const element of document.querySelectorAll(`[data-count="${CSS.escape(status)}"]`)) {
      element.textContent = number.toLocaleString("en");
      const column = element.closest(".column");
      column?.classList.toggle("bare", number === 0);
      const more = column?.querySelector(".more");
      if (more) more.textContent = `${(number - column.querySelectorAll(".tile").length).toLocaleString("en")} more…`;
    }
  }
}

/** The page of a card: its parts are put in place, those in which somebody writes are left alone. */
async function card(main, cards) {
  const kin = [...main.querySelectorAll(".node")].map((node) => node.dataset.card);
  if (!cards.includes(main.dataset.cardPage) && !kin.some((id) => cards.includes(id))) return;
  const page = await fetched(location.href);
  if (page === null) return;
  for (const old of document.querySelectorAll("[data-part]")) {
    const fresh = page.querySelector(`[data-part="${old.dataset.part}"]`);
    if (!fresh || old.contains(document.activeElement) || old.innerHTML === fresh.innerHTML) continue;
    const opened = [...old.querySelectorAll("details")].map((each) => each.open);
    old.replaceWith(document.adoptNode(fresh));
    [...fresh.querySelectorAll("details")].forEach((each, place) => (each.open = opened[place] ?? each.open));
    swapped(fresh);
  }
}

/** What a live run writes, as long as somebody looks. */
async function follow() {
  const log = document.getElementById("log");
  if (document.hidden || !log?.open || !log.dataset.live) return;
  const answer = await fetch(log.dataset.log, { headers: { accept: "text/html" } }).catch(() => null);
  if (!answer?.ok) return;
  const text = parsed(await answer.text()).querySelector(".log")?.textContent ?? "";
  const shown = log.querySelector(".log");
  if (!shown || shown.textContent === text) return;
  const atEnd = shown.scrollTop + shown.clientHeight >= shown.scrollHeight - 8;
  shown.textContent = text;
  if (atEnd) shown.scrollTop = shown.scrollHeight;
}
