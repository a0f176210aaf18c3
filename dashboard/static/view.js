// Another address in the same page: what differs is fetched and put in place, and the place in the page is kept.

const parser = new DOMParser();
const after = [];
let asking = null;

/** Call `then` with every element that was put into the page. */
export function onSwap(then) {
  after.push(then);
}

/** Tell those who want to know that `element` is new in the page. */
export function swapped(element) {
  for (const then of after) then(element);
}

/** The page at `url`, parsed; none where a newer wish has come meanwhile. A page that says no is gone to. */
export async function fetched(url) {
  asking?.abort();
  asking = new AbortController();
  try {
    const answer = await fetch(url, { signal: asking.signal, headers: { accept: "text/html" } });
    if (!answer.ok) {
      location.href = url;
      return null;
    }
    return parser.parseFromString(await answer.text(), "text/html");
  } catch (fault) {
    if (fault.name === "AbortError") return null;
    throw fault;
  }
}

/** Show `url`; `how` is what becomes of the address bar: push, replace, or keep. Answers whether it is shown. */
export async function go(url, how = "push") {
  const page = await fetched(url);
  if (page === null) return false;
  if (how !== "keep") history[`${how}State`](null, "", url);
  const focused = document.activeElement?.closest("[data-card]")?.dataset.card;
  const scrolled = document.querySelector(".board")?.scrollLeft ?? 0;
  document.title = page.title;
  for (const part of ["#view", ".top nav", ".acting"]) {
    const old = document.querySelector(part), fresh = page.querySelector(part);
    if (old && fresh) {
      old.replaceWith(document.adoptNode(fresh));
      swapped(fresh);
    }
  }
  document.querySelector(".board")?.scrollTo({ left: scrolled });
  if (focused) tileOf(focused)?.querySelector(".title").focus({ preventScroll: true });
  return true;
}

/** The tile of a card, if it is shown. */
export function tileOf(card) {
  return document.querySelector(`.tile[data-card="${CSS.escape(card)}"]`);
}

/** The HTML text of a fragment as a document: the server has escaped whatever people wrote in it. */
export function parsed(text) {
  return parser.parseFromString(text, "text/html");
}
