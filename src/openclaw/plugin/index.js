// flock's tools for OpenClaw's agents, and flock's eyes on what those agents do.
//
// The plugin decides nothing. A tool call goes to flock's gateway, which knows the agent's role and policy and
// keeps the record; what comes back is the tool's result. Calls of OpenClaw's own tools are reported there, too.
//
// Who calls is what OpenClaw says in the context it hands over, never what a model wrote into the parameters.
// Nothing here may break OpenClaw: a call that can't be made is a result that says so, and a report that can't be
// delivered is dropped.
import crypto from "node:crypto";
import { fstatSync, readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import http from "node:http";
import { setTimeout as pause } from "node:timers/promises";

/** Names, descriptions and parameters, as flock wrote them beside this file. */
const TOOLS = JSON.parse(readFileSync(new URL("./tools.json", import.meta.url), "utf8"));
const OURS = new Set(TOOLS.map((tool) => tool.name));

/** How long a tool may take, and a report, in milliseconds. flock ends a call a little earlier by itself. */
const CALL_TIME = 150_000;
const REPORT_TIME = 5_000;
/** How long a call of OpenClaw's own tools may be held up by the report of its beginning, in milliseconds. */
const MOST_HELD = 1_000;
/** The most bytes of a request and of an answer. */
const MOST_SENT = 1 << 20;
const MOST_READ = 16 << 20;
/** The most characters of arguments and of a result in a report. */
const MOST_TOLD = 16_000;
/** The most reports that wait, and the most calls that are remembered. */
const MOST_WAITING = 256;
const MOST_CALLS = 1_000;

// Node's own client and not `fetch`: OpenClaw may send that through a proxy, and the token must not leave the machine.
const agent = new http.Agent({ keepAlive: true, maxSockets: 16 });

/** A failure in words that a model, or the person it tells, can do something with. */
class Trouble extends Error {}

/** Where flock is. Only this machine: the request carries a token. */
function address(settings) {
  const url = new URL(settings.gateway);
  if (url.protocol !== "http:" || !["127.0.0.1", "localhost", "[::1]"].includes(url.hostname))
    throw new Trouble(`the address of flock's gateway is not one of this machine: ${url.origin}`);
  return url;
}

/** The token, read for each call: a new one counts at once. */
async function secret(settings) {
  let text = "";
  try {
    text = (await readFile(settings.tokenFile, "utf8")).trim();
  } catch (error) {
    throw new Trouble(`flock's plugin can't read its token (${error.code ?? error.message}). Run: flock restart`);
  }
  if (!text) throw new Trouble("flock's plugin has no token. Run: flock restart");
  return text;
}

/** Posts JSON; the status and the parsed answer. */
async function post(settings, path, body, signal) {
  const sent = Buffer.from(JSON.stringify(body));
  if (sent.length > MOST_SENT) throw new Trouble(`the parameters are longer than ${MOST_SENT} bytes`);
  const url = new URL(path, address(settings));
  const headers = {
    authorization: `Bearer ${await secret(settings)}`,
    "content-type": "application/json",
    "content-length": sent.length,
  };
  return new Promise((resolve, reject) => {
    const request = http.request(url, { method: "POST", headers, agent, signal }, (response) => {
      const pieces = [];
      let length = 0;
      response.on("data", (piece) => {
        length += piece.length;
        if (length > MOST_READ) response.destroy(new Trouble("flock's answer is too long"));
        else pieces.push(piece);
      });
      response.on("error", reject);
      response.on("end", () => {
        try {
          resolve({ status: response.statusCode, answer: JSON.parse(Buffer.concat(pieces).toString("utf8")) });
        } catch {
          reject(new Trouble(`flock answered ${response.statusCode} with something that is not JSON. See: flock logs gateway`));
        }
      });
    });
    request.on("error", reject);
    request.end(sent);
  });
}

/** What became of a call that gave no answer. */
function explain(error, settings, limit, signal) {
  if (error instanceof Trouble) return error.message;
  if (signal?.aborted) return "the call was stopped; its effect is unknown";
  if (limit.aborted) return `flock did not answer within ${CALL_TIME / 1000} seconds; the effect of the call is unknown`;
  if (["ECONNREFUSED", "ENOENT", "EADDRNOTAVAIL"].includes(error.code))
    return `flock's gateway does not answer at ${settings.gateway}. Run: flock start`;
  return `the connection to flock's gateway broke (${error.code ?? error.message}); the effect of the call is unknown`;
}

const failed = (text) => ({ content: [{ type: "text", text: `Error: ${text}` }], details: { status: "error" }, isError: true });

/** Calls a tool as the agent and session that OpenClaw named. */
async function call(settings, tool, context, toolCallId, params, signal) {
  const { agentId, sessionKey } = context ?? {};
  if (!agentId || !sessionKey) return failed("OpenClaw did not say which agent and session this call is from");
  const limit = AbortSignal.timeout(CALL_TIME);
  try {
    [tool, params] = target(tool, params);
    const stop = signal ? AbortSignal.any([signal, limit]) : limit;
    const body = { agentId, sessionKey, toolCallId, params: params ?? {} };
    const { status, answer } = await post(settings, `/api/plugin/tools/${encodeURIComponent(tool)}`, body, stop);
    if (status === 200 && Array.isArray(answer.content)) {
      return { content: answer.content, details: { status: answer.isError ? "error" : "ok" }, isError: answer.isError === true };
    }
    const { message, hint } = answer?.error ?? {};
    const about = hint ? ` Run: ${hint}` : "";
    if (message) return failed(`flock refused the call: ${message}.${about}`);
    return failed(`flock answered ${status}. See: flock logs gateway`);
  } catch (error) {
    return failed(explain(error, settings, limit, signal));
  }
}

/** The tool by which granted tools of MCP servers are called: they change while OpenClaw runs, and these names do not. */
const CALL_MCP_TOOL = "flock_mcp_call";

/** The tool that a call is for, and its parameters. flock refuses what was not granted to the agent. */
function target(name, params) {
  if (name !== CALL_MCP_TOOL) return [name, params];
  const { tool, arguments: values } = params ?? {};
  if (typeof tool !== "string" || !tool.startsWith("mcp_"))
    throw new Trouble("flock_mcp_call needs the name of a tool, mcp_SERVER_TOOL. flock_mcp_tools lists them");
  return [tool, values];
}

/** At most so much of a value, as JSON where it is short enough and as the beginning of its text where not. */
function bounded(value) {
  try {
    const text = JSON.stringify(value ?? {});
    return text.length <= MOST_TOLD ? JSON.parse(text) : { cut: `${text.slice(0, MOST_TOLD)}…` };
  } catch {
    return {};
  }
}

/** The text of a tool's result, at most so much of it. */
function text_of(result) {
  const parts = Array.isArray(result?.content) ? result.content : [];
  const text = typeof result === "string" ? result
    : parts.filter((part) => part?.type === "text").map((part) => String(part.text)).join("\n");
  return text.length > MOST_TOLD ? `${text.slice(0, MOST_TOLD)}…` : text;
}

const words = (error) => (error === undefined || error === null ? undefined : String(error.message ?? error).slice(0, 1000));

/** Sends reports one after the other, so that a call's end never overtakes its beginning; a report's promise is kept
 *  when it has arrived or was given up. */
function reporter(settings, logger) {
  let last = Promise.resolve();
  let waiting = 0;
  let warned = false;
  return (report) => {
    if (waiting >= MOST_WAITING) return Promise.resolve();
    waiting += 1;
    last = last
      .then(() => post(settings, "/api/plugin/events", report, AbortSignal.timeout(REPORT_TIME)))
      .then(() => { warned = false; })
      .catch((error) => {
        if (!warned) logger?.warn?.(`flock: tool calls can't be reported (${error.code ?? error.message})`);
        warned = true;
      })
      .finally(() => { waiting -= 1; });
    return last;
  };
}

/** The calls of OpenClaw's own tools between their two hooks, which not every version fills in alike. */
class Calls {
  #open = new Map();
  #ended = new Set();

  begin(event, context) {
    const named = event.toolCallId ?? context.toolCallId;
    const toolCallId = named ?? `unnamed-${crypto.randomUUID()}`;
    const { agentId, sessionKey } = context;
    // Some model servers number the calls of each answer from the start: it is another call.
    this.#ended.delete(toolCallId);
    const known = { toolCallId, agentId, sessionKey, tool: event.toolName, params: bounded(event.params), unnamed: !named };
    keep(this.#open, toolCallId, known);
    return known;
  }

  /** The call that has ended; nothing where its end is known already. */
  end(event, context) {
    const id = event.toolCallId ?? context?.toolCallId;
    if (id !== undefined && this.#ended.has(id)) return undefined;
    const known = this.#open.get(id) ?? this.#likely(event, context);
    if (known) this.#open.delete(known.toolCallId);
    if (id !== undefined) keep(this.#ended, id);
    return known ?? { toolCallId: id, agentId: context?.agentId, sessionKey: context?.sessionKey, tool: event.toolName };
  }

  /** Where the beginning had no id: the oldest call of the same tool with the same parameters. */
  #likely(event, context) {
    const params = JSON.stringify(bounded(event.params));
    for (const known of this.#open.values()) {
      const same = known.unnamed && known.tool === event.toolName && JSON.stringify(known.params) === params;
      if (same && (!context?.sessionKey || context.sessionKey === known.sessionKey)) return known;
    }
    return undefined;
  }
}

/** Adds to a map or a set, and lets its oldest go where it grows too large. */
function keep(collection, key, value) {
  if (collection instanceof Map) collection.set(key, value);
  else collection.add(key);
  if (collection.size > MOST_CALLS) collection.delete(collection.keys().next().value);
}

/** Runs a listener; whatever happens in it, OpenClaw goes on as if there were none. */
const quietly = (listener) => async (event, context) => {
  try {
    await listener(event ?? {}, context ?? {});
  } catch {
    // Nothing to tell anybody: the call itself is not touched.
  }
};

/** The mark on a process that ends with its supervisor: OpenClaw registers a plugin several times. */
const TETHERED = Symbol.for("flock.tethered");

/**
 * Has the gateway stop in order when flock's supervisor is gone, which holds the other end of its standard input. Only
 * the gateway itself does so: what it starts may inherit all else that could be looked at.
 */
function tether() {
  if (process[TETHERED] || !process.env.FLOCK_SUPERVISED || process.argv[2] !== "gateway") return;
  process[TETHERED] = true;
  try {
    if (!fstatSync(0).isFIFO()) return;
  } catch {
    return;
  }
  const stop = () => process.kill(process.pid, "SIGTERM");
  process.stdin.once("end", stop).once("error", stop).resume();
  process.stdin.unref?.();
}

export default {
  id: "flock",
  name: "Flock",
  register(api) {
    tether();
    const settings = api.pluginConfig ?? {};
    // Who is offered what; flock looks again at each call.
    const offered = settings.tools ?? {};
    for (const tool of TOOLS) {
      api.registerTool(
        (context) => {
          if (!offered[context?.agentId]?.includes(tool.name)) return null;
          return {
            ...tool,
            label: tool.name,
            execute: (toolCallId, params, signal) => call(settings, tool.name, context, toolCallId, params, signal),
          };
        },
        { name: tool.name },
      );
    }

    const report = reporter(settings, api.logger);
    const calls = new Calls();
    api.on("before_tool_call", quietly((event, context) => {
      // Calls of flock's own tools are recorded where they are run.
      if (OURS.has(event.toolName)) return;
      const { unnamed, ...known } = calls.begin(event, context);
      // What is about to happen is recorded before it happens, unless flock takes too long to take it.
      const told = report({ event: "before_tool_call", ...known });
      return Promise.race([told, pause(MOST_HELD, undefined, { ref: false })]);
    }));
    api.on("after_tool_call", quietly((event, context) => {
      if (OURS.has(event.toolName)) return;
      const known = calls.end(event, context);
      if (!known?.sessionKey || !known.toolCallId) return;
      const { agentId, sessionKey, toolCallId, tool } = known;
      const result = text_of(event.result);
      report({
        event: "after_tool_call", agentId, sessionKey, toolCallId, tool, result,
        durationMs: event.durationMs, error: words(event.error),
      });
    }));
    api.on("agent_end", quietly((event, { agentId, sessionKey }) => {
      report({ event: "agent_end", agentId, sessionKey, error: words(event.error) });
    }));
  },
};
