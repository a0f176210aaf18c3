// Before anything is painted: the look that was chosen on this machine, else the system's.
"use strict";
try {
  const chosen = localStorage.getItem("theme");
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
} catch {
  // storage that is switched off has chosen nothing
}
