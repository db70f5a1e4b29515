// The reasons for freezes, on the page of the team.

import { person, send, texts } from "./{digest}-page.js";

/** The forms by name. */
export const freezeForms = {
  "freeze-reason": async (form, data) => {
    // Freezing again gives the freeze another reason. Without an agent it is that of all.
    const route = form.dataset.target ? `/api/agents/${form.dataset.target}/freeze` : "/api/freeze";
    const query = new URLSearchParams({ by: person, reason: data.get("reason").trim() });
    if (!(await send("POST", `${route}?${query}`))) return null;
    form.reset();
    form.closest("details").open = false;
    return texts.reasonSaved;
  },
};
