// Search and filter of the clients; what is chosen stands in the address. Of very many the first ones are shown.
"use strict";
(() => {
  const MOST = 50;
  const byId = id => document.getElementById(id);
  const find = byId("find"), verdict = byId("verdict"), more = byId("more");
  const rows = [...document.querySelectorAll("tbody tr[data-name]")];
  let most = MOST;
  const update = () => {
    const at = new URLSearchParams(location.hash.slice(1));
    find.value = at.get("find") || "";
    verdict.value = at.get("verdict") || "";
    const fit = rows.filter(row => row.dataset.name.includes(find.value.toLowerCase()) &&
      (verdict.value === "" || row.dataset.verdict.split(", ").includes(verdict.value)));
    const shown = new Set(fit.slice(0, most));
    for (const row of rows) row.hidden = !shown.has(row);
    more.hidden = shown.size === fit.length;
    more.textContent = `Show ${(fit.length - shown.size).toLocaleString("en")} more`;
    byId("count").textContent = fit.length === rows.length ? "" : `${fit.length.toLocaleString("en")} of ${rows.length.toLocaleString("en")} clients`;
  };
  const choose = () => {
    const at = new URLSearchParams();
    if (find.value) at.set("find", find.value);
    if (verdict.value) at.set("verdict", verdict.value);
    history.replaceState(null, "", `#${at}`);
    update();
  };
  if (rows.length > 1) {
    find.addEventListener("input", choose);
    verdict.addEventListener("change", choose);
    more.addEventListener("click", () => { most = Infinity; update(); });
    addEventListener("hashchange", update);
    update();
  }
  document.documentElement.dataset.ready = "true";
})();
