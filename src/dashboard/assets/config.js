// Values of the configuration, on its page.

import { fill, person, send, texts } from "./{digest}-page.js";

/** The forms by name. */
export const configForms = {
  "config-unset": async (form, data) => {
    const path = data.get("removed").trim();
    const query = new URLSearchParams({ path, by: person });
    if (!(await send("DELETE", `/api/config/value?${query}`))) return null;
    form.reset();
    return fill(texts.unsetDone, path);
  },
};
