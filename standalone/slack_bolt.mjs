// An app of Bolt, in Socket Mode, that does what people ask of it. Usage: slack_bolt.mjs API BOT_TOKEN APP_TOKEN
// It writes what happens to it as lines of JSON, and leaves when its standard input ends.
import bolt from '@slack/bolt';

const [api, token, appToken] = process.argv.slice(2);
const tell = (what) => console.log(JSON.stringify(what));
const quiet = { debug() {}, info() {}, warn() {}, error() {}, setLevel() {}, getLevel: () => 'error', setName() {} };

const app = new bolt.App({ token, appToken, socketMode: true, clientOptions: { slackApiUrl: api }, logger: quiet });

app.use(async ({ context, body, next }) => {
  tell({ got: body.event?.type ?? body.type ?? body.command, subtype: body.event?.subtype, text: body.event?.text, retry: context.retryNum ?? 0 });
  await next();
});

app.message('reply please', ({ message, say }) => say({ text: 'bolt replies', thread_ts: message.ts }));
app.message('change please', async ({ say, client }) => {
  const { channel, ts } = await say('bolt before');
  await client.chat.update({ channel, ts, text: 'bolt after' });
});
app.message('remove please', async ({ say, client }) => {
  const { channel, ts } = await say('bolt removes this');
  await client.chat.delete({ channel, ts });
});
app.message('react please', ({ message, client }) =>
  client.reactions.add({ channel: message.channel, timestamp: message.ts, name: 'thumbsup' }));
app.message('file please', ({ message, client }) =>
  client.files.uploadV2({ channel_id: message.channel, filename: 'bolt.txt', content: 'from bolt', initial_comment: 'bolt sends a file' }));
app.message('flood please', async ({ message, client }) => {
  for (let n = 0; n < 8; n += 1) await client.chat.postMessage({ channel: message.channel, text: `bolt flood ${n}` });
  tell({ flooded: true });
});
app.message('ask please', ({ say }) => say({
  text: 'bolt asks',
  blocks: [
    { type: 'section', text: { type: 'mrkdwn', text: 'bolt asks' } },
    {
      type: 'actions',
      elements: [{ type: 'button', action_id: 'approve', value: 'yes', text: { type: 'plain_text', text: 'Approve' } }],
    },
  ],
}));
app.action('approve', async ({ ack, respond, body, action }) => {
  await ack();
  await respond({ replace_original: true, text: `bolt heard ${action.value} of <@${body.user.id}>` });
});
app.command('/flock', async ({ ack, command, respond }) => {
  await ack(`bolt does ${command.text}`);
  await respond({ response_type: 'in_channel', text: `bolt did ${command.text}` });
});
app.event('app_mention', ({ event, say }) => say({ text: 'bolt was called', thread_ts: event.ts }));
app.event('message', async ({ event }) => {
  if (event.subtype === 'message_changed') tell({ changed: event.message.text, before: event.previous_message.text });
  if (event.subtype === 'message_deleted') tell({ deleted: event.previous_message.text });
});
app.event('reaction_added', async ({ event }) => tell({ reaction: event.reaction, by: event.user }));
app.error(async (error) => tell({ error: error.original?.data?.error ?? error.data?.error ?? error.message }));

process.stdin.on('end', () => app.stop().then(() => process.exit(0)));
process.stdin.resume();
app.start().then(
  () => tell({ ready: true }),
  (error) => { tell({ refused: error.data?.error ?? error.message }); process.exit(3); },
);
