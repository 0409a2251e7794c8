// Search and filter of the clients; what is chosen stands in the address.
"use strict";
(() => {
  const find = document.getElementById("find"), verdict = document.getElementById("verdict");
  const rows = [...document.querySelectorAll("tbody tr[data-name]")];
  const update = () => {
    const at = new URLSearchParams(location.hash.slice(1));
    find.value = at.get("find") || "";
    verdict.value = at.get("verdict") || "";
    for (const row of rows)
      row.hidden = !row.dataset.name.includes(find.value.toLowerCase()) || (verdict.value !== "" && !row.dataset.verdict.split(", ").includes(verdict.value));
    document.getElementById("count").textContent = `${rows.filter(row => !row.hidden).length} of ${rows.length} clients`;
  };
  const choose = () => {
    const at = new URLSearchParams();
    if (find.value) at.set("find", find.value);
    if (verdict.value) at.set("verdict", verdict.value);
    history.replaceState(null, "", `#${at}`);
    update();
  };
  find.addEventListener("input", choose);
  verdict.addEventListener("change", choose);
  addEventListener("hashchange", update);
  update();
  document.documentElement.dataset.ready = "true";
})();
