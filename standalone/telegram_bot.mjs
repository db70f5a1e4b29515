// A bot made with grammy, for telegram_checks.py: telegram_bot.mjs ADDRESS TOKEN. It does the same as telegram_bot.py.
import { createHash } from "node:crypto";
import { Bot, GrammyError, InlineKeyboard, InputFile } from "grammy";

const [address, token] = process.argv.slice(2);
const bot = new Bot(token, { client: { apiRoot: address } });
const escaped = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
const pause = (seconds) => new Promise((done) => setTimeout(done, seconds * 1000));

const refusal = async (call) => {
    try {
        await call();
        return "no refusal";
    } catch (error) {
        if (error instanceof GrammyError) return `${error.error_code} ${error.description}`;
        throw error;
    }
};

// Sends again when Telegram says how long to wait.
const patiently = async (call) => {
    for (;;) {
        try {
            return await call();
        } catch (error) {
            if (!(error instanceof GrammyError) || !error.parameters.retry_after) throw error;
            await pause(error.parameters.retry_after);
        }
    }
};

bot.command("buttons", (ctx) => ctx.reply("Yes?", { reply_markup: new InlineKeyboard().text("Yes", "yes") }));
bot.callbackQuery("yes", async (ctx) => {
    await ctx.answerCallbackQuery("Noted");
    await ctx.editMessageText(`pressed by ${ctx.from.first_name}`);
});
bot.command("delete", async (ctx) => {
    const sent = await ctx.reply("soon gone");
    await ctx.api.deleteMessage(ctx.chat.id, sent.message_id);
});
bot.command("topic", async (ctx) => {
    const topic = await ctx.createForumTopic("Plans");
    const thread = topic.message_thread_id;
    await ctx.api.sendMessage(ctx.chat.id, "in the topic", { message_thread_id: thread });
    await ctx.api.editForumTopic(ctx.chat.id, thread, { name: "Better plans" });
    await ctx.api.closeForumTopic(ctx.chat.id, thread);
    await ctx.api.reopenForumTopic(ctx.chat.id, thread);
});
bot.command("bad", async (ctx) => {
    await ctx.reply(await refusal(() => ctx.reply("<b>open", { parse_mode: "HTML" })));
});
bot.command("long", async (ctx) => {
    await ctx.reply(await refusal(() => ctx.reply("x".repeat(4097))));
    await ctx.reply(`<b>${"x".repeat(4096)}</b>`, { parse_mode: "HTML" });
});
bot.command("same", async (ctx) => {
    const sent = await ctx.reply("the same");
    await ctx.reply(await refusal(() => ctx.api.editMessageText(ctx.chat.id, sent.message_id, "the same")));
});
bot.command("flood", async (ctx) => {
    for (const number of [1, 2, 3]) await patiently(() => ctx.reply(`flood ${number}`));
});
// Never answers, so that this update stays unconfirmed while this process lives.
bot.command("hold", async (ctx) => {
    if (process.env.HOLD) {
        console.log("held");
        await new Promise(() => {});
    }
    await ctx.reply("released");
});
bot.on("message:document", async (ctx) => {
    const file = await ctx.getFile();
    const content = Buffer.from(await (await fetch(`${address}/file/bot${token}/${file.file_path}`)).arrayBuffer());
    const caption = createHash("sha256").update(content).digest("hex");
    await ctx.replyWithDocument(new InputFile(content, `copy of ${ctx.message.document.file_name}`), { caption });
});
bot.on("message:text", async (ctx) => {
    await ctx.replyWithChatAction("typing");
    await ctx.react("👀");
    await ctx.reply(`<b>echo</b>: ${escaped(ctx.message.text)}`, {
        parse_mode: "HTML",
        reply_parameters: { message_id: ctx.message.message_id },
    });
});
bot.on("edited_message:text", (ctx) => ctx.reply(`edited: ${ctx.editedMessage.text}`));
bot.on("message_reaction", (ctx) => ctx.reply(`reaction: ${ctx.reactions().emoji.join("")}`));
bot.on("my_chat_member", (ctx) => console.log(`now ${ctx.myChatMember.new_chat_member.status}`));

bot.catch((error) => console.error("handler:", error.error));
await bot.api.setMyCommands([{ command: "buttons", description: "Ask" }]);
bot.start({
    allowed_updates: ["message", "edited_message", "callback_query", "message_reaction", "my_chat_member"],
    onStart: (me) => console.log(`ready, all messages: ${me.can_read_all_group_messages}`),
}).catch((error) => {
    console.log(`ended: ${error.error_code} ${error.description}`);
    process.exit(3);
});
