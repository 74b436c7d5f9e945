
"use strict";
// $ and make are the explorer's. Texts come into the document by `make`, as text nodes.
let lines = []; // sentences of the answer: {source, source_tokens, hypotheses: [...]}
let layout = []; // the text asked for: strings that stay, and numbers of sentences
let asking = null; // aborts the request that is on its way
let attentionRequest = null; // the same of an attention

async function post(path, fields, signal) {
  const key = $("key").value;
  const body = JSON.stringify(key === "" ? fields : { ...fields, api_key: key });
  const headers = { "Content-Type": "application/json" };
  const answer = await fetch(path, { method: "POST", headers, body, signal });
  const found = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(found.error ?? `The server answers ${answer.status}.`);
  return found;
}

function forget() { // the last translation, which is not of the text that stands there now
  asking?.abort();
  attentionRequest?.abort();
  lines = [];
  $("translation").textContent = $("status").textContent = $("error").textContent = "";
  $("copy").disabled = $("details").hidden = true;
}

function fail(error) {
  if (error.name === "AbortError") return;
  forget();
  $("error").textContent = error instanceof TypeError ? "The server can't be reached." :
    error.message;
}

async function translate() {
  const text = $("text").value;
  if (text.trim() === "") {
    forget();
    $("text").focus();
    return;
  }
  asking?.abort();
  asking = new AbortController();
  const { signal } = asking, start = performance.now();
  $("error").textContent = "";
  $("status").textContent = "Translating …";
  try {
    const nbest = Number($("nbest").value);
    const found = await post("hypotheses", { q: text, nbest }, signal);
    ({ lines, layout } = found);
    $("status").textContent = `${((performance.now() - start) / 1000).toFixed(2)} s`;
    showLines();
  } catch (error) {
    fail(error);
  }
}

function wholeTranslation() {
  const chosen = lines.map((line) => line.hypotheses[line.chosen ?? 0].text);
  return layout.map((piece) => typeof piece === "number" ? chosen[piece] : piece).join("");
}

function showLines() {
  $("translation").textContent = lines.length ? wholeTranslation() : $("text").value;
  $("copy").disabled = false;
  $("details").hidden = lines.length === 0;
  $("line-label").hidden = lines.length < 2;
  $("line").replaceChildren(...lines.map((line, number) =>
    make("option", { value: number }, `${number + 1}: ${shortened(line.source)}`)));
  if (lines.length) showLine();
}

const shortened = (text) => text.length > 40 ? `${text.slice(0, 40)}…` : text;
const currentLine = () => lines[Number($("line").value)];

function showLine() {
  const line = currentLine();
  const rows = line.hypotheses.map((hypothesis, number) => {
    const radio = make("input", { type: "radio", name: "hypothesis", value: number });
    radio.checked = number === (line.chosen ?? 0);
    radio.addEventListener("change", () => {
      line.chosen = number;
      $("translation").textContent = wholeTranslation();
      showHypothesis();
    });
    const button = make("button", { type: "button" }, "Copy");
    button.addEventListener("click", () => copy(hypothesis.text, button));
    const label = make("label", {}, radio, make("span", { dir: "auto" }, hypothesis.text || "(empty)"));
    return make("tr", {}, make("td", {}, label), make("td", {}, hypothesis.score.toFixed(2)),
      make("td", {}, button));
  });
  $("hypotheses").tBodies[0].replaceChildren(...rows);
  showHypothesis();
}

function showHypothesis() {
  const line = currentLine(), hypothesis = line.hypotheses[line.chosen ?? 0];
  const sides = { source: line.source_tokens, target: hypothesis.tokens };
  for (const [side, tokens] of Object.entries(sides)) {
    $(`${side}-tokens`).replaceChildren(...tokens.map((token, index) => {
      const button = make("button", { type: "button" }, token);
      for (const kind of ["pointerenter", "focus", "click"]) {
        button.addEventListener(kind, () => align(side, index));
      }
      return button;
    }));
  }
  $("aligned").textContent = "";
  showAttention(line, hypothesis);
}

