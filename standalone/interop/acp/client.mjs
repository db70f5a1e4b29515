// The official TypeScript SDK as an editor of flock.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { Readable, Writable } from "node:stream";
import { client, methods, ndJsonStream, PROTOCOL_VERSION } from "@agentclientprotocol/sdk";

const work = process.env.FLOCK_WORK;

/// Runs `main` in an editor that answers questions with this option, or closes them.
async function edit(args, option, main) {
  const child = spawn(process.env.FLOCK_BINARY, ["acp", ...args], { stdio: ["pipe", "pipe", "inherit"] });
  const ended = new Promise((resolve) => child.on("exit", resolve));
  const shown = { updates: [], questions: [] };
  shown.of = (kind) => shown.updates.filter((update) => update.sessionUpdate === kind);
  shown.text = (kind = "agent_message_chunk") => shown.of(kind).map((update) => update.content.text).join("");
  const stream = ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
  const result = await client({ name: "checks" })
    .onNotification(methods.client.session.update, ({ params }) => {
      shown.updates.push(params.update);
    })
    .onRequest(methods.client.session.requestPermission, ({ params }) => {
      shown.questions.push(params);
      const outcome = option ? { outcome: "selected", optionId: option } : { outcome: "cancelled" };
      return { outcome };
    })
    .connectWith(stream, async (flock) => {
      const answer = await flock.request(methods.agent.initialize, {
        protocolVersion: PROTOCOL_VERSION,
        clientCapabilities: {},
      });
      assert.equal(answer.protocolVersion, 1);
      assert.equal(answer.agentInfo.name, "flock");
      return main(flock, shown);
    });
  child.stdin.end();
  assert.equal(await ended, 0);
  return result;
}

const open = async (flock) =>
  (await flock.request(methods.agent.session.new, { cwd: work, mcpServers: [] })).sessionId;
const prompt = (flock, sessionId, text) =>
  flock.request(methods.agent.session.prompt, { sessionId, prompt: [{ type: "text", text }] });

const checks = {
  async conversation() {
    const session = await edit(["--agent", "coder"], null, async (flock, shown) => {
      const sessionId = await open(flock);
      assert.equal((await prompt(flock, sessionId, "write more")).stopReason, "end_turn");
      assert.equal(shown.text(), "I write it.\n\nDone.");
      assert.equal(shown.text("agent_thought_chunk"), "it is small");
      const [call] = shown.of("tool_call");
      assert.equal(call.kind, "edit");
      // That the file is new is known only from the result.
      const done = shown.of("tool_call_update").at(-1);
      assert.equal(done.status, "completed");
      assert.equal(done.content.find((one) => one.type === "diff").newText, "one\n");
      const running = prompt(flock, sessionId, "go on for ever");
      while (!shown.text().includes("begins")) await new Promise((resolve) => setTimeout(resolve, 10));
      await flock.notify(methods.agent.session.cancel, { sessionId });
      assert.equal((await running).stopReason, "cancelled");
      await flock.request(methods.agent.session.setMode, { sessionId, modeId: "readonly" });
      await flock.request(methods.agent.session.setMode, { sessionId, modeId: "supervised" });
      return sessionId;
    });
    await edit(["--agent", "coder"], null, async (flock, shown) => {
      const { sessions } = await flock.request(methods.agent.session.list, {});
      assert(sessions.some((one) => one.sessionId === session));
      await flock.request(methods.agent.session.load, { sessionId: session, cwd: work, mcpServers: [] });
      assert(shown.text("user_message_chunk").startsWith("write more"));
    });
  },

  async permissions() {
    const words = [
      [null, "fourth", false],
      ["deny", "fifth", false],
      ["approve", "sixth", true],
    ];
    for (const [option, word, ran] of words) {
      await edit(["--agent", "sysadmin"], option, async (flock, shown) => {
        const sessionId = await open(flock);
        assert.equal((await prompt(flock, sessionId, `do the ${word}`)).stopReason, "end_turn");
        assert.equal(shown.questions.length, 1);
        assert(shown.questions[0].toolCall.title.includes(word));
        assert.deepEqual(
          shown.questions[0].options.map((one) => one.kind),
          ["allow_once", "reject_once"],
        );
      });
      const done = existsSync(`${work}/ran.txt`) ? readFileSync(`${work}/ran.txt`, "utf8") : "";
      assert.equal(done.includes(word), ran, `${option}: ${done}`);
    }
  },

  async errors() {
    await edit(["--agent", "nobody"], null, async (flock) => {
      await assert.rejects(open(flock), /flock list/);
    });
  },
};

for (const [name, check] of Object.entries(checks)) {
  await check();
  console.log(`  ok: ${name}`);
}
