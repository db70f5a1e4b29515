// Clients in JavaScript with tools of their own against a running gateway, named by OPENAI_BASE_URL and OPENAI_API_KEY.
import { createOpenAI } from "@ai-sdk/openai";
import { generateText, stepCountIs, streamText, tool } from "ai";
import OpenAI from "openai";
import { z } from "zod";

const baseURL = process.env.OPENAI_BASE_URL, apiKey = process.env.OPENAI_API_KEY;
const known = { Oslo: "mild", Rome: "hot" };
let passed = 0, failed = 0;

function check(name, ok, seen = "") {
  if (ok) passed += 1; else failed += 1;
  console.log(`${ok ? "ok   " : "FAIL "} ${name}${ok ? "" : `: ${JSON.stringify(seen)?.slice(0, 3000)}`}`);
}

async function part(name, checks) {
  try {
    await checks();
  } catch (error) {
    check(`${name} gets to its end`, false, String(error?.stack ?? error) + JSON.stringify(error?.responseBody ?? null));
  }
}

const parameters = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const functionTool = { name: "weather", description: "The weather of a city.", parameters };

await part("openai", async () => {
  const client = new OpenAI({ baseURL, apiKey, maxRetries: 0, timeout: 60_000 });
  const tools = [{ type: "function", function: functionTool }];
  const messages = [{ role: "user", content: "two cities" }];
  const first = (await client.chat.completions.create({ model: "coder", messages, tools })).choices[0];
  check("openai: the answer ends with calls", first.finish_reason === "tool_calls" && first.message.tool_calls.length === 2, first);
  messages.push(first.message);
  for (const call of first.message.tool_calls) {
    messages.push({ role: "tool", tool_call_id: call.id, content: known[JSON.parse(call.function.arguments).city] });
  }
  const last = (await client.chat.completions.create({ model: "coder", messages, tools })).choices[0];
  check("openai: the results are read", last.message.content === "It is: hot", last);
  // The SDK's own runner calls the function and sends the results.
  const called = [];
  const runner = client.chat.completions.runTools({
    model: "coder", stream: true, messages: [{ role: "user", content: "one after the other" }],
    tools: [{ type: "function", function: { ...functionTool, parse: JSON.parse, function: ({ city }) => { called.push(city); return known[city]; } } }],
  });
  const text = await runner.finalContent();
  check("openai: its runner runs the tools of a stream", text === "It is: hot" && called.join() === "Oslo,Rome", { text, called });
  const flat = [{ type: "function", strict: false, ...functionTool }];
  const response = await client.responses.create({ model: "coder", input: "the weather", tools: flat });
  const call = response.output.find((item) => item.type === "function_call");
  const input = [{ type: "function_call_output", call_id: call.call_id, output: "mild" }];
  const done = await client.responses.create({ model: "coder", input, tools: flat, previous_response_id: response.id });
  check("openai: responses take the output", done.output_text === "It is: mild", done);
});

for (const api of ["chat", "responses"]) {
  for (const store of api === "chat" ? [undefined] : [true, false]) {
    const name = `Vercel AI SDK, ${api}${store === false ? " that are not stored" : ""}`;
    await part(name, async () => {
      const model = createOpenAI({ baseURL, apiKey })[api]("coder");
      const called = [];
      const tools = {
        weather: tool({
          description: "The weather of a city.", inputSchema: z.object({ city: z.string() }),
          execute: async ({ city }) => { called.push(city); return known[city]; },
        }),
      };
      const providerOptions = store === undefined ? undefined : { openai: { store } };
      const common = { model, tools, providerOptions, maxRetries: 0, stopWhen: stepCountIs(5) };
      const whole = await generateText({ ...common, prompt: "one after the other" });
      check(`${name}: it runs its tools`, whole.text === "It is: hot" && called.join() === "Oslo,Rome", { text: whole.text, called });
      called.length = 0;
      const streamed = streamText({ ...common, prompt: "two cities" });
      const text = await streamed.text;
      check(`${name}: also of a stream`, text === "It is: hot" && called.length === 2, { text, called });
    });
  }
}

console.log(`${passed} passed, ${failed} failed`);
process.exit(failed || !passed ? 1 : 0);
