// The names that are offered after `@` while a message is written.

import { offer } from "./{digest}-offers.js";

const begunName = (field) => /(?:^|\s)@([\w.-]*)$/.exec(field.value.slice(0, field.selectionStart));

/** Handles a key while names are offered. Returns `true` if the key was for them. */
export const keyForNames = offer({
  id: "mentions",
  isFor: (element) => element.id === "compose" && element.dataset.members,
  find(field, list) {
    const begun = begunName(field);
    const names = field.dataset.members.split(" ").map((name) => name.replace(/^human:/, ""));
    const found = begun ? names.filter((name) => name.toLowerCase().startsWith(begun[1].toLowerCase())) : [];
    list.replaceChildren(...found.slice(0, 8).map((name, at) => {
      const option = document.createElement("li");
      option.id = `mention-${at}`;
      option.role = "option";
      option.textContent = name;
      return option;
    }));
    return list.children;
  },
  put(field, { textContent: name }) {
    const end = field.selectionStart;
    field.setRangeText(`${name} `, end - begunName(field)[1].length, end, "end");
  },
});
