// What a page does beyond being read. Without any of it every page can still be read, filtered and acted on.
import { listen } from "./live.js";
import { keys } from "./keys.js";
import { localise, tick } from "./times.js";
import { travel } from "./travel.js";
import { filters } from "./filters.js";

const here = new URL(location.href);
if (here.searchParams.has("said")) {
  here.searchParams.delete("said"); // it is said once
  history.replaceState(null, "", here);
}
localise(document);
tick();
keys();
filters();
travel();
listen();
