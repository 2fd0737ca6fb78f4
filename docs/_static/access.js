// Make up for what the theme leaves out: levels of headings, names of landmarks, and a way to
// scroll by keyboard what is wider than the page. Cells of wide tables get the title of their column, which is shown on a
// phone.
document.addEventListener("DOMContentLoaded", () => {
  for (const heading of document.querySelectorAll("[role=heading]:not([aria-level])"))
    heading.setAttribute("aria-level", "2");
  document.querySelector("aside.sidebar-drawer")?.setAttribute("aria-label", "Site");
  document.querySelector("aside.toc-drawer")?.setAttribute("aria-label", "On this page");
  for (const table of document.querySelectorAll(".content table.docutils")) {
    const [titles, ...rows] = [...table.rows].map((row) => [...row.cells]);
    if (titles.length < 3) continue;
    table.classList.add("rows");
    for (const [, ...cells] of rows)
      for (const cell of cells)
        if (cell.textContent.trim()) cell.dataset.column = titles[cell.cellIndex].textContent.trim();
  }

  const update = () => {
    for (const region of document.querySelectorAll("pre, .table-wrapper, p:has(> img)")) {
      const scrolls = region.scrollWidth > region.clientWidth || region.scrollHeight > region.clientHeight;
      if (scrolls) region.tabIndex = 0;
      else region.removeAttribute("tabindex");
    }
  };
  update();
  addEventListener("resize", update);
});
