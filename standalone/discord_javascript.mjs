// A bot made with discord.js that does what it is told: one JSON command in each line of its standard input.
//
//     discord_javascript.mjs URL INTENT…      the token is in DISCORD_TOKEN
//
// It answers each command, and tells of each event, in a line of JSON. Only the library's addresses are set to the stand-in.

import { createInterface } from 'node:readline';
import {
  ActionRowBuilder, ButtonBuilder, ButtonStyle, Client, Events, GatewayIntentBits, MessageFlags, Partials, WebhookClient,
} from 'discord.js';

const [url, ...intents] = process.argv.slice(2);
const rest = { api: `${url}/api`, cdn: url };
const tell = (what) => process.stdout.write(`${JSON.stringify(what)}\n`);
const NAMES = {
  guilds: 'Guilds', guild_messages: 'GuildMessages', message_content: 'MessageContent', dm_messages: 'DirectMessages',
  guild_reactions: 'GuildMessageReactions', guild_typing: 'GuildMessageTyping', webhooks: 'GuildWebhooks', members: 'GuildMembers',
};

const client = new Client({
  intents: intents.map((name) => GatewayIntentBits[NAMES[name]]),
  partials: [Partials.Message, Partials.Channel, Partials.Reaction],
  rest,
});

client.once(Events.ClientReady, () => {
  const guild = client.guilds.cache.first();
  tell({ event: 'ready', user: client.user.username, channels: guild.channels.cache.map((one) => one.name) });
});
client.on(Events.ShardReady, () => tell({ event: 'identified' }));
client.on(Events.ShardResume, () => tell({ event: 'resumed' }));
client.on(Events.MessageCreate, async (message) => {
  const attachments = [];
  for (const one of message.attachments.values()) attachments.push(await (await fetch(one.url)).text());
  tell({
    event: 'message', id: message.id, author: message.author.username, text: message.content, bot: message.author.bot,
    webhook: message.webhookId !== null, direct: message.guildId === null, channel: message.channelId,
    reply: message.reference?.messageId ?? null, attachments,
  });
});
client.on(Events.MessageUpdate, (_, after) => tell({ event: 'edit', id: after.id, text: after.content }));
client.on(Events.MessageDelete, (message) => tell({ event: 'delete', id: message.id }));
client.on(Events.MessageReactionAdd, (reaction, user) =>
  tell({ event: 'reaction', id: reaction.message.id, emoji: reaction.emoji.name, user: user.id }));
client.on(Events.ThreadCreate, (thread) => tell({ event: 'thread', id: thread.id, name: thread.name, parent: thread.parentId }));
client.on(Events.ChannelUpdate, (_, after) => tell({ event: 'channel', name: after.name, topic: after.topic }));
client.on(Events.TypingStart, (typing) => tell({ event: 'typing', user: typing.user.username, channel: typing.channel.id }));

client.on(Events.InteractionCreate, async (interaction) => {
  if (interaction.isButton() && interaction.customId === 'approve') {
    await interaction.reply({ content: `approved by ${interaction.user.username}`, flags: MessageFlags.Ephemeral });
    await interaction.followUp({ content: 'noted', flags: MessageFlags.Ephemeral });
  } else if (interaction.isButton()) {
    await interaction.update({ content: 'denied', components: [] });
  } else if (interaction.isChatInputCommand()) {
    await interaction.deferReply({ flags: MessageFlags.Ephemeral });
    await interaction.editReply(`${interaction.options.getString('agent')} is well`);
  }
});

const row = () => new ActionRowBuilder().addComponents(
  new ButtonBuilder().setCustomId('approve').setLabel('Approve').setStyle(ButtonStyle.Success),
  new ButtonBuilder().setCustomId('deny').setLabel('Deny').setStyle(ButtonStyle.Danger),
);
const place = (given) => client.channels.fetch(given.channel);
const message = async (given) => (await place(given)).messages.fetch(given.message);

const commands = {
  async send(given) {
    const body = { content: given.text };
    if (given.nonce !== undefined) Object.assign(body, { nonce: given.nonce, enforceNonce: true });
    if (given.file) body.files = [{ attachment: Buffer.from(given.file), name: 'notes of today.txt' }];
    if (given.quiet) body.allowedMentions = { parse: [] };
    if (given.buttons) body.components = [row()];
    return (await (await place(given)).send(body)).id;
  },
  async reply(given) {
    return (await (await message(given)).reply(given.text)).id;
  },
  async edit(given) {
    await (await message(given)).edit(given.text);
  },
  async delete(given) {
    await (await message(given)).delete();
  },
  async react(given) {
    await (await message(given)).react(given.emoji);
  },
  async history(given) {
    const found = [];
    for (let after = given.after; ;) {
      const page = await (await place(given)).messages.fetch({ after, limit: 100, cache: false });
      if (page.size === 0) return found;
      const texts = [...page.values()].sort((one, other) => one.createdTimestamp - other.createdTimestamp || (one.id < other.id ? -1 : 1));
      found.push(...texts.map((one) => one.content));
      after = texts.at(-1).id;
    }
  },
  async webhook(given) {
    const hook = await (await place(given)).createWebhook({ name: given.name });
    return hook.url;
  },
  async hooks(given) {
    return (await (await place(given)).fetchWebhooks()).map((one) => one.name);
  },
  async execute(given) {
    const [, id, token] = given.url.match(/webhooks\/(\d+)\/([^/]+)$/);
    const hook = new WebhookClient({ id, token }, { rest });
    const sent = await hook.send({ content: given.text, username: given.username, avatarURL: given.avatar });
    if (given.then !== undefined) await hook.editMessage(sent.id, { content: given.then });
    return sent.id;
  },
  async direct(given) {
    return (await (await client.users.fetch(given.user)).send(given.text)).id;
  },
  async thread(given) {
    const thread = await (await message(given)).startThread({ name: given.name });
    await thread.send(given.text);
    return thread.id;
  },
  async rename(given) {
    await (await place(given)).setTopic(given.topic);
  },
  async type(given) {
    await (await place(given)).sendTyping();
  },
  async offer() {
    const status = {
      name: 'status', description: 'Says how things are',
      options: [{ type: 3, name: 'agent', description: 'Name of the agent', required: true }],
    };
    return (await client.application.commands.set([status])).map((one) => one.name);
  },
  async rights() {
    const application = await client.application.fetch();
    return { content: application.flags.has('GatewayMessageContentLimited') };
  },
};

const ended = (error) => tell({ event: 'end', name: error.code ?? error.name, text: error.message, code: error.code ?? null });
client.on(Events.Error, ended);
client.on(Events.ShardError, ended);
client.on(Events.ShardDisconnect, (close) => ended({ name: 'disconnected', message: 'disconnected', code: close.code }));
process.on('unhandledRejection', ended);
createInterface({ input: process.stdin }).on('line', async (line) => {
  const given = JSON.parse(line);
  try {
    tell({ done: given.id, result: (await commands[given.do](given)) ?? null });
  } catch (error) {
    tell({ done: given.id, error: { status: error.status ?? null, code: error.code ?? null, name: error.name, text: error.message } });
  }
}).on('close', () => process.exit(0));
client.login(process.env.DISCORD_TOKEN).catch(ended);
