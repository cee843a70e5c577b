// Times in the reader's zone, colours, copying, and pausing a live page.
"use strict";
const clock = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

function localise() {
  for (const one of document.querySelectorAll("time[datetime]")) {
    const at = new Date(one.dateTime);
    const text = clock.format(at);
    if (!Number.isNaN(at.getTime()) && one.textContent !== text) one.textContent = text;
  }
  const zone = document.getElementById("zone");
  const name = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (zone) zone.textContent = `Times are in ${name}. Hover over a time for UTC.`;
}

function reveal() {
  for (const one of document.querySelectorAll(".copier[hidden], #theme[hidden], #pause[hidden]")) one.hidden = false;
}

function say(text) {
  document.getElementById("said").textContent = text;
}

const THEMES = ["system", "light", "dark"];
function shownTheme() {
  return document.documentElement.dataset.theme || "system";
}
function nextTheme(button) {
  const theme = THEMES[(THEMES.indexOf(shownTheme()) + 1) % THEMES.length];
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  try { localStorage.setItem("headgate-theme", theme); } catch { /* only until the next page */ }
  button.textContent = `Theme: ${theme}`;
  document.dispatchEvent(new Event("redraw"));
}

let isPaused = false;
function pause(button) {
  isPaused = !isPaused;
  button.setAttribute("aria-pressed", String(isPaused));
  button.textContent = isPaused ? "Updates are paused" : "Pause updates";
}

async function copy(button) {
  const text = button.parentElement.querySelector("pre").textContent;
  try {
    await navigator.clipboard.writeText(text);
  } catch { // no permission, or no HTTPS
    const range = document.createRange();
    range.selectNodeContents(button.parentElement.querySelector("pre"));
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    document.execCommand("copy");
  }
  button.textContent = "Copied";
  say("Copied");
  setTimeout(() => { button.textContent = "Copy"; }, 2000);
}

// A choice among numbers gets a slider beside it, which chooses as the reader would.
function addSlider(select) {
  const range = document.createElement("input");
  range.type = "range";
  range.id = `${select.id}-slider`;
  range.max = String(select.options.length - 1);
  range.setAttribute("aria-label", select.dataset.slider);
  const follow = () => {
    range.value = String(select.selectedIndex);
    range.setAttribute("aria-valuetext", `${select.value} ${select.dataset.unit}`);
  };
  range.addEventListener("input", () => {
    select.selectedIndex = Number(range.value);
    select.dispatchEvent(new Event("change", { bubbles: true }));
  });
  select.addEventListener("change", follow);
  follow();
  select.after(range);
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (!button) return;
  if (button.id === "theme") nextTheme(button);
  if (button.id === "pause") pause(button);
  if (button.classList.contains("copier")) copy(button);
});
document.addEventListener("submit", (event) => {
  const asked = event.target.dataset.ask;
  if (asked && !confirm(asked)) event.preventDefault();
});
document.addEventListener("brushed", (event) => {
  const [from, to] = event.detail;
  for (const [id, value] of [["from", from], ["to", to]]) {
    const input = document.getElementById(id);
    if (input) { input.value = value; input.dispatchEvent(new Event("input", { bubbles: true })); }
  }
  say(`Chosen: from ${clock.format(new Date(from))} to ${clock.format(new Date(to))}`);
});
document.addEventListener("input", (event) => {
  const shown = document.getElementById(`${event.target.id}-shown`);
  if (!shown) return;
  const at = new Date(event.target.value);
  shown.textContent = Number.isNaN(at.getTime()) ? "" : clock.format(at);
});
// A live page says when it no longer is one. The gateway sends something every 15 s at least.
const SILENT_MS = 40_000;
let heardAt = Date.now(), lostAt = 0, isRefused = false;
function tell(kind, text) {
  const shown = document.getElementById("connection");
  shown.className = `worry ${kind}`;
  shown.textContent = text;
  shown.hidden = false;
}
function lost(since) {
  if (lostAt) return;
  lostAt = since;
  isRefused = false;
  tell("bad", `The connection to the gateway is lost since ${clock.format(lostAt)}. What is shown is of then; it is tried again.`);
}
function heard() {
  heardAt = Date.now();
  if (lostAt) tell("good", `Connected again since ${clock.format(heardAt)}, after ${Math.ceil((heardAt - lostAt) / 1000)} s.`);
  lostAt = 0;
}
function refused(event) {
  heard();
  if (!isRefused) tell("warn", `Not up to date since ${clock.format(heardAt)}: ${event.data}`);
  isRefused = true;
}
document.addEventListener("htmx:sseOpen", (event) => {
  event.detail.source.addEventListener("still", heard);
  event.detail.source.addEventListener("refused", refused);
});
document.addEventListener("htmx:sseError", () => lost(Date.now()));
document.addEventListener("htmx:sseBeforeMessage", (event) => {
  if (isRefused && !lostAt) tell("good", `Up to date again since ${clock.format(Date.now())}.`);
  isRefused = false;
  heard();
  if (isPaused) event.preventDefault();
});
if (document.getElementById("connection")) setInterval(() => { if (Date.now() - heardAt > SILENT_MS) lost(heardAt); }, 5_000);
document.addEventListener("htmx:afterSwap", () => { localise(); reveal(); });

// A swap must not take away what the reader has opened, nor what the scripts have drawn.
if (typeof Idiomorph !== "undefined") {
  Idiomorph.defaults.callbacks.beforeNodeMorphed = (old) =>
    !(old instanceof Element && (old.classList.contains("canvas") || old.tagName === "CANVAS"));
  Idiomorph.defaults.callbacks.beforeAttributeUpdated = (name, node) =>
    !(node.tagName === "DETAILS" && name === "open") && !(name === "hidden" && node.matches(".copier"));
}
localise();
reveal();
for (const select of document.querySelectorAll("select[data-slider]")) addSlider(select);
const themeButton = document.getElementById("theme");
if (themeButton) themeButton.textContent = `Theme: ${shownTheme()}`;
