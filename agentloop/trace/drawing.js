// The timeline: what is on it and how it is drawn. page.py joins this file and pointing.js into one function.

const data = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
const view = $("view"), chart = $("chart"), lanes = $("lanes"), whole = $("whole"), tip = $("tip"), detail = $("detail");
const LEFT = 62, AXIS = 24, PROMPT = 26, DRAFT = 12, REPLY = 40, TOOL = 18, SPACE = 8;

// -- what there is: every event once, in the order of time

const events = [];
data.turns.forEach((turn, n) => {
  if (turn.prefill > 0 || turn.new) events.push({ kind: "prefill", t: turn.t, d: turn.prefill, turn: n });
  turn.steps.forEach((s, i) => events.push({ kind: "step", t: turn.t + s[0], d: s[1], turn: n, i, s }));
});
data.tools.forEach((tool, i) => events.push({ kind: "tool", t: tool.t, d: tool.d, tool, i }));
data.marks.forEach((mark, i) => events.push({ kind: "mark", t: mark.t, d: mark.d, mark, i }));
events.sort((a, b) => a.t - b.t || a.d - b.d);
events.forEach((e, id) => { e.id = id; });
const rows = 1 + data.tools.reduce((most, tool) => Math.max(most, tool.lane), -1);
const top = { prompt: AXIS, draft: AXIS + PROMPT + SPACE };
top.reply = top.draft + DRAFT + 2;
top.tools = top.reply + REPLY + SPACE;
const height = top.tools + rows * TOOL + 4;
const inLane = { prefill: [], step: [], mark: [] };
for (let r = 0; r < rows; r++) inLane["tool" + r] = [];
for (const e of events) inLane[e.kind === "tool" ? "tool" + e.tool.lane : e.kind].push(e);
const LENGTH = Math.max(data.length, 1e-3), PAD = LENGTH * 0.01;
let from = -PAD, to = LENGTH + PAD, hovered = null, held = null, shownTurn = null, width = 0, wide = null;

// -- words

const seconds = (s) => s >= 5400 ? `${(s / 3600).toFixed(1)} h` : s >= 90 ? `${(s / 60).toFixed(1)} min`
  : s >= 1 ? `${s.toFixed(2)} s`
  : s && s < 1e-4 ? `${(s * 1e6).toFixed(0)} µs` : `${(s * 1e3).toFixed(s < 0.01 ? 2 : 1)} ms`;
const count = (n, what) => `${n.toLocaleString("en")} ${what}${n === 1 ? "" : "s"}`;
const clock = (at) => at > 1e6 ? new Date(at * 1e3).toLocaleString() : "not recorded";
const turnName = (n) => data.turns[n].n === null ? `a turn that was ${data.turns[n].gone || "cut"}` : `turn ${data.turns[n].n}`;
const bad = (tool) => !["ok", "deferred", "approval"].includes(tool.outcome);

function stepName(s) {
  if (s.length <= 5) return count(s[2], "token") + " decoded";
  if (!s[6]) return count(s[2], "token") + (s[5] === "forced" ? " forced" : " decoded");
  return `${count(s[2], "token")}: ${s[6]} drafted by ${s[5]}, ${s[7]} accepted`;
}

function title(e) {
  if (e.kind === "prefill") {
    const turn = data.turns[e.turn];
    return `Prefill of ${turnName(e.turn)}: ${turn.new.toLocaleString("en")} new, ${turn.reused.toLocaleString("en")} reused`
      + (turn.recomputed ? `, ${turn.recomputed.toLocaleString("en")} recomputed` : "");
  }
  if (e.kind === "step") return `${stepName(e.s)} (${turnName(e.turn)}, ${e.s[3]})`;
  if (e.kind === "tool") return `Tool ${e.tool.name}: ${e.tool.outcome}`;
  const m = e.mark;
  if (m.what === "compacted") return `Compacted: ${m.before} tokens became ${m.after}`;
  if (m.what === "rewound") return `Rewound to the begin of turn ${m.turn}`;
  return { loaded: "Loaded from its file", forked: "Forked from another conversation",
    rewritten: "Went on from other messages" }[m.what] || m.what;
}

function textOf(e) {
  if (e.kind === "prefill") return data.turns[e.turn].prompt;
  if (e.kind === "step") return e.s[4];
  if (e.kind === "tool") return e.tool.result;
  return "";
}

// -- drawing

let colour = {};
function readColours() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["bg", "card", "text", "dim", "line", "grid", "new", "recomputed", "draft", "plain", "verify",
    "accepted", "forced", "tool", "failed", "held", "mark"]) colour[name] = style.getPropertyValue("--" + name).trim();
}

