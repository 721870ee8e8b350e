// Pointing, keys and the texts of what is selected. Texts go into the page as text nodes only.

function hit(x, y) {
  const near = (list, reach) => {
    let best = null, distance = reach;
    const t = T(x), slack = (to - from) / width * reach;
    for (let i = firstVisible(list, t - slack); i < list.length && list[i].t <= t + slack; i++) {
      const e = list[i], a = X(e.t), b = X(e.t + e.d), d = x < a ? a - x : x > b ? x - b : 0;
      if (d < distance || (d === 0 && distance === 0)) { best = e; distance = d; }
    }
    return best;
  };
  if (x < LEFT) return null;
  if (y < AXIS - 1) return near(inLane.mark, 10);
  if (y < top.draft - SPACE / 2) return near(inLane.prefill, 4);
  if (y < top.tools - SPACE / 2) return near(inLane.step, 4);
  const row = inLane["tool" + Math.floor((y - top.tools) / TOOL)];
  return row ? near(row, 4) : null;
}

function node(tag, text, cls) {
  const out = document.createElement(tag);
  if (text !== undefined && text !== null) out.textContent = text;
  if (cls) out.className = cls;
  return out;
}

function showTip(e, x, y) {
  tip.hidden = !e;
  if (!e) return;
  const text = textOf(e);
  tip.replaceChildren(node("b", title(e)), node("span", `${seconds(e.d)}, at ${e.t.toFixed(3)} s`));
  if (text) tip.append(node("pre", text.length > 400 ? text.slice(0, 400) + "\u2026" : text));
  tip.style.left = Math.max(0, Math.min(x + 14, width - tip.offsetWidth - 4)) + "px";
  tip.style.top = Math.max(height, y + 18) + 4 + "px";  // below the lanes: it hides none of them
}

function facts(pairs) {
  const list = node("dl");
  for (const [name, value] of pairs) if (value !== null && value !== "") list.append(node("dt", name), node("dd", value));
  return list;
}

function box(name, content, short) {
  const out = node("div"), pre = node("pre", null, short ? "short" : "");
  pre.tabIndex = 0;
  pre.setAttribute("aria-label", name);
  if (content === null || content === undefined) pre.append(node("i", "not in the file any more"));
  else pre.append(content);
  out.append(node("h4", name), pre);
  return out;
}

// The reply of a turn, a span for each step.
let spans = [], replyBox = null;
function reply(turn) {
  spans = turn.steps.map((s) => {
    const out = node("span", null, s[3]), text = s[4] || "", sure = s.length > 5 ? s[9] : 0;
    if (sure) out.append(node("u", text.slice(0, sure)));
    out.append(s.length > 5 && s[5] === "forced" ? node("span", text, "put") : text.slice(sure));
    return out;
  });
  if (turn.steps.length && turn.steps.every((s) => s[4] === null)) return null;
  const all = document.createDocumentFragment();
  all.append(...spans);
  return all;
}

let marked = null;
function showDetail(e) {
  if (!e) {
    shownTurn = null;
    detail.replaceChildren(node("p", "Point at something on the timeline, or choose a turn below.", "empty"));
    return;
  }
  if (e.turn === undefined) return showOther(e);
  const turn = data.turns[e.turn];
  if (shownTurn !== e.turn) {
    const texts = node("div", null, "texts"), answer = turn.steps.length ? box("reply", reply(turn)) : null;
    texts.append(box("new tokens of the prompt", turn.prompt, true));
    if (answer) texts.append(answer);
    replyBox = answer && answer.lastChild;
    detail.replaceChildren(node("h3"), node("dl"), texts);
    shownTurn = e.turn;
    marked = null;
  }
  detail.children[0].textContent = title(e);
  detail.children[1].replaceWith(facts(e.kind === "prefill" ? turnFacts(turn) : stepFacts(turn, e)));
  if (marked) marked.classList.remove("on");
  marked = e.kind === "step" ? spans[e.i] : null;
  if (marked) {
    marked.classList.add("on");
    const at = marked.offsetTop - replyBox.clientHeight / 2;
    if (Math.abs(replyBox.scrollTop - at) > replyBox.clientHeight / 3) replyBox.scrollTop = at;
  }
}

