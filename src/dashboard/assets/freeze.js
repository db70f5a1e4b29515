// The reasons for freezes, on the page of the team.

/** Returns the forms by name. `page` has the texts, the person, and what sends changes. */
export function freezeForms(page) {
  return {
    "freeze-reason": async (form, data) => {
      // Freezing again gives the freeze another reason. Without an agent it is that of all.
      const route = form.dataset.target ? `/api/agents/${form.dataset.target}/freeze` : "/api/freeze";
      const query = new URLSearchParams({ by: page.person, reason: data.get("reason").trim() });
      if (!(await page.send("POST", `${route}?${query}`))) return null;
      form.reset();
      form.closest("details").open = false;
      return page.texts.reasonSaved;
    },
  };
}
