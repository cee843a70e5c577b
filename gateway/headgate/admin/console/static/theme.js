// Before anything is painted, so that the page does not flash in the other colours.
"use strict";
try {
  const theme = localStorage.getItem("headgate-theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch { /* no storage: the system's colours */ }