function turnFacts(turn) {
  const decode = turn.steps.reduce((sum, s) => sum + s[1], 0), n = (v) => v.toLocaleString("en");
  return [["begun", clock(turn.old ? 0 : turn.at)], ["prefill", seconds(turn.prefill)], ["reused", n(turn.reused)], ["new", n(turn.new)],
    ["recomputed", n(turn.recomputed)], ["prefill speed", turn.prefill ? `${n(Math.round(turn.new / turn.prefill))} tokens/s` : ""],
    ["generated", n(turn.generated)], ["reply", decode ? seconds(decode) : ""],
    ["reply speed", decode ? `${n(Math.round(turn.generated / decode))} tokens/s` : ""], ["end", turn.finish],
    ["taken back", turn.gone || ""]];
}

function stepFacts(turn, e) {
  const s = e.s, out = [["step", `${e.i + 1} of ${turn.steps.length}`], ["took", seconds(s[1])], ["tokens", String(s[2])], ["phase", s[3]]];
  if (s.length > 5) out.push(["by", s[5]]);
  if (s.length > 5 && s[6]) {
    out.push(["drafted", String(s[6])], ["accepted", String(s[7])], ["rejected", String(s[6] - s[7])],
      ["draft", seconds(s[8])], ["verify", seconds(Math.max(0, s[1] - s[8]))]);
  }
  out.push(["speed", s[1] ? `${Math.round(s[2] / s[1]).toLocaleString("en")} tokens/s` : ""]);
  return out;
}

function showOther(e) {
  shownTurn = null;
  const texts = node("div", null, "texts");
  let list = facts([["took", e.d ? seconds(e.d) : ""], ["at", clock((e.tool || e.mark).at)]]);
  if (e.tool) {
    list = facts([["took", seconds(e.d)], ["outcome", e.tool.outcome], ["call", e.tool.id], ["begun", clock(e.tool.at)]]);
    const given = e.tool.arguments;
    texts.append(box("arguments", given === null ? null : JSON.stringify(given, null, 2), true), box("result", e.tool.result));
  }
  detail.replaceChildren(node("h3", title(e)), list, texts);
}

// -- selecting

function hover(e, x, y) {
  if (e !== hovered) {
    hovered = e;
    draw();
    if (e || held) showDetail(e || held);
  }
  showTip(e, x, y);
}

function hold(e, speak) {
  held = e;
  showDetail(e);
  draw();
  document.querySelectorAll("tr.held").forEach((row) => row.classList.remove("held"));
  if (!e) return;
  if (e.turn !== undefined) document.querySelector(`[data-turn="${e.turn}"]`).closest("tr").classList.add("held");
  if (speak) $("say").textContent = `${title(e)}. ${(textOf(e) || "").slice(0, 200)}`;
}

function look(a, b) {
  const span = Math.min(LENGTH + 2 * PAD, Math.max(b - a, 2e-5)), middle = (a + b) / 2;
  from = Math.max(-PAD, Math.min(middle - span / 2, LENGTH + PAD - span));
  to = from + span;
  draw();
}

function zoom(factor, t = (from + to) / 2) {
  look(t - (t - from) * factor, t + (to - t) * factor);
}

function bring(e) {
  const span = to - from;
  if (e.t < from || e.t + e.d > to) look(e.t + e.d / 2 - span / 2, e.t + e.d / 2 + span / 2);
}

function go(e) {
  if (!e) return;
  bring(e);
  hovered = null;
  hold(e, true);
  const [x, y] = place(e);
  showTip(e, Math.min(Math.max(LEFT, x), width), y + 20);
}

