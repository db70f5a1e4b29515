// The commands of a session, which are offered after `/` at the beginning of a message. The page has them, and a message
// that is more than the command is none.

import { offer } from "./{digest}-offers.js";

/** Handles a key while commands are offered. Returns `true` if the key was for them. */
export const keyForCommands = offer({
  id: "commands",
  isFor: (element) => element.id === "compose" && document.getElementById("commands"),
  find(field, list) {
    const isBegun = /^\/[a-z]*$/.test(field.value);
    const options = [...list.children];
    for (const option of options) {
      // What is written out need not be offered: Enter sends it.
      const { value } = option.dataset;
      option.hidden = !isBegun || !value.startsWith(field.value) || value === field.value;
    }
    return options.filter((option) => !option.hidden);
  },
  put(field, option) {
    field.value = option.dataset.value;
  },
});

/** Returns `true` if a message is a command and nothing else. */
export const isCommand = (content) =>
  [...document.querySelectorAll("#commands li")].some(({ dataset }) => dataset.value === content);