function align(side, index) { // mark what a token is aligned to, and say it
  const line = currentLine(), hypothesis = line.hypotheses[line.chosen ?? 0];
  const isSource = side === "source", other = isSource ? "target" : "source";
  const partners = new Set(hypothesis.alignment.filter((pair) => pair[isSource ? 0 : 1] === index)
    .map((pair) => pair[isSource ? 1 : 0]));
  [...$(`${side}-tokens`).children].forEach((button, number) => {
    button.classList.toggle("chosen", number === index);
    button.classList.remove("aligned");
  });
  const names = [];
  [...$(`${other}-tokens`).children].forEach((button, number) => {
    button.classList.toggle("aligned", partners.has(number));
    button.classList.remove("chosen");
    if (partners.has(number)) names.push(button.textContent);
  });
  const token = isSource ? line.source_tokens[index] : hypothesis.tokens[index];
  // Of a sentence that was cut, each part's end has a score, too.
  const isWhole = hypothesis.token_scores.length === hypothesis.tokens.length + 1;
  const share = isSource || !isWhole ? "" : ` Its probability: ${
    (100 * Math.exp(hypothesis.token_scores[index])).toFixed(1)} %.`;
  $("aligned").replaceChildren(make("bdi", {}, make("strong", {}, token)),
    names.length ? ` is aligned to ${names.join(", ")}.` : " is aligned to nothing.", share);
}

async function showAttention(line, hypothesis) {
  attentionRequest?.abort();
  attentionRequest = new AbortController();
  $("no-attention").textContent = "Loading …";
  $("attention").hidden = true;
  try {
    const fields = { q: line.source, translation: hypothesis.text };
    const { attention } = await post("attention", fields, attentionRequest.signal);
    const kind = "cross" in attention ? "cross" : Object.keys(attention)[0];
    const [layers, heads] = attention[kind].shape;
    const all = Array.from({ length: heads }, (_, head) => head + 1);
    $("no-attention").textContent = "";
    $("attention").hidden = false;
    explore({ start: { kind, layer: layers, heads: all, word: null }, attention });
  } catch (error) {
    if (error.name !== "AbortError") $("no-attention").textContent = error.message;
  }
}

async function copy(text, button) {
  try {
    await navigator.clipboard.writeText(text);
  } catch { // no secure context, or no permission: the old way
    const area = make("textarea", { value: text });
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
    button.focus();
  }
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = "Copy"; }, 1500);
}

function countCharacters(limit) {
  const count = [...$("text").value].length;
  $("count").textContent = count ? `${count} of ${limit} characters` : "";
  $("translate").disabled = count > limit;
}

async function start() {
  for (let count = 1; count <= 8; count++) {
    $("nbest").append(make("option", { value: count, selected: count === 4 }, String(count)));
  }
  $("ask").addEventListener("submit", (event) => {
    event.preventDefault();
    translate();
  });
  $("text").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      if (!$("translate").disabled) translate();
    }
  });
  $("line").addEventListener("change", showLine);
  $("copy").addEventListener("click", () => copy($("translation").textContent, $("copy")));
  $("clear").addEventListener("click", () => {
    forget();
    $("text").value = $("count").textContent = "";
    $("translate").disabled = false;
    $("text").focus();
  });
  try {
    const settings = await (await fetch("frontend/settings")).json();
    const { source, target } = settings.language;
    document.title = $("title").textContent = `${source.name} to ${target.name}`;
    $("source-name").textContent = source.name;
    $("target-name").textContent = target.name;
    $("text").lang = source.code;
    $("translation").lang = target.code;
    $("key-label").hidden = !settings.keyRequired;
    $("text").addEventListener("input", () => countCharacters(settings.charLimit));
    countCharacters(settings.charLimit);
  } catch (error) {
    fail(error);
  }
}

start();
