// Put a filter above the tables with verdicts. Without this script they are shown whole.
document.addEventListener("DOMContentLoaded", () => {
  const tables = [...document.querySelectorAll("table.filtered")];
  if (!tables.length) return;
  const rows = tables.flatMap((table) => [...table.tBodies[0].rows]).map((row) => ({
    row,
    text: row.textContent.toLowerCase(),
    verdict: row.querySelector("[class*=verdict-]").textContent.trim(),
  }));

  const form = document.createElement("form");
  form.className = "table-filter";
  form.setAttribute("role", "search");
  form.innerHTML =
    '<label>Rows that contain <input type="search" placeholder="429, lease, ndb"></label> ' +
    '<label>Verdict <select><option value="">all</option></select></label> ' +
    "<output></output>";
  const [input, select, output] = form.querySelectorAll("input, select, output");
  for (const verdict of new Set(rows.map((each) => each.verdict)))
    select.add(new Option(verdict, verdict));

  const update = () => {
    const words = input.value.toLowerCase().split(/\s+/);
    for (const { row, text, verdict } of rows)
      row.hidden =
        !words.every((word) => text.includes(word)) ||
        (select.value !== "" && select.value !== verdict);
    for (const table of tables)
      table.closest("section").hidden = [...table.tBodies[0].rows].every((row) => row.hidden);
    output.textContent = `${rows.filter(({ row }) => !row.hidden).length} of ${rows.length} rows`;
  };
  form.addEventListener("input", update);
  form.addEventListener("submit", (event) => event.preventDefault());

  const first = tables[0].closest("section");
  first.before(form);
  update();
});
