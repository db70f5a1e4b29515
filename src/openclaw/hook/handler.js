// Written by flock. Puts the owner's files in the place of those in the workspace, which the agent can change.
import fs from 'node:fs/promises';
import path from 'node:path';

const NAMES = ['AGENTS.md', 'SOUL.md', 'IDENTITY.md', 'USER.md', 'TOOLS.md'];
// What else OpenClaw would read there: notes are the agent's own, orders are not.
const NOTES = ['MEMORY.md', 'memory.md'];

export default async function tellWho(event) {
  if (event?.type !== 'agent' || event?.action !== 'bootstrap') return;
  const agent = String(event.context?.agentId ?? '');
  const given = Array.isArray(event.context?.bootstrapFiles) ? event.context.bootstrapFiles : [];
  const files = given.filter((file) => NOTES.includes(file?.name));
  if (/^[a-z0-9][a-z0-9_-]{0,62}$/.test(agent)) {
    const home = path.resolve(import.meta.dirname, '..', '..', '..');
    const folder = path.join(home, 'agents', agent, 'identity');
    const read = async (file) => fs.readFile(file, 'utf8').catch(() => '');
    const role = await read(path.join(home, 'gateways', 'openclaw', 'roles', `${agent}.md`));
    for (const name of NAMES) {
      const own = await read(path.join(folder, name));
      const content = name === 'AGENTS.md' ? [role, own].filter((text) => text.trim()).join('\n\n') : own;
      if (content.trim()) files.push({ name, path: path.join(folder, name), content, missing: false });
    }
  }
  // An agent that flock does not know is nobody.
  event.context.bootstrapFiles = files;
}
