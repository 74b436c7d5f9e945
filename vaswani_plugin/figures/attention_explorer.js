"use strict";
const FAINTEST = 0.02; // weights below it are not drawn: their lines would be invisible
const MOST_LINES = 20000;
const $ = (id) => document.getElementById(id);
let data = null; // {start: {kind, layer, heads, word}, attention: {kind: {title, queries, keys, ...}}}
let view = null; // the part of it that is shown

function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children); // text, never markup
  return element;
}

function current() { // the chosen attention, its weights unpacked at first use
  const attention = data.attention[view.kind];
  if (!attention.levels) {
    const bytes = Uint8Array.from(atob(attention.weights), (sign) => sign.charCodeAt(0));
    attention.levels = new Uint16Array(bytes.buffer);
  }
  return attention;
}

function weight(attention, head, query, key) { // layer and head count from 1
  const [, heads, queries, keys] = attention.shape;
  const row = ((view.layer - 1) * heads + head - 1) * queries + query;
  return attention.levels[row * keys + key] / 65535;
}

const hue = (head) => Math.round(360 * (head - 1) / current().shape[1]);
const focus = () => view.hovered ?? view.pinned; // {side: "queries" | "keys", index}

function buildKinds() {
  $("kinds").replaceChildren($("kinds").firstElementChild);
  for (const [kind, attention] of Object.entries(data.attention)) {
    const radio = make("input", { type: "radio", name: "kind", value: kind });
    radio.checked = kind === view.kind;
    radio.addEventListener("change", () => {
      Object.assign(view, { kind, hovered: null, pinned: null });
      build();
    });
    $("kinds").append(make("label", {}, radio, " " + attention.title));
  }
}

function chooseLayer(layer) {
  view.layer = Math.max(1, Math.min(layer, current().shape[0]));
  update();
}

function build() { // all that depends on the chosen attention
  const attention = current();
  const [layers, heads] = attention.shape;
  $("layer").replaceChildren(...Array.from({ length: layers }, (_, i) =>
    make("option", { value: i + 1 }, String(i + 1))));
  $("heads").replaceChildren($("heads").firstElementChild);
  for (let head = 1; head <= heads; head++) {
    const box = make("input", { type: "checkbox", value: head });
    box.addEventListener("change", () => toggleHead(head));
    const swatch = make("span", { className: "swatch" });
    swatch.style.setProperty("--hue", hue(head));
    $("heads").append(make("label", {}, box, swatch, " " + head));
  }
  for (const side of ["queries", "keys"]) {
    $(side).replaceChildren(...attention[side].map((token, index) => {
      const item = make("li", { title: token, dir: "auto" }, token);
      item.addEventListener("pointerenter", (event) => {
        if (event.pointerType !== "touch") point({ side, index });
      });
      item.addEventListener("pointerleave", () => point(null));
      item.addEventListener("click", () => pin({ side, index }));
      return item;
    }));
  }
  const rows = Math.max(attention.queries.length, attention.keys.length);
  $("lines").setAttribute("viewBox", `0 0 1 ${rows}`);
  $("lines").style.height = `calc(${rows} * var(--row))`;
  search();
  chooseLayer(view.layer);
}

function update() { // the controls, which keep the keyboard's focus, and the picture
  $("layer").value = view.layer;
  for (const box of $("heads").querySelectorAll("input")) {
    box.checked = view.heads.has(Number(box.value));
  }
  draw();
}

function toggleHead(head) {
  if (head > current().shape[1]) return;
  if (!view.heads.delete(head)) view.heads.add(head);
  update();
}

function allHeads() { // or none, if all are chosen
  const count = current().shape[1];
  const heads = view.heads.size === count ? [] : Array.from({ length: count }, (_, i) => i + 1);
  view.heads = new Set(heads);
  update();
}

const same = (a, b) => a && b && a.side === b.side && a.index === b.index;

function point(token) { view.hovered = token; draw(); }

function pin(token) {
  view.pinned = same(view.pinned, token) ? null : token;
  view.hovered = null;
  draw();
}

function shown() { // [weight, head, query, key] of each line, faint ones left out
  const attention = current(), [, heads, queries, keys] = attention.shape, at = focus(), lines = [];
  for (let head = 1; head <= heads; head++) {
    if (!view.heads.has(head)) continue;
    for (let query = 0; query < queries; query++) {
      if (at?.side === "queries" && at.index !== query) continue;
      for (let key = 0; key < keys; key++) {
        if (at?.side === "keys" && at.index !== key) continue;
        const value = weight(attention, head, query, key);
        if (value >= FAINTEST) lines.push([value, head, query, key]);
      }
    }
  }
  if (lines.length > MOST_LINES) lines.sort((a, b) => b[0] - a[0]).length = MOST_LINES;
  return lines;
}

function draw() {
  const svg = "http://www.w3.org/2000/svg", batch = document.createDocumentFragment();
  const heads = [...view.heads].sort((a, b) => a - b), step = Math.min(0.11, 0.8 / heads.length);
  for (const [value, head, query, key] of shown()) {
    const line = document.createElementNS(svg, "line");
    // Heads lie side by side, so that each colour shows where they agree.
    const y = 0.5 + step * (heads.indexOf(head) - (heads.length - 1) / 2);
    const ends = { x1: 0, y1: query + y, x2: 1, y2: key + y, "stroke-opacity": value.toFixed(3) };
    for (const [name, number] of Object.entries(ends)) line.setAttribute(name, number);
    line.style.setProperty("--hue", hue(head));
    batch.append(line);
  }
  $("lines").replaceChildren(batch);
  drawTokens();
}

