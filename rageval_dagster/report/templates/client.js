// The questions of the report: list, filters, one question in full. Texts go into the page as text, never as markup.
"use strict";
(async () => {
  const pages = new Map();
  const byId = id => document.getElementById(id);
  const make = (tag, text, attributes = {}) => {
    const node = document.createElement(tag);
    if (text !== undefined && text !== null) node.textContent = String(text);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    return node;
  };
  const spaced = name => (name || "").replaceAll("_", " ");
  const shown = value => value === null || value === undefined ? "–" : value.toFixed(3);
  const FIRST = innerWidth < 600 ? 10 : 20, PAGE = 200;
  const LEAST_SHARED = .3;

  async function unpack(run) {
    if (pages.has(run)) return pages.get(run);
    const packed = Uint8Array.from(atob(byId(`data-${run}`).textContent.trim()), c => c.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    const data = JSON.parse(await new Response(stream).text());
    data.at = new Map(data.rows.map((row, place) => [row.id, place]));
    pages.set(run, data);
    return data;
  }

  // Everything that is chosen stands in the address, so that it can be sent to somebody.
  const state = () => Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  function address(changes) {
    // With the run: which one is shown without, may be another in tomorrow's report.
    const next = new URLSearchParams({ run: current, ...state(), ...changes });
    for (const [name, value] of [...next]) if (value === "" || value === "null") next.delete(name);
    return `#${next}`;
  }
  const go = changes => { location.hash = address(changes); };

  const KINDS = {
    new: row => row.n, worse: row => row.d > 0, better: row => row.d < 0, changed: row => row.d,
    leaked: row => row.lk, failed: row => row.f, declined: row => row.x, unanswerable: row => row.u,
  };

  function chosen(data, at) {
    const find = (at.find || "").toLowerCase();
    const number = at.metric ? data.metrics.indexOf(at.metric) : -1;
    let rows = data.rows.filter(row =>
      (!at.show || row.t === at.show) && (!at.only || (KINDS[at.only] || (() => true))(row)) &&
      (!at.category || row.c === at.category) && (!at.language || row.l === at.language) &&
      (!at.document || (row.ev || []).includes(at.document)) &&
      (number < 0 || !at.score || scoreIs(row, number, at.score)) &&
      (!find || [row.id, row.q, row.a, ...(row.e || []), ...(row.ev || [])].some(text => text && text.toLowerCase().includes(find))));
    const low = value => value === null || value === undefined ? -1 : value;
    const rank = row => row.k === undefined ? 1e9 : row.k ?? 1e6;
    if (at.sort === "rank") rows = [...rows].sort((a, b) => rank(b) - rank(a));
    if (!at.sort) rows = [...rows].sort((a, b) => (b.n || 0) - (a.n || 0) || (b.d || 0) - (a.d || 0));
    if (at.sort === "metric" && number >= 0) {
      const sign = data.higher[number] ? 1 : -1;
      rows = [...rows].sort((a, b) => sign * (low(a.s[number]) - low(b.s[number])));
    }
    return at.order === "reverse" ? [...rows].reverse() : rows;
  }

  function scoreIs(row, number, kind) {
    const value = row.s[number], status = row.w[number];
    if (kind === "none") return value === null && status !== undefined;
    return value !== null && value !== undefined && (kind === "low" ? value < 0.5 : value >= 0.5);
  }

  function tags(data, row) {
    const found = [];
    if (row.lk) found.push(["other client's words", "worse"]);
    if (row.n) found.push(["newly failing", "worse"]);
    if (row.f) found.push(["system failed", "worse"]);
    if (row.x) found.push(["declined", ""]);
    if (row.u) found.push(["unanswerable", ""]);
    if (row.t && row.t !== "found_right") found.push([data.quadrants[row.t], row.t.endsWith("wrong") ? "below" : ""]);
    return found.map(([text, tone]) => make("span", text, { class: `tag ${tone}` }));
  }

  const rankText = row => row.k === undefined ? "" : row.k === null ? (row.f ? "–" : "not found") : String(row.k);
  const movedText = row => row.kb === undefined || row.kb === row.k ? rankText(row)
    : `${row.kb === null ? "not found" : row.kb} → ${rankText(row)}`;

  let showing = FIRST;
  function list(data, at, rows) {
    const number = at.metric ? data.metrics.indexOf(at.metric) : -1;
    byId("count").textContent = `${rows.length.toLocaleString("en")} of ${data.rows.length.toLocaleString("en")} questions`;
    byId("chosen-metric").textContent = number >= 0 ? data.names[number] : "";
    const body = document.createDocumentFragment();
    const end = Math.max(showing, at.question ? rows.findIndex(row => row.id === at.question) + 1 : 0);
    for (const row of rows.slice(0, end)) {
      const line = make("tr");
      line.setAttribute("aria-selected", String(row.id === at.question));
      const first = make("td", undefined, { class: "text" }), marks = tags(data, row);
      first.append(make("a", row.q === undefined ? row.id : row.q, { href: address({ question: row.id }), dir: "auto" }));
      if (marks.length) first.append(make("br"), ...marks);
      line.append(first, make("td", spaced(row.c), { class: "extra", dir: "auto" }), make("td", movedText(row), { class: "n", "data-label": "rank" }),
        make("td", number >= 0 ? shown(row.s[number]) : "", { class: "n extra" }),
        make("td", row.d ? (row.d > 0 ? "−" : "+") + Math.abs(row.d).toFixed(2) : "", { class: `n extra ${row.d > 0 ? "worse" : row.d < 0 ? "better" : ""}` }));
      body.append(line);
    }
    byId("rows").replaceChildren(body);
    byId("more").hidden = rows.length <= end;
  }

  // Words that both answers have, in order, stay; others are marked. Undefined where few are the same, or where to
  // compare them would take long.
  function difference(before, now) {
    const a = before.split(/(\s+)/), b = now.split(/(\s+)/);
    const found = document.createElement("p");
    found.setAttribute("dir", "auto");
    if (a.length * b.length > 4e6) return undefined;
    const width = b.length + 1, same = new Uint16Array((a.length + 1) * width);
    for (let i = a.length - 1; i >= 0; i--) for (let j = b.length - 1; j >= 0; j--)
      same[i * width + j] = a[i] === b[j] ? same[(i + 1) * width + j + 1] + 1 : Math.max(same[(i + 1) * width + j], same[i * width + j + 1]);
    let i = 0, j = 0, kept = 0;
    const put = (tag, word) => {
      const last = found.lastChild;
      if (last && (tag ? last.nodeName === tag.toUpperCase() : last.nodeType === 3)) last.textContent += word;
      else found.append(tag ? make(tag, word) : document.createTextNode(word));
    };
    while (i < a.length || j < b.length) {
      if (i < a.length && j < b.length && a[i] === b[j]) { kept += a[i].trim() ? 2 : 0; put("", a[i]); i++; j++; }
      else if (j >= b.length || (i < a.length && same[(i + 1) * width + j] >= same[i * width + j + 1])) put("del", a[i++]);
      else put("ins", b[j++]);
    }
    return kept < LEAST_SHARED * Math.max(a.length, b.length) ? undefined : found;
  }

  function part(parent, title, ...content) {
    parent.append(make("h3", title));
    for (const each of content) parent.append(typeof each === "string" ? make("p", each, { dir: "auto" }) : each);
  }

  function detail(data, run, row, rows) {
    const box = byId("question");
    const place = rows.findIndex(each => each.id === row.id);
    const parts = document.createDocumentFragment();
    const steps = make("p", undefined, { class: "soft" });
    const step = (text, to) => to === undefined ? make("span", text)
      : make("a", text, { href: address({ question: to.id }) });
    steps.append(step("← previous", rows[place - 1]), `  ${place < 0 ? "" : `${place + 1} of ${rows.length}`}  `, step("next →", rows[place + 1]),
      "   ", make("a", "close", { href: address({ question: "" }) }));
    parts.append(steps);
    parts.append(make("h2", row.q === undefined ? `Question ${row.id}` : row.q, { dir: "auto" }));
    const about = make("p");
    about.append(...tags(data, row));
    parts.append(about);
    parts.append(make("p", [spaced(row.c), row.l, row.v ? "checked by a person" : "", row.id].filter(Boolean).join(" · "), { class: "soft" }));
    if (row.q !== undefined) {
      part(parts, "Expected", row.e.length ? row.e.join("\n") : row.u ? "(no answer: unanswerable)" : "(no answer known)");
      if (row.er) part(parts, "The system failed", row.er);
      else if (row.a === undefined) part(parts, "Answered", row.gone ? "(deleted: not used for longer than texts are kept)" : "(no answer)");
      else if (typeof row.ab === "string") {
        const marked = difference(row.ab, row.a);
        if (marked) part(parts, "Answered, marked against the baseline's answer", marked);
        else { part(parts, "Answered", row.a); part(parts, "Answered in the baseline", row.ab); }
      }
      else part(parts, row.ab === null ? "Answered, as in the baseline" : "Answered", row.a);
    }
    if (row.k !== undefined && data.level) part(parts, "Rank of the evidence", movedText(row) || "none is known");
    if (row.m && row.m.length > 1) {
      const moves = make("ul", undefined, { class: "plain" });
      for (const [chunk, was, now] of row.m) moves.append(make("li", `${chunk}: ${was ?? "not found"} to ${now ?? "not found"}`));
      parts.append(moves);
    }
    if (row.h) {
      parts.append(make("h3", "Passages"));
      const rest = make("details");
      for (const [text, doc, chunk, page, rank, relevant, cited, seen] of row.h) {
        const passage = make("div", undefined, { class: relevant ? "passage relevant" : "passage" });
        const head = make("p", `${rank}. ${doc}${page === null ? "" : `, page ${page}`} `, { dir: "auto", title: `chunk ${chunk}` });
        if (relevant) head.append(make("span", "holds the evidence", { class: "tag better" }));
        if (cited) head.append(make("span", "cited", { class: "tag" }));
        if (!seen) head.append(make("span", "not given to the answer", { class: "tag" }));
        passage.append(head, make("p", text === null ? "(its text is not kept)" : data.texts[text], { dir: "auto" }));
        (seen || relevant ? parts : rest).append(passage);
      }
      if (rest.childElementCount) {
        rest.prepend(make("summary", `${rest.childElementCount} more that were not given to the answer`));
        parts.append(rest);
      }
    } else if (row.q !== undefined) {
      const judged = data.metrics.some(metric => /^(judge|claims)\./.test(metric));
      part(parts, judged && !row.j ? "Passages and reasons" : "Passages", make("pre", `rageval runs show ${run} --question ${row.id}`));
    }
    const table = make("table"), body = make("tbody");
    const head = make("tr");
    head.append(make("th", "metric", { scope: "col" }), make("th", "score", { class: "n", scope: "col" }), make("th", "why", { scope: "col" }));
    const thead = make("thead");
    thead.append(head);
    data.metrics.forEach((metric, number) => {
      const value = row.s[number], why = row.w[number];
      if ((value === null || value === undefined) && why === undefined) return;
      const line = make("tr"), reasons = make("td", undefined, { dir: "auto" });
      if (why !== undefined) reasons.append(make("small", typeof why === "number" ? data.texts[why] : why));
      for (const said of (row.j || {})[number] || []) reasons.append(make("div", said, { dir: "auto" }));
      line.append(make("td", data.names[number]), make("td", shown(value), { class: "n" }), reasons);
      body.append(line);
    });
    table.append(thead, body);
    const scroll = make("div", undefined, { class: "scroll", tabindex: "0", role: "region", "aria-label": "Scores of this question" });
    scroll.append(table);
    part(parts, "Scores", scroll);
    box.replaceChildren(parts);
    box.hidden = false;
    if (document.activeElement === document.body || byId("rows").contains(document.activeElement)) box.focus({ preventScroll: true });
  }

  function options(data) {
    const fill = (id, values, names) => {
      const select = byId(id);
      while (select.options.length > 1) select.remove(1);
      values.forEach((value, place) => select.append(make("option", names ? names[place] : value, { value })));
      select.closest("label").hidden = values.length < (names ? 1 : 2);
    };
    const distinct = name => [...new Set(data.rows.map(row => row[name]).filter(Boolean))].sort();
    fill("f-category", distinct("c"), distinct("c").map(spaced));
    fill("f-language", distinct("l"));
    fill("f-show", Object.keys(data.quadrants), Object.values(data.quadrants));
    fill("f-metric", data.metrics, data.names);
  }

  let current, rows = [], lastFilters = "";
  async function update() {
    const at = state();
    const runs = [...document.querySelectorAll("article[data-run]")];
    const chosenRun = at.run === undefined ? runs[0] : runs.find(node => node.dataset.run === at.run)
      ?? runs.find(node => node.dataset.earlier.split(" ").includes(at.run));
    const run = chosenRun?.dataset.run;
    for (const node of runs) node.hidden = node !== chosenRun;
    for (const link of document.querySelectorAll(".runs a")) link.setAttribute("aria-current", String(link.dataset.run === run));
    byId("questions").hidden = run === undefined;
    byId("gone").hidden = at.run === undefined || at.run === run;
    byId("gone").textContent = byId("gone").hidden ? "" : run === undefined
      ? `Run ${at.run} is not in this report; rageval runs list shows the existing ones. `
      : `Run ${at.run} is not in this report; this is run ${run}, the newest complete one of the same dataset and system. To see run ${at.run}: rageval runs show ${at.run}`;
    if (run === undefined) {
      rows = [];
      byId("gone").append(make("a", `Go to run ${runs[0].dataset.run}`, { href: `#run=${runs[0].dataset.run}` }));
      document.documentElement.dataset.ready = "true";
      return;
    }
    const data = await unpack(run);
    if (current !== run) { current = run; options(data); }
    for (const control of document.querySelectorAll("[data-filter]")) control.value = at[control.dataset.filter] || "";
    if (["show", "category", "language", "metric", "score", "sort", "order"].some(name => at[name])) byId("filters").open = true;
    const { question, ...filters } = at;
    if (JSON.stringify(filters) !== lastFilters) { showing = FIRST; lastFilters = JSON.stringify(filters); }
    rows = chosen(data, at);
    const { run: _run, sort: _sort, order: _order, metric: _metric, ...limits } = filters;
    byId("clear").hidden = Object.keys(limits).length === 0;
    byId("clear").textContent = `clear filters${limits.document ? ` (document ${limits.document})` : ""}`;
    byId("clear").setAttribute("href", `#run=${run}`);
    const row = at.question === undefined ? undefined : data.rows[data.at.get(at.question)];
    byId("browser").classList.toggle("open", row !== undefined);
    if (at.question !== undefined && row === undefined) {
      byId("gone").textContent = `${byId("gone").textContent} Question ${at.question} is not among those of run ${run}.`;
      byId("gone").hidden = false;
    }
    list(data, at, rows);
    if (row !== undefined) {
      const fresh = byId("question").hidden;
      detail(data, run, row, rows);
      if (fresh) byId("browser").scrollIntoView({ block: "start" });
    } else {
      byId("question").hidden = true;
      byId("question").replaceChildren();
    }
    if (row === undefined && document.activeElement.matches(".triage a, .to-list")) byId("questions").scrollIntoView();
    document.documentElement.dataset.ready = "true";
  }

  function csv(data) {
    const quoted = value => {
      let text = value === null || value === undefined ? "" : Array.isArray(value) ? value.join(" | ") : String(value);
      if (/^[=+\-@\t\r]/.test(text) && typeof value !== "number") text = `'${text}`;  // no formula in a spreadsheet
      return `"${text.replaceAll('"', '""')}"`;
    };
    const head = ["item_id", "question", "category", "expected", "answer", "rank", "baseline_rank", "quadrant", "newly_failing", ...data.metrics];
    const lines = rows.map(row => [row.id, row.q, row.c, row.e, row.a, row.k, row.kb, row.t, row.n ? 1 : 0, ...data.metrics.map((_, n) => row.s[n])]);
    return [head, ...lines].map(line => line.map(quoted).join(",")).join("\r\n") + "\r\n";
  }

  for (const control of document.querySelectorAll("[data-filter]"))
    control.addEventListener(control.type === "search" ? "input" : "change", () => go({ [control.dataset.filter]: control.value, question: "" }));
  byId("more").addEventListener("click", () => { showing += PAGE; update(); });
  byId("csv").addEventListener("click", async () => {
    const data = await unpack(current);
    const link = make("a", "", { download: `run-${current}.csv`, href: URL.createObjectURL(new Blob(["\ufeff", csv(data)], { type: "text/csv" })) });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  });
  document.querySelector(".skip").addEventListener("click", event => {
    event.preventDefault();  // the address says what is chosen, and stays
    byId("questions").scrollIntoView();
    byId("questions").focus({ preventScroll: true });
  });
  addEventListener("hashchange", update);
  addEventListener("beforeprint", () => { for (const fold of document.querySelectorAll("details.fold")) fold.open = true; });
  addEventListener("keydown", event => {
    if (event.target.matches("input, select, textarea") || event.ctrlKey || event.metaKey || event.altKey) return;
    const at = state(), place = rows.findIndex(row => row.id === at.question);
    const to = { j: place + 1, n: place + 1, k: place - 1, p: place - 1 }[event.key];
    if (to !== undefined && rows[to]) { go({ question: rows[to].id }); event.preventDefault(); }
    else if (event.key === "Escape" && at.question) go({ question: "" });
    else if (event.key === "/") { byId("f-find").focus(); event.preventDefault(); }
  });
  await update();
})();