function firstOf(n) { return events.find((e) => e.turn === n); }

function otherTurn(by) {
  const now = held && held.turn !== undefined ? held.turn : held ? (events.slice(0, held.id).reverse().find((e) => e.turn !== undefined) || { turn: -1 }).turn : by > 0 ? -1 : data.turns.length;
  for (let n = now + by; n >= 0 && n < data.turns.length; n += by) if (firstOf(n)) return firstOf(n);
  return null;
}

const keys = {
  ArrowRight: () => go(events[held ? held.id + 1 : 0]),
  ArrowLeft: () => go(events[held ? held.id - 1 : events.length - 1]),
  ArrowDown: () => go(otherTurn(1)),
  ArrowUp: () => go(otherTurn(-1)),
  Home: () => go(events[0]),
  End: () => go(events[events.length - 1]),
  "+": () => zoom(0.5, held ? held.t : undefined),
  "=": () => zoom(0.5, held ? held.t : undefined),
  "-": () => zoom(2),
  0: () => look(-PAD, LENGTH + PAD),
  Escape: () => { hold(null); hover(null); },
};

chart.addEventListener("keydown", (event) => {
  const action = event.ctrlKey || event.metaKey || event.altKey ? null : keys[event.key];
  if (action) { event.preventDefault(); action(); }
});

let drag = null;
lanes.addEventListener("pointerdown", (event) => {
  drag = { x: event.offsetX, from, to, moved: false };
  lanes.setPointerCapture(event.pointerId);
});
lanes.addEventListener("pointermove", (event) => {
  if (!drag) return hover(hit(event.offsetX, event.offsetY), event.offsetX, event.offsetY);
  const by = (event.offsetX - drag.x) / (width - LEFT) * (drag.to - drag.from);
  drag.moved = drag.moved || Math.abs(event.offsetX - drag.x) > 3;
  if (drag.moved) { showTip(null); look(drag.from - by, drag.to - by); }
});
lanes.addEventListener("pointerup", (event) => {
  if (drag && !drag.moved) hold(hit(event.offsetX, event.offsetY), false);
  drag = null;
});
lanes.addEventListener("pointercancel", () => { drag = null; });
lanes.addEventListener("pointerleave", () => { if (!drag) hover(null); });
lanes.addEventListener("wheel", (event) => {
  if (event.ctrlKey || event.metaKey) zoom(Math.exp(event.deltaY * 0.004), T(event.offsetX));
  else if (event.deltaX) look(from + event.deltaX / width * (to - from), to + event.deltaX / width * (to - from));
  else return;
  event.preventDefault();
}, { passive: false });

function jump(event) {
  if (!event.buttons) return;
  const t = -PAD + (event.offsetX - LEFT) / (width - LEFT) * (LENGTH + 2 * PAD), half = (to - from) / 2;
  look(t - half, t + half);
}
whole.addEventListener("pointerdown", jump);
whole.addEventListener("pointermove", jump);

$("in").addEventListener("click", () => zoom(0.5, held ? held.t : undefined));
$("out").addEventListener("click", () => zoom(2));
$("fit").addEventListener("click", () => look(-PAD, LENGTH + PAD));
document.querySelector("tbody").addEventListener("click", (event) => {
  const button = event.target.closest("[data-turn]"), e = button && firstOf(Number(button.dataset.turn));
  if (!e) return;
  const turn = data.turns[e.turn];
  look(turn.t - turn.d * 0.1, turn.t + turn.d * 1.1);
  go(e);
  view.scrollIntoView({ block: "nearest" });
});

view.hidden = false;
readColours();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readColours(); resize(); });
new ResizeObserver(resize).observe(chart);
resize();
showDetail(null);
const linked = events[Number(new URLSearchParams(location.hash.slice(1)).get("event"))];
if (location.hash && linked) go(linked);
else if (events.length) hold(firstOf(0) || events[0], false);