function meanWeights(at) { // over the chosen heads, between a token and each opposite one
  const attention = current(), isQuery = at.side === "queries", heads = [...view.heads];
  return attention[isQuery ? "keys" : "queries"].map((_, other) => {
    const [query, key] = isQuery ? [at.index, other] : [other, at.index];
    const sum = heads.reduce((all, head) => all + weight(attention, head, query, key), 0);
    return heads.length ? sum / heads.length : 0;
  });
}

function drawTokens() {
  const at = focus(), means = at ? meanWeights(at) : [];
  for (const side of ["queries", "keys"]) {
    [...$(side).children].forEach((item, index) => {
      const token = { side, index };
      item.classList.toggle("active", Boolean(same(token, at)));
      item.classList.toggle("pinned", Boolean(same(token, view.pinned)));
      item.style.setProperty("--weight", at && side !== at.side ? means[index].toFixed(4) : 0);
    });
  }
  describe(at, means);
}

function describe(at, means) {
  if (!at) return $("readout").replaceChildren();
  const attention = current(), isQuery = at.side === "queries";
  const opposite = attention[isQuery ? "keys" : "queries"];
  const best = means.map((mean, index) => [mean, index]).sort((a, b) => b[0] - a[0]).slice(0, 5);
  const list = best.filter(([mean]) => mean > 0.0005)
    .map(([mean, index]) => `${opposite[index]} ${(100 * mean).toFixed(1)} %`).join(" · ");
  const what = isQuery ? "attends to" : "is attended to by";
  $("readout").replaceChildren(make("bdi", {}, make("strong", {}, attention[at.side][at.index])),
    ` (layer ${view.layer}, mean of ${view.heads.size} heads) ${what}: ${list || "nothing"}`);
}

let matches = [];
const plain = (text) => text.normalize().toLowerCase(); // an accent is typed in two ways

function search() {
  const wanted = plain($("search").value.trim());
  matches = [];
  for (const side of ["queries", "keys"]) {
    current()[side].forEach((token, index) => {
      const hit = wanted !== "" && plain(token).includes(wanted);
      $(side).children[index].classList.toggle("match", hit);
      if (hit) matches.push({ side, index });
    });
  }
  const isWhole = ({ side, index }) => plain(current()[side][index]) === wanted;
  matches.sort((a, b) => isWhole(b) - isWhole(a)); // the word before those that it is a part of
  $("found").textContent = wanted === "" ? "" :
    matches.length === 1 ? "1 match" : `${matches.length || "no"} matches`;
}

function nextMatch() {
  const place = matches.findIndex((match) => same(match, view.pinned));
  view.pinned = matches.length ? matches[(place + 1) % matches.length] : null;
  show();
}

function show() { // the pinned token, in sight
  view.hovered = null;
  draw();
  const at = view.pinned;
  if (at) $(at.side).children[at.index].scrollIntoView({ block: "nearest" });
}

function move(side, step) {
  const at = view.pinned ?? { side: "queries", index: -step };
  const to = side ?? at.side, last = current()[to].length - 1;
  view.pinned = { side: to, index: Math.max(0, Math.min(last, at.index + step)) };
  show();
}

const inPicture = { ArrowUp: () => move(null, -1), ArrowDown: () => move(null, 1),
  ArrowLeft: () => move("queries", 0), ArrowRight: () => move("keys", 0) };
const anywhere = {
  Escape: () => { view.pinned = null; show(); },
  "[": () => chooseLayer(view.layer - 1),
  "]": () => chooseLayer(view.layer + 1),
  "/": () => $("search").focus(),
  0: allHeads,
};

const isWriting = (element) => element.matches("textarea, input:not([type=checkbox], [type=radio])");

document.addEventListener("keydown", (event) => {
  if (!data || $("controls").offsetParent === null) return; // nothing is shown
  if (event.ctrlKey || event.metaKey || event.altKey || isWriting(event.target)) return;
  const act = document.activeElement === $("picture") ? inPicture[event.key] : undefined;
  const digit = /^[1-9]$/.test(event.key) ? () => toggleHead(Number(event.key)) : undefined;
  const chosen = act ?? anywhere[event.key] ?? digit;
  if (!chosen) return;
  event.preventDefault();
  chosen();
});

$("layer").addEventListener("change", () => chooseLayer(Number($("layer").value)));
$("all").addEventListener("click", allHeads);
$("search").addEventListener("input", () => { search(); nextMatch(); });
$("search").addEventListener("keydown", (event) => {
  if (event.key === "Enter") nextMatch();
  if (event.key === "Escape") $("picture").focus();
});
$("controls").addEventListener("submit", (event) => event.preventDefault());

function explore(found) { // show a sentence's attention, in place of any other
  data = found;
  const { kind, layer, heads, word } = data.start;
  view = { kind, layer, heads: new Set(heads), hovered: null, pinned: null };
  $("search").value = word ?? "";
  buildKinds();
  build();
  if (word !== null) nextMatch();
}
