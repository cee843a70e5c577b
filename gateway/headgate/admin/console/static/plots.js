// Draws what the page carries as JSON beside each figure: lines (uPlot) and heat maps (canvas).
"use strict";
const drawn = new Map(); // figure id -> {chart, rows}
const COLOURS = { published: 1, unchanged: 2, superseded: 3, held: 4, rejected: 5, spooled: 6, duplicate: 7, unknown: 8 };

function colour(number) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${number}`).trim();
}

function short(value, unit) {
  if (value == null) return "–";
  const steps = [[1e9, "G"], [1e6, "M"], [1e3, "k"]];
  const [size, name] = steps.find(([least]) => Math.abs(value) >= least) || [1, ""];
  const text = Number((value / size).toPrecision(3)).toString();
  return `${text}${name ? " " + name : ""}${unit === "B" ? (name ? "B" : " B") : ""}`;
}

function columns(data) {
  const length = data.rows.length ? data.rows[0][1].length : 0;
  const times = Array.from({ length }, (_, place) => data.start + place * data.step);
  return [times, ...data.rows.map(([, values]) => values)];
}

function options(figure, data, box) {
  const unit = figure.dataset.unit;
  const ink = colour("quiet"), line = colour("line");
  const axis = { stroke: ink, grid: { stroke: line, width: 1 }, ticks: { stroke: line } };
  return {
    width: Math.max(200, box.clientWidth), height: 240,
    cursor: { drag: { x: true, y: false, setScale: !figure.dataset.brush } },
    // Of one moment uPlot shows a thousand days.
    scales: { x: { range: ({ data: [[first, second]] }, least, most) => (second ? [least, most] : [first - data.step, first + data.step]) },
      y: { range: (_chart, _least, most) => [0, most > 0 ? most * 1.05 : 1] } },
    axes: [axis, { ...axis, size: 64, values: (_chart, ticks) => ticks.map((tick) => short(tick, unit)) }],
    series: [{ value: "{YYYY}-{MM}-{DD} {HH}:{mm}:{ss}" }, ...data.rows.map(([name], place) => ({
      label: name, stroke: colour(`c${COLOURS[name] || (place % 8) + 1}`), width: 1.5,
      points: { show: data.rows[0][1].length < 3 },
      value: (_chart, value) => (value == null ? "–" : `${short(value, unit)}/s`),
    }))],
    hooks: figure.dataset.brush ? { setSelect: [brushed] } : {},
  };
}

// The reader has chosen a time with the mouse: it becomes the form's.
function brushed(chart) {
  if (chart.select.width < 2) return;
  const moment = (place) => new Date(1000 * chart.posToVal(place, "x")).toISOString();
  const { left, width } = chart.select;
  document.dispatchEvent(new CustomEvent("brushed", { detail: [moment(left), moment(left + width)] }));
}

function draw(figure) {
  const script = figure.querySelector("script[type='application/json']");
  const box = figure.querySelector(".canvas");
  if (!script || !box || typeof uPlot === "undefined") return;
  const data = JSON.parse(script.textContent);
  const names = data.rows.map(([name]) => name).join("\n");
  const known = drawn.get(figure.id);
  if (known && known.names === names && box.contains(known.chart.root)) {
    known.chart.setData(columns(data));
    return;
  }
  if (known) known.chart.destroy();
  box.replaceChildren();
  drawn.set(figure.id, { names, chart: new uPlot(options(figure, data, box), columns(data), box) });
}

// A heat map: a row a partition, a column a step; the stronger, the more.
function heat(figure) {
  const script = figure.querySelector("script[type='application/json']");
  const canvas = figure.querySelector("canvas");
  if (!script || !canvas) return;
  const data = JSON.parse(script.textContent);
  const height = 16, labels = 36, scale = devicePixelRatio || 1;
  const across = Math.max(200, figure.clientWidth - 2), down = data.rows.length * height;
  const step = (across - labels) / Math.max(data.rows[0][1].length, 24);
  canvas.width = across * scale;
  canvas.height = down * scale;
  canvas.style.height = `${down}px`;
  const pen = canvas.getContext("2d");
  pen.scale(scale, scale);
  pen.font = "11px system-ui, sans-serif";
  pen.textBaseline = "middle";
  const most = Math.max(...data.rows.map(([, values]) => Math.max(...values)), 1e-9);
  const ink = colour("ink"), hot = colour("c5");
  data.rows.forEach(([number, values], row) => {
    pen.globalAlpha = 1;
    pen.fillStyle = ink;
    pen.fillText(number, 4, (row + 0.5) * height);
    pen.fillStyle = hot;
    values.forEach((value, place) => {
      pen.globalAlpha = value ? 0.1 + 0.9 * Math.sqrt(value / most) : 0.03;
      pen.fillRect(labels + place * step, row * height + 1, Math.max(step - 1, 1), height - 2);
    });
  });
}

function drawAll() {
  for (const figure of document.querySelectorAll("figure.plot")) draw(figure);
  for (const figure of document.querySelectorAll("figure.heat")) heat(figure);
}

function redrawAll() {
  for (const { chart } of drawn.values()) chart.destroy();
  drawn.clear();
  drawAll();
}

let width = 0, waiting = 0;
addEventListener("resize", () => {
  if (width === innerWidth) return;
  width = innerWidth;
  clearTimeout(waiting);
  waiting = setTimeout(redrawAll, 150);
});
document.addEventListener("redraw", redrawAll);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawAll);
document.addEventListener("DOMContentLoaded", drawAll);
document.addEventListener("htmx:afterSwap", drawAll);
