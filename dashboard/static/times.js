// Instants in the reader's own time zone, and ages that grow.
import { onSwap } from "./view.js";

const time = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
const clock = new Intl.DateTimeFormat(undefined, { ...time, second: "2-digit" });
const thisYear = new Intl.DateTimeFormat(undefined, { ...time, day: "numeric", month: "short" });
const anyYear = new Intl.DateTimeFormat(undefined, { ...time, day: "numeric", month: "short", year: "numeric" });
const whole = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "long", hourCycle: "h23" });
const day = new Intl.DateTimeFormat(undefined, { dateStyle: "full" });
const moment = { format: (at) => (at.getFullYear() === new Date(now()).getFullYear() ? thisYear : anyYear).format(at) };
const formats = { clock, moment };
let skew = 0;

/** What time it is for the server, in milliseconds. */
export function now() {
  return Date.now() + skew;
}

/** Say every instant below `root` in the reader's zone. */
export function localise(root) {
  const told = root.querySelector("main[data-now]");
  if (told && !told.dataset.at) skew = Number(told.dataset.now) / 1000 - Date.now();
  for (const story of root.querySelectorAll(".story")) byDay(story);
  for (const element of root.querySelectorAll("time[data-show]")) {
    const at = new Date(element.dateTime);
    const format = formats[element.dataset.show];
    if (format) element.textContent = format.format(at);
    element.title = whole.format(at);
  }
}

/** The days of a story are the reader's, too: the server knows only those of UTC. */
function byDay(story) {
  let last = "";
  for (const each of story.querySelectorAll(".day")) each.remove();
  for (const each of story.querySelectorAll("li")) {
    const said = day.format(new Date(each.querySelector("time").dateTime));
    if (said === last) continue;
    last = said;
    const heading = document.createElement("li");
    heading.className = "day";
    heading.textContent = said;
    each.before(heading);
  }
}

/** Let ages grow, as long as somebody looks and not at the past. */
export function tick() {
  onSwap(localise);
  setInterval(() => {
    if (document.hidden || document.querySelector("main")?.dataset.at) return;
    for (const element of document.querySelectorAll('time[data-show="age"]')) {
      element.at ??= Date.parse(element.dateTime);
      const said = age(Math.floor((now() - element.at) / 1000));
      if (element.textContent !== said) element.textContent = said;
    }
  }, 1000);
}

function age(seconds) {
  const minutes = Math.floor(seconds / 60), hours = Math.floor(seconds / 3600);
  if (seconds < 60) return `${Math.max(seconds, 0)}s`;
  if (hours === 0) return `${minutes}m`;
  return hours < 24 ? `${hours}h${String(minutes % 60).padStart(2, "0")}m` : `${Math.floor(hours / 24)}d`;
}
