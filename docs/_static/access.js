// Make up for what the theme leaves out: levels of headings, names of landmarks, and a way to
// scroll by keyboard what is wider than the page.
document.addEventListener("DOMContentLoaded", () => {
  for (const heading of document.querySelectorAll("[role=heading]:not([aria-level])"))
    heading.setAttribute("aria-level", "2");
  document.querySelector("aside.sidebar-drawer")?.setAttribute("aria-label", "Site");
  document.querySelector("aside.toc-drawer")?.setAttribute("aria-label", "On this page");

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
