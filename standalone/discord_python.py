"""A bot made with discord.py that does what it is told: one JSON command in each line of its standard input.

    discord_python.py URL INTENT…      the token is in DISCORD_TOKEN

It answers each command, and tells of each event, in a line of JSON. Only the library's addresses are set to the stand-in.
"""

import asyncio
import io
import json
import os
import sys

if os.environ.get("DISCORD_ZLIB"):
    # Without this package discord.py asks for zlib-stream.
    sys.modules["zstandard"] = None

import discord
import yarl
from discord.gateway import DiscordWebSocket
from discord.http import Route

url = sys.argv[1]
Route.BASE = f"{url}/api/v10"
DiscordWebSocket.DEFAULT_GATEWAY = yarl.URL(url.replace("http", "ws", 1) + "/")


def tell(**what):
    print(json.dumps(what), flush=True)


class Answers(discord.ui.View):
    """Two buttons: one answers at once, to the person alone; the other changes the message after a while."""

    def __init__(self):
        super().__init__(timeout=None)

    @discord.ui.button(label="Approve", style=discord.ButtonStyle.success, custom_id="approve")
    async def approve(self, interaction, _):
        await interaction.response.send_message(f"approved by {interaction.user.name}", ephemeral=True)
        await interaction.followup.send("noted", ephemeral=True)

    @discord.ui.button(label="Deny", style=discord.ButtonStyle.danger, custom_id="deny")
    async def deny(self, interaction, _):
        await interaction.response.edit_message(content="denied", view=None)


class Bot(discord.Client):
    """The events it is told of, and the commands it carries out."""

    def __init__(self, intents):
        super().__init__(intents=intents, max_messages=1000, chunk_guilds_at_startup=False)
        self.tree = discord.app_commands.CommandTree(self)
        self.tree.command(name="status", description="Says how things are")(status)

    async def setup_hook(self):
        self.add_view(Answers())

    async def on_ready(self):
        guild = self.guilds[0]
        tell(event="ready", user=self.user.name, channels=[one.name for one in guild.channels])

    async def on_resumed(self):
        tell(event="resumed")

    async def on_message(self, message):
        tell(
            event="message", id=str(message.id), author=message.author.name, text=message.content, bot=message.author.bot,
            webhook=message.webhook_id is not None, direct=message.guild is None, channel=str(message.channel.id),
            reply=str(message.reference.message_id) if message.reference else None,
            attachments=[(await one.read()).decode() for one in message.attachments],
        )

    async def on_raw_message_edit(self, payload):
        tell(event="edit", id=str(payload.message_id), text=payload.data["content"])

    async def on_raw_message_delete(self, payload):
        tell(event="delete", id=str(payload.message_id))

    async def on_raw_reaction_add(self, payload):
        tell(event="reaction", id=str(payload.message_id), emoji=str(payload.emoji), user=str(payload.user_id))

    async def on_thread_create(self, thread):
        tell(event="thread", id=str(thread.id), name=thread.name, parent=str(thread.parent_id))

    async def on_guild_channel_update(self, _, after):
        tell(event="channel", name=after.name, topic=after.topic)

    async def on_typing(self, channel, user, _):
        tell(event="typing", user=user.name, channel=str(channel.id))

    async def obey(self):
        reader = asyncio.StreamReader()
        await self.loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        while line := await reader.readline():
            self.loop.create_task(self.carry_out(json.loads(line)))

    async def carry_out(self, given):
        try:
            tell(done=given["id"], result=await getattr(self, given["do"])(given))
        except discord.HTTPException as error:
            tell(done=given["id"], error={"status": error.status, "code": error.code, "text": error.text})
        except Exception as error:
            tell(done=given["id"], error={"name": type(error).__name__, "text": str(error)})

    def place(self, given):
        return self.get_channel(int(given["channel"])) or self.get_partial_messageable(int(given["channel"]))

    def message(self, given):
        return self.place(given).get_partial_message(int(given["message"]))

    async def send(self, given):
        more = {}
        if "nonce" in given:
            more["nonce"] = given["nonce"]
        if "file" in given:
            more["file"] = discord.File(io.BytesIO(given["file"].encode()), "notes of today.txt")
        if given.get("quiet"):
            more["allowed_mentions"] = discord.AllowedMentions.none()
        if given.get("buttons"):
            more["view"] = Answers()
        return str((await self.place(given).send(given.get("text"), **more)).id)

    async def reply(self, given):
        return str((await self.message(given).reply(given["text"])).id)

    async def edit(self, given):
        await self.message(given).edit(content=given["text"])

    async def delete(self, given):
        await self.message(given).delete()

    async def react(self, given):
        await self.message(given).add_reaction(given["emoji"])

    async def history(self, given):
        after = discord.Object(int(given["after"]))
        return [one.content async for one in self.place(given).history(after=after, limit=None)]

    async def webhook(self, given):
        hook = await self.place(given).create_webhook(name=given["name"])
        return hook.url

    async def hooks(self, given):
        return [one.name for one in await self.place(given).webhooks()]

    async def execute(self, given):
        hook = discord.Webhook.from_url(given["url"], client=self)
        sent = await hook.send(given["text"], username=given["username"], avatar_url=given["avatar"], wait=True)
        if "then" in given:
            await sent.edit(content=given["then"])
        return str(sent.id)

    async def direct(self, given):
        user = await self.fetch_user(int(given["user"]))
        return str((await user.send(given["text"])).id)

    async def thread(self, given):
        thread = await self.message(given).create_thread(name=given["name"])
        await thread.send(given["text"])
        return str(thread.id)

    async def rename(self, given):
        await self.place(given).edit(topic=given["topic"])

    async def type(self, given):
        await self.place(given).typing()

    async def offer(self, _):
        return [one.name for one in await self.tree.sync()]

    async def rights(self, _):
        application = await self.application_info()
        return {"content": application.flags.gateway_message_content_limited}


async def status(interaction: discord.Interaction, agent: str):
    await interaction.response.defer(ephemeral=True)
    await interaction.edit_original_response(content=f"{agent} is well")


async def main():
    bot = Bot(discord.Intents(**{name: True for name in sys.argv[2:]}))
    async with bot:
        obeying = asyncio.create_task(bot.obey())
        try:
            await bot.start(os.environ["DISCORD_TOKEN"])
        except Exception as error:
            tell(event="end", name=type(error).__name__, text=str(error), code=getattr(error, "code", None))
        obeying.cancel()


asyncio.run(main())
