// Results: a select box that leaves the rows of one machine. Tables without a column "machine" stay.
document.addEventListener("DOMContentLoaded", () => {
  const rows = [];
  for (const table of document.querySelectorAll("article table")) {
    const heads = [...table.querySelectorAll("th")].map((th) => th.textContent.trim());
    const column = heads.indexOf("machine");
    if (column < 0) continue;
    for (const row of table.querySelectorAll("tbody tr")) {
      rows.push([row, row.cells[column].textContent.trim()]);
    }
  }
  if (!rows.length) return;
  const select = document.createElement("select");
  select.id = "machine";
  for (const name of ["all", ...new Set(rows.map(([, machine]) => machine))]) {
    select.add(new Option(name));
  }
  select.addEventListener("change", () => {
    for (const [row, machine] of rows) {
      row.hidden = select.value !== "all" && machine !== select.value;
    }
  });
  const label = document.createElement("label");
  label.className = "machine-filter";
  label.append("Machine: ", select);
  document.querySelector("article h2").before(label);
});
