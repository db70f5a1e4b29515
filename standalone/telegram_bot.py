"""A bot made with python-telegram-bot, for telegram_checks.py: telegram_bot.py ADDRESS TOKEN.

It does the same as telegram_bot.mjs.
"""

import asyncio
import hashlib
import html
import sys

from telegram import InlineKeyboardButton, InlineKeyboardMarkup
from telegram.error import Conflict, InvalidToken, RetryAfter, TelegramError
from telegram.ext import (Application, CallbackQueryHandler, ChatMemberHandler, CommandHandler, MessageHandler,
                          MessageReactionHandler, filters)

KINDS = ["message", "edited_message", "callback_query", "message_reaction", "my_chat_member"]


def said(text):
    print(text, flush=True)


async def refusal(call):
    try:
        await call
        return "no refusal"
    except TelegramError as error:
        # The library cuts "Bad Request: " off and makes the first letter big.
        return f"{type(error).__name__} {error.message}"


async def patiently(call):
    """Sends again when Telegram says how long to wait."""
    while True:
        try:
            return await call()
        except RetryAfter as error:
            wait = error.retry_after
            await asyncio.sleep(wait.total_seconds() if hasattr(wait, "total_seconds") else wait)


async def buttons(update, _):
    keyboard = InlineKeyboardMarkup([[InlineKeyboardButton("Yes", callback_data="yes")]])
    await update.message.reply_text("Yes?", reply_markup=keyboard)


async def pressed(update, _):
    await update.callback_query.answer("Noted")
    await update.callback_query.edit_message_text(f"pressed by {update.effective_user.first_name}")


async def delete(update, _):
    sent = await update.message.reply_text("soon gone")
    await sent.delete()


async def topic(update, context):
    chat = update.effective_chat.id
    thread = (await context.bot.create_forum_topic(chat, "Plans")).message_thread_id
    await context.bot.send_message(chat, "in the topic", message_thread_id=thread)
    await context.bot.edit_forum_topic(chat, thread, name="Better plans")
    await context.bot.close_forum_topic(chat, thread)
    await context.bot.reopen_forum_topic(chat, thread)


async def bad(update, _):
    await update.message.reply_text(await refusal(update.message.reply_html("<b>open")))


async def long(update, _):
    await update.message.reply_text(await refusal(update.message.reply_text("x" * 4097)))
    await update.message.reply_html(f"<b>{'x' * 4096}</b>")


async def same(update, _):
    sent = await update.message.reply_text("the same")
    await update.message.reply_text(await refusal(sent.edit_text("the same")))


async def flood(update, _):
    for number in (1, 2, 3):
        await patiently(lambda text=f"flood {number}": update.message.reply_text(text))


async def document(update, _):
    given = update.message.document
    content = bytes(await (await given.get_file()).download_as_bytearray())
    await update.message.reply_document(content, filename=f"copy of {given.file_name}",
                                        caption=hashlib.sha256(content).hexdigest())


async def text(update, _):
    await update.message.reply_chat_action("typing")
    await update.message.set_reaction("👀")
    await update.message.reply_html(f"<b>echo</b>: {html.escape(update.message.text)}", do_quote=True)


async def edited(update, _):
    await update.edited_message.reply_text(f"edited: {update.edited_message.text}")


async def reaction(update, _):
    emoji = "".join(one.emoji for one in update.message_reaction.new_reaction)
    await update.effective_chat.send_message(f"reaction: {emoji}")


async def member(update, _):
    said(f"now {update.my_chat_member.new_chat_member.status}")


async def failed(_, context):
    print("handler:", context.error, file=sys.stderr, flush=True)


async def started(app):
    await app.bot.set_my_commands([("buttons", "Ask")])
    said(f"ready, all messages: {app.bot.can_read_all_group_messages}")


def main(address, token):
    app = (Application.builder().token(token).base_url(f"{address}/bot").base_file_url(f"{address}/file/bot")
           .post_init(started).build())
    for command in (buttons, delete, topic, bad, long, same, flood):
        app.add_handler(CommandHandler(command.__name__, command, filters.UpdateType.MESSAGE))
    app.add_handler(CallbackQueryHandler(pressed, "yes"))
    app.add_handler(MessageHandler(filters.UpdateType.MESSAGE & filters.Document.ALL, document))
    app.add_handler(MessageHandler(filters.UpdateType.MESSAGE & filters.TEXT, text))
    app.add_handler(MessageHandler(filters.UpdateType.EDITED_MESSAGE & filters.TEXT, edited))
    app.add_handler(MessageReactionHandler(reaction))
    app.add_handler(ChatMemberHandler(member, ChatMemberHandler.MY_CHAT_MEMBER))
    app.add_error_handler(failed)
    try:
        app.run_polling(allowed_updates=KINDS)
    except (InvalidToken, Conflict) as error:
        said(f"ended: {type(error).__name__} {error.message}")
        sys.exit(3)


main(*sys.argv[1:])
