// Sorts tables by a click on a column's head; without scripts they keep the order of the report.
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  if (body.rows.length < 2) continue;
  for (const [place, head] of [...table.tHead.rows[0].cells].entries()) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "descending";
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "ascending" : "descending");
      const key = (row) => row.cells[place].textContent.trim();
      const compare = (one, other) => {
        const [a, b] = [one, other].map((row) => parseFloat(key(row).replace("[", "")));
        return isNaN(a) || isNaN(b) ? key(one).localeCompare(key(other)) : a - b;
      };
      const rows = [...body.rows].sort((one, other) => (down ? compare(one, other) : compare(other, one)));
      body.append(...rows);
    });
  }
}
// A link to a part of the annex opens it.
const open = () => {
  const part = location.hash && document.getElementById(location.hash.slice(1));
  if (part && part.tagName === "DETAILS") part.open = true;
};
addEventListener("hashchange", open);
open();