const X = (t) => LEFT + (t - from) / (to - from) * (width - LEFT);
const T = (x) => from + (x - LEFT) / (width - LEFT) * (to - from);

function surface(canvas, h) {
  const ratio = window.devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(h * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(h * ratio);
    canvas.style.height = h + "px";
  }
  const g = canvas.getContext("2d");
  g.setTransform(ratio, 0, 0, ratio, 0, 0);
  g.clearRect(0, 0, width, h);
  g.font = "11px system-ui, sans-serif";
  g.textBaseline = "middle";
  return g;
}

// Index of the first event of a lane that may be visible; events of a lane do not overlap, as near as makes no odds.
function firstVisible(list, t) {
  let a = 0, b = list.length;
  while (a < b) {
    const m = (a + b) >> 1;
    if (list[m].t + list[m].d < t) a = m + 1; else b = m;
  }
  return a;
}

// Calls draw(event, x, width) for what is visible; of many within one pixel, for one only.
function each(list, draw) {
  let last = -1;
  for (let i = firstVisible(list, from); i < list.length && list[i].t <= to; i++) {
    const e = list[i], x = Math.max(LEFT, X(e.t)), end = Math.min(width, X(e.t + e.d));
    if (end < last + 0.6 && e !== hovered && e !== held) continue;
    last = Math.max(end, x + 1);
    draw(e, x, Math.max(1, end - x - (end - x > 4 ? 1 : 0)));
  }
}

function tick(span) {
  const raw = span / Math.max(2, (width - LEFT) / 110), power = 10 ** Math.floor(Math.log10(raw));
  return power * ([1, 2, 5].find((m) => m * power >= raw) || 10);
}

function label(g, text, x, y, room, fill) {
  if (room < 24 || g.measureText(text).width > room) return;
  g.fillStyle = fill;
  g.fillText(text, x, y);
}

function drawLanes() {
  const g = surface(lanes, height);
  const step = tick(to - from), places = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  g.fillStyle = colour.dim;
  for (let t = Math.max(0, Math.ceil(from / step) * step); t <= to; t += step) {
    const x = X(t);
    g.fillStyle = colour.grid;
    g.fillRect(x, AXIS - 6, 1, height - AXIS + 6);
    g.fillStyle = colour.dim;
    label(g, `${t.toFixed(places)} s`, x + 3, 8, width - x, colour.dim);
  }
  for (const [name, y] of [["prefill", top.prompt + PROMPT / 2], ["draft", top.draft + DRAFT / 2],
    ["reply", top.reply + REPLY / 2], [rows ? "tools" : "", top.tools + TOOL / 2]]) g.fillText(name, 2, y);
  g.save();
  g.beginPath();
  g.rect(LEFT, 0, width - LEFT, height);
  g.clip();
  for (const [t, cut] of data.gaps) {
    const x = X(t);
    g.fillStyle = colour.grid;
    for (let y = AXIS; y < height; y += 6) g.fillRect(x - 3 + (y / 6 % 2) * 3, y, 3, 5);
    label(g, `${seconds(cut)} cut`, x + 6, AXIS - 5, 90, colour.mark);
  }
  each(inLane.prefill, (e, x, w) => {
    const turn = data.turns[e.turn], all = turn.new + turn.recomputed || 1, again = w * Math.min(1, turn.recomputed / all);
    g.globalAlpha = turn.gone ? 0.45 : 1;
    g.fillStyle = colour.new;
    g.fillRect(x, top.prompt, w, PROMPT);
    g.fillStyle = colour.recomputed;
    if (turn.recomputed) g.fillRect(x, top.prompt, Math.max(1, again), PROMPT);
    label(g, `${turn.new.toLocaleString("en")} new`, x + 4, top.prompt + PROMPT / 2, w - 8, colour.card);
    g.globalAlpha = 1;
  });
  drawSteps(g);
  for (let r = 0; r < rows; r++) each(inLane["tool" + r], (e, x, w) => {
    const y = top.tools + r * TOOL;
    g.fillStyle = bad(e.tool) ? colour.failed : colour.tool;
    g.fillRect(x, y + 2, Math.max(2, w), TOOL - 4);
    label(g, e.tool.name, x + 4, y + TOOL / 2, w - 8, colour.card);
  });
  each(inLane.mark, (e, x) => {
    g.fillStyle = colour.mark;
    g.fillRect(x, AXIS - 8, 1, height);
    g.beginPath(); g.moveTo(x, AXIS - 8); g.lineTo(x + 9, AXIS - 4); g.lineTo(x, AXIS); g.fill();
  });
  for (const e of [held, hovered]) if (e) outline(g, e, e === held ? 2 : 1);
  g.restore();
}

