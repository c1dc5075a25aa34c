// Shows the rows of the page of results that have the chosen source and verdict, and keeps the choice in the address.
document.addEventListener("DOMContentLoaded", () => {
  const choices = ["source", "verdict"].map((name) => [name, document.getElementById(`claims-${name}`)]);
  if (choices.some(([, select]) => !select)) return;
  const rows = [...document.querySelectorAll(".claims tbody tr")];
  const asked = new URLSearchParams(location.search);
  for (const [name, select] of choices) {
    if (asked.has(name)) select.value = asked.get(name);
    select.addEventListener("change", show);
  }
  function show() {
    let shown = 0;
    const address = new URL(location.href);
    for (const [name, select] of choices) {
      if (select.value) address.searchParams.set(name, select.value);
      else address.searchParams.delete(name);
    }
    for (const row of rows) {
      row.hidden = choices.some(([name, select]) => select.value && row.dataset[name] !== select.value);
      shown += !row.hidden;
    }
    document.getElementById("claims-shown").textContent = `${shown} of ${rows.length} claims`;
    history.replaceState(null, "", address);
  }
  show();
});
