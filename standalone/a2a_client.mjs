// Checks a running gateway with the official A2A client, in both versions. Usage: a2a_client.mjs PORT
// A2A_TOKEN is a token of `flock token add` with the rights a2a and read for orchestrator and coder.
import { randomUUID } from 'node:crypto';
import { Role, TaskState } from '@a2a-js/sdk';
import { ClientFactory, DefaultAgentCardResolver, JsonRpcTransportFactory } from '@a2a-js/sdk/client';

const port = process.argv[2];
const home = `http://127.0.0.1:${port}`;
const token = process.env.A2A_TOKEN;
let passed = 0;
let failed = 0;

function check(name, ok, seen = '') {
  if (ok) passed += 1;
  else failed += 1;
  console.log(`${ok ? 'ok   ' : 'FAIL '} ${name}${ok ? '' : `: ${JSON.stringify(seen)}`}`);
}

async function raises(call) {
  try {
    await call();
    return null;
  } catch (error) {
    return error;
  }
}

const fetchAs = (bearer) => (url, init = {}) => {
  const headers = new Headers(init.headers);
  headers.set('Authorization', `Bearer ${bearer}`);
  return fetch(url, { ...init, headers });
};

const resolver = (bearer = token) => new DefaultAgentCardResolver({ fetchImpl: fetchAs(bearer) });

// A client that knows only this version of the agent.
function clientOf(card, version, bearer = token) {
  const known = { ...card, supportedInterfaces: card.supportedInterfaces.filter((i) => i.protocolVersion === version) };
  const transport = new JsonRpcTransportFactory({ fetchImpl: fetchAs(bearer), legacyCompat: { enabled: true } });
  return new ClientFactory({ transports: [transport], cardResolver: resolver(bearer) }).createFromAgentCard(known);
}

function ask(text, more = {}) {
  const { content = { $case: 'text', value: text }, returnImmediately = false, ...rest } = more;
  const part = { content, metadata: undefined, filename: '', mediaType: '' };
  return {
    tenant: '',
    message: {
      messageId: randomUUID(), contextId: '', taskId: '', role: Role.ROLE_USER, parts: [part],
      metadata: undefined, extensions: [], referenceTaskIds: [], ...rest,
    },
    configuration: {
      acceptedOutputModes: [], taskPushNotificationConfig: undefined, historyLength: undefined, returnImmediately,
    },
    metadata: undefined,
  };
}

const textOf = (task) => task.artifacts.flatMap((a) => a.parts).map((p) => p.content.value).join('');
const byId = (id) => ({ tenant: '', id, historyLength: undefined, metadata: undefined });
const turns = async () => (await (await fetchAs(token)(`${home}/api/sessions?agent=coder`)).json()).turns;
const pause = (ms) => new Promise((done) => setTimeout(done, ms));

async function versionChecks(card, version) {
  const client = await clientOf(card, version);
  const named = (name) => `${version}: ${name}`;

  let task = await client.sendMessage(ask('hello', { contextId: 'js-context' }));
  check(named('a message is answered'), textOf(task) === 'Hello from here.', task);
  check(named('its task is completed'), task.status.state === TaskState.TASK_STATE_COMPLETED, task);
  check(named('it is in its context'), task.contextId === 'js-context', task);
  const got = await client.getTask(byId(task.id));
  check(named('a task can be fetched'), got.id === task.id && textOf(got) === textOf(task), got);

  const events = [];
  for await (const event of client.sendMessageStream(ask('hello'))) events.push(event.payload);
  const kinds = events.map((event) => event.$case);
  check(named('a stream begins with the task'), kinds[0] === 'task', kinds);
  check(named('a stream has the answer'), kinds.includes('artifactUpdate'), kinds);
  const last = events.at(-1).value.status?.state;
  check(named('a stream ends with the final state'), last === TaskState.TASK_STATE_COMPLETED, events.at(-1));

  task = await client.sendMessage(ask('ask me'));
  check(named('an agent asks back'), task.status.state === TaskState.TASK_STATE_INPUT_REQUIRED, task);
  task = await client.sendMessage(ask('blue', { taskId: task.id, contextId: task.contextId }));
  check(named('the reply goes on in the task'), textOf(task) === 'Blue it is.', task);

  task = await client.sendMessage(ask('go slowly', { returnImmediately: true }));
  for (let n = 0; n < 600 && task.status.state !== TaskState.TASK_STATE_WORKING; n += 1) {
    await pause(50);
    task = await client.getTask(byId(task.id));
  }
  check(named('a turn runs while nobody waits'), task.status.state === TaskState.TASK_STATE_WORKING, task);
  const gone = await client.cancelTask(byId(task.id));
  check(named('a task is cancelled'), gone.status.state === TaskState.TASK_STATE_CANCELED, gone);
  check(named('its turn has ended'), (await turns()).length === 0, await turns());
  let error = await raises(() => client.cancelTask(byId(task.id)));
  check(named('a task is cancelled once'), error?.name?.includes('TaskNotCancelable'), `${error?.name} ${error}`);
  error = await raises(() => client.getTask(byId('nothing')));
  check(named('an unknown task is not found'), error?.name?.includes('TaskNotFound'), `${error?.name} ${error}`);
  error = await raises(() => client.sendMessage(ask('', { content: { $case: 'url', value: 'file:///etc/passwd' } })));
  check(named('a file is refused'), `${error}`.includes('files are not taken'), `${error}`);
  const wrong = await clientOf(card, version, 'wrong');
  error = await raises(() => wrong.sendMessage(ask('hello')));
  check(named('a wrong token is refused'), `${error}`.includes('401'), `${error}`);
}

const entry = await resolver().resolve(home);
check("the home's card is the orchestrator's", entry.supportedInterfaces[0].url.endsWith('/orchestrator'), entry);
const card = await resolver().resolve(home, '/flock/a2a/coder/.well-known/agent-card.json');
check('an agent has a card', card.name === 'coder', card);
const versions = card.supportedInterfaces.map((i) => i.protocolVersion);
check('a card names both versions', versions.join() === '1.0,0.3', versions);
check('a card says how to be let in', card.securitySchemes.bearer !== undefined, card);
const unknown = () => resolver().resolve(home, '/flock/a2a/nobody/.well-known/agent-card.json');
check('an unknown agent has none', `${await raises(unknown)}`.includes('404'));
check('a card needs the token', `${await raises(() => resolver('wrong').resolve(home))}`.includes('401'));
for (const version of versions) await versionChecks(card, version);

console.log(`${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