// Steps that are narrower than a pixel are drawn as one step with their sums.
function drawSteps(g) {
  let sum = null, at = -1;
  const flush = () => { if (sum) drawStep(g, sum, Math.max(LEFT, at), 1, false); sum = null; };
  const list = inLane.step;
  for (let i = firstVisible(list, from); i < list.length && list[i].t <= to; i++) {
    const e = list[i], x = X(e.t), end = X(e.t + e.d), s = e.s;
    if (end - x >= 1.5) {
      flush();
      const left = Math.max(LEFT, x), right = Math.min(width, end);
      drawStep(g, s, left, Math.max(1, right - left - (right - left > 4 ? 1 : 0)), data.turns[e.turn].gone);
      continue;
    }
    if (Math.floor(x) !== at) { flush(); at = Math.floor(x); sum = [0, 0, 0, s[3], "", "", 0, 0, 0, 0]; }
    sum = sum || [0, 0, 0, s[3], "", "", 0, 0, 0, 0];
    sum[1] += s[1];
    sum[2] += s[2];
    if (s.length > 5) { sum[5] = s[5]; for (const k of [6, 7, 8]) sum[k] += s[k]; }
  }
  flush();
}

function drawStep(g, s, x, w, gone) {
  g.globalAlpha = gone ? 0.45 : 1;
  const drafted = s.length > 5 && s[6];
  if (drafted) {
    const d = Math.max(1, w * Math.min(1, s[8] / (s[1] || 1)));
    g.fillStyle = colour.draft;
    g.fillRect(x, top.draft, d, DRAFT);
    g.fillStyle = colour.verify;
    g.fillRect(x, top.reply, w, REPLY - 6);
    const h = (REPLY - 6) * Math.min(1, s[7] / s[6]);
    g.fillStyle = colour.accepted;
    g.fillRect(x, top.reply + REPLY - 6 - h, w, h);
    label(g, `${s[7]}/${s[6]}`, x + 3, top.reply + 10, w - 5, s[7] / s[6] > 0.6 ? colour.card : colour.text);
  } else {
    g.fillStyle = s.length > 5 && s[5] === "forced" ? colour.forced : colour.plain;
    g.fillRect(x, top.reply, w, REPLY - 6);
  }
  g.fillStyle = { reasoning: colour.dim, call: colour.tool }[s[3]] || colour.text;
  g.fillRect(x, top.reply + REPLY - 5, w, 3);
  g.globalAlpha = 1;
}

function place(e) {
  const x = X(e.t), w = Math.max(3, X(e.t + e.d) - x);
  if (e.kind === "prefill") return [x, top.prompt, w, PROMPT];
  if (e.kind === "step") return [x, top.draft, w, DRAFT + REPLY];
  if (e.kind === "tool") return [x, top.tools + e.tool.lane * TOOL + 2, w, TOOL - 4];
  return [x, AXIS - 8, 9, 8];
}

function outline(g, e, thick) {
  const [x, y, w, h] = place(e);
  g.strokeStyle = colour.held;
  g.lineWidth = thick;
  g.strokeRect(x - 1, y - 1, w + 2, h + 2);
}

function drawWhole() {
  const h = 34, g = surface(whole, h), scale = (width - LEFT) / (LENGTH + 2 * PAD);
  const at = (t) => LEFT + (t + PAD) * scale;
  const bars = [["prefill", 6, colour.new], ["step", 13, colour.accepted], ["tool", 20, colour.tool]];
  for (const [kind, y, fill] of bars) {
    g.fillStyle = fill;
    let last = -1;
    for (const e of events) {
      if (e.kind !== kind) continue;
      const x = at(e.t), end = Math.max(x + 1, at(e.t + e.d));
      if (end < last + 0.5) continue;
      g.fillRect(x, y, end - x, 5);
      last = end;
    }
  }
  wide = g.getImageData(0, 0, whole.width, whole.height);
}

function drawWindow() {
  const g = whole.getContext("2d"), scale = (width - LEFT) / (LENGTH + 2 * PAD);
  g.putImageData(wide, 0, 0);
  g.fillStyle = colour.dim;
  g.fillText("all", 2, 16);
  g.strokeStyle = colour.dim;
  g.lineWidth = 1;
  g.strokeRect(LEFT + (from + PAD) * scale + 0.5, 2.5, Math.max(3, (to - from) * scale) - 1, 28);
}

let asked = false;
function draw() {
  if (asked) return;
  asked = true;
  requestAnimationFrame(() => { asked = false; drawLanes(); drawWindow(); });
}

function resize() {
  width = chart.clientWidth;
  drawWhole();
  drawLanes();
  drawWindow();
}
