"""What Telegram refuses in chats, topics and files, and what happens when something goes wrong on the way."""

import json
import urllib.parse

from checking import check

KEYBOARD = "Bad Request: can't parse inline keyboard button: "


def places(standin, Stage, asked):
    del asked
    stage = Stage(standin, "place_bot", type="group")
    old = stage.send("before")["result"]
    new = standin.post("migrate", channel=stage.chat, account="alice")["id"]
    told = [one["message"] for one in stage.news()]
    check("both groups tell that one became a supergroup", [one.get("migrate_to_chat_id") or one.get("migrate_from_chat_id")
                                                            for one in told] == [new, stage.chat], told)
    answer = stage.send("after")
    check("the old group is closed and names the new one", answer == {
        "ok": False, "error_code": 400, "description": "Bad Request: group chat was upgraded to a supergroup chat",
        "parameters": {"migrate_to_chat_id": new}}, answer)
    check("old messages do not come along", stage("editMessageText", chat_id=new, message_id=old["message_id"], text="x")[
        "description"] == "Bad Request: message to edit not found")
    for status, words in (("kicked", "bot was kicked from the supergroup chat"), ("left", "bot is not a member of the supergroup chat")):
        standin.post("member", channel=new, account="place_bot", status=status, by="alice")
        changes = [one["my_chat_member"]["new_chat_member"]["status"] for one in stage.news() if "my_chat_member" in one]
        check(f"a bot that has {status} is told", changes == [status], changes)
        stage.refused("sendMessage", f"Forbidden: {words}", chat_id=new, text="x")
    alice = standin.post("account", account="alice")["id"]
    stage.refused("sendMessage", "Forbidden: bot can't initiate conversation with a user", chat_id=alice, text="x")
    stage.refused("sendMessage", "Bad Request: chat not found", chat_id=alice + 1000, text="x")
    standin.say("alice", "@place_bot", "/start")
    got = stage.news()[0]["message"]
    check("a private chat has the person's id", got["chat"]["id"] == got["from"]["id"] == alice and got["chat"]["type"] == "private", got)
    check("then the bot may write", stage("sendMessage", chat_id=alice, text="welcome")["ok"])
    standin.post("block", bot="place_bot", account="alice", blocked=True)
    stage.refused("sendMessage", "Forbidden: bot was blocked by the user", chat_id=alice, text="x")
    other = Stage(standin, "mute_bot")
    standin.post("permissions", channel=other.chat, denied=["can_send_messages"])
    other.refused("sendMessage", "Bad Request: not enough rights to send text messages to the chat", text="x")


def topics(standin, Stage, asked):
    del asked
    stage = Stage(standin, "topic_bot", forum=True, privacy=False)
    stage.refused("createForumTopic", "Bad Request: not enough rights to create a topic", name="x")
    thread = standin.post("topic", channel=stage.chat, account="alice", name="Theirs")["thread"]
    stage.refused("editForumTopic", "Bad Request: not enough rights to edit the topic", message_thread_id=thread, name="Mine")
    stage.refused("closeForumTopic", "Bad Request: not enough rights to close or open the topic", message_thread_id=thread)
    stage.refused("deleteForumTopic", "Bad Request: not enough rights to delete the topic", message_thread_id=thread)
    stage.refused("sendMessage", "Bad Request: message thread not found", text="x", message_thread_id=1)
    stage.refused("sendMessage", "Bad Request: message thread not found", text="x", message_thread_id=99)
    stage.news()
    stage.say("inside", thread=thread)
    got = stage.news()[0]["message"]
    check("a message in a topic answers the topic's beginning", (got["message_thread_id"], got["is_topic_message"], got[
        "reply_to_message"]["forum_topic_created"]["name"]) == (thread, True, "Theirs"), got)
    standin.post("topic", channel=stage.chat, account="alice", thread=thread, closed=True)
    stage.refused("sendMessage", "Bad Request: TOPIC_CLOSED", text="x", message_thread_id=thread)
    standin.post("member", channel=stage.chat, account="topic_bot", status="administrator", rights=["can_manage_topics", "can_change_info"])
    stage.refused("closeForumTopic", "Bad Request: TOPIC_NOT_MODIFIED", message_thread_id=thread)
    stage.refused("reopenForumTopic", "Bad Request: TOPIC_ID_INVALID", message_thread_id=98)
    stage.news()
    made = stage("createForumTopic", chat_id=stage.chat, name="Mine")["result"]
    check("a bot sees its own topics and titles", stage.news()[0]["message"]["forum_topic_created"]["name"] == made["name"] == "Mine")
    stage("setChatTitle", chat_id=stage.chat, title="New\n title ")
    check("a title is cleaned", stage.news()[0]["message"]["new_chat_title"] == stage("getChat", chat_id=stage.chat)["result"]["title"] == "New title")
    stage.refused("setChatTitle", "Bad Request: CHAT_NOT_MODIFIED", title="New title")
    check("a description can be set", stage("setChatDescription", chat_id=stage.chat, description="About")["ok"])
    stage.refused("setChatDescription", "Bad Request: chat description is not modified", description="About")
    flat = Stage(standin, "flat_bot")
    flat.refused("createForumTopic", "Bad Request: the chat is not a forum", name="x")
    flat.refused("setChatTitle", "Bad Request: not enough rights to change chat title", title="x")
    check("chats without topics ignore a topic", flat.send("x", message_thread_id=77)["ok"] and flat.last()["thread"] is None)
    admins = [one["user"]["username"] for one in stage("getChatAdministrators", chat_id=stage.chat)["result"]]
    check("administrators are told", admins == ["alice", "topic_bot"], admins)
    me = stage("getChatMember", chat_id=stage.chat, user_id=stage("getMe")["result"]["id"])["result"]
    check("a bot sees its rights", me["status"] == "administrator" and me["can_manage_topics"] and not me["can_delete_messages"], me)


def messages(standin, Stage, asked):
    del asked
    stage = Stage(standin, "message_bot", privacy=False)
    theirs, mine = stage.say("theirs")["id"], stage.send("mine")["result"]["message_id"]
    stage.refused("editMessageText", "Bad Request: message can't be edited", message_id=theirs, text="x")
    stage.refused("editMessageText", "Bad Request: message to edit not found", message_id=999, text="x")
    stage.refused("deleteMessage", "Bad Request: message can't be deleted", message_id=theirs)
    stage.refused("deleteMessage", "Bad Request: message to delete not found", message_id=999)
    stage.refused("deleteMessages", "Bad Request: message identifiers are not specified", message_ids=[])
    stage.refused("sendMessage", "Bad Request: message to be replied not found", text="x", reply_parameters={"message_id": 999})
    check("unless that is allowed", stage.send("x", reply_parameters={"message_id": 999, "allow_sending_without_reply": True})["ok"])
    stage.refused("setMessageReaction", "Bad Request: REACTION_INVALID", message_id=theirs, reaction=[{"type": "emoji", "emoji": "✅"}])
    stage.refused("setMessageReaction", "Bad Request: REACTIONS_TOO_MANY", message_id=theirs,
                  reaction=[{"type": "emoji", "emoji": one} for one in "👍🔥"])
    stage.refused("sendChatAction", "Bad Request: wrong parameter action in request", action="thinking")
    for button, words in (({"text": "x", "callback_data": "ä" * 33}, "Bad Request: BUTTON_DATA_INVALID"),
                          ({"text": "x", "callback_data": ""}, KEYBOARD + "Text buttons are unallowed in the inline keyboard"),
                          ({"callback_data": "x"}, KEYBOARD + 'Can\'t find field "text"')):
        stage.refused("sendMessage", words, text="x", reply_markup={"inline_keyboard": [[button]]})
    buttons = {"inline_keyboard": [[{"text": "Go", "callback_data": "x" * 64}]]}
    asking = stage.send("press", reply_markup=buttons)["result"]["message_id"]
    press = {"message": asking, "data": "x" * 64}
    number = standin.post("say", account="bob", channel=stage.chat, press=press)["callback"]
    got = next(one["callback_query"] for one in stage.news() if "callback_query" in one)
    check("a pressed button is told", (got["id"], got["from"]["username"], got["data"], got["message"]["message_id"])
          == (number, "bob", "x" * 64, asking), got)
    check("a press is answered once", stage("answerCallbackQuery", callback_query_id=number)["ok"])
    late = "Bad Request: query is too old and response timeout expired or query ID is invalid"
    stage.refused("answerCallbackQuery", late, callback_query_id=number)
    number = standin.post("say", account="bob", channel=stage.chat, press=press)["callback"]
    standin.post("clock", advance=61)
    stage.refused("answerCallbackQuery", late, callback_query_id=number)
    standin.post("clock", advance=48 * 3600)
    stage.refused("deleteMessage", "Bad Request: message can't be deleted", message_id=mine)
    many = [stage.send(f"{one}")["result"]["message_id"] for one in range(3)]
    check("several messages are deleted at once", stage("deleteMessages", chat_id=stage.chat, message_ids=[*many, 999])["ok"]
          and all(standin.message(stage.chat, one)["deleted"] for one in many))


def files(standin, Stage, asked):
    stage = Stage(standin, "file_bot", privacy=False)
    stage.say("", attachments=[{"name": "a.bin", "size": 20 << 20}, {"name": "b.bin", "size": 100 << 20}])
    small, big = [one["message"]["document"] for one in stage.news()]
    stage.refused("getFile", "Bad Request: file is too big", file_id=big["file_id"])
    path = stage("getFile", file_id=small["file_id"])["result"]["file_path"]
    other = Stage(standin, "other_file_bot")
    other.refused("getFile", "Bad Request: invalid file_id", file_id=small["file_id"])
    stage.refused("sendDocument", "Bad Request: there is no document in the request")
    check("a file can be sent again by its id", stage("sendDocument", chat_id=stage.chat, document=small["file_id"])["ok"])
    for token, code in ((stage.token, 404), ("7000000009:" + "a" * 35, 401)):
        status, _, body = asked(standin, "GET", f"/file/bot{token}/{path}.no")
        check(f"a download is refused with {code}", (status, body["error_code"]) == (code, code), body)

    def part(content, name="x.txt", caption="c"):
        head = (f'--b\r\nContent-Disposition: form-data; name="chat_id"\r\n\r\n{stage.chat}\r\n--b\r\nContent-Disposition: form-data; '
                f'name="caption"\r\n\r\n{caption}\r\n--b\r\nContent-Disposition: form-data; name="document"; filename="{name}"\r\n\r\n')
        return asked(standin, "POST", f"/bot{stage.token}/sendDocument", head.encode() + content + b"\r\n--b--\r\n",
                     "multipart/form-data; boundary=b")[2]

    check("a file is sent with its caption", part(b"content")["ok"] and stage.last()["file"]["text"] == "content" and stage.last()["text"] == "c")
    check("an empty file is refused", part(b"")["description"] == "Bad Request: file must be non-empty")
    check("a long caption is refused", part(b"x", caption="c" * 1025)["description"] == "Bad Request: message caption is too long")
    check("a file of more than 50 MB is refused", part(bytes((50 << 20) + 1)) in (
        {"ok": False, "error_code": 413, "description": "Request Entity Too Large"}, "BrokenPipeError", "ConnectionResetError"))


def mishaps(standin, Stage, asked):
    stage = Stage(standin, "mishap_bot", privacy=False)
    path = f"/bot{stage.token}/sendMessage?{urllib.parse.urlencode({'chat_id': stage.chat, 'text': 'again'})}"
    standin.post("fault", route="sendMessage", status=429, retryAfter=7, channel=stage.chat)
    status, headers, body = asked(standin, "GET", path)
    check("a fault looks like Telegram's 429", (status, headers["Retry-After"], body) == (429, "7", {
        "ok": False, "error_code": 429, "description": "Too Many Requests: retry after 7", "parameters": {"retry_after": 7}}), body)
    standin.post("fault", route="sendMessage", status=500, after="after")
    lost = asked(standin, "GET", path)[0]
    asked(standin, "GET", path)
    sent = [one["text"] for one in standin.messages(stage.chat)].count("again")
    check("an answer can be lost after its request took effect", (lost, sent) == (0, 2), (lost, sent))
    standin.post("fault", route="*", status=502, times=2)
    seen = [asked(standin, "GET", path)[0] for _ in range(3)]
    check("a fault ends after so many times", seen == [502, 502, 200], seen)
    standin.post("limits", enabled=True, all=[30, 1], chat=[1000, 1], group=[5, 60])
    seen = [asked(standin, "GET", path) for _ in range(6)]
    check("a group takes only so many messages in a minute", [one[0] for one in seen] == [200] * 5 + [429]
          and 50 < seen[-1][2]["parameters"]["retry_after"] <= 60, seen[-1])
    standin.post("limits", enabled=False)
    stage.say("before the restart")
    before = standin.messages(stage.chat)
    pending = standin.get("updates", bot="mishap_bot")["pending"]
    standin.end()
    check("while Telegram is away nobody answers", asked(standin, "GET", path)[0] == 0)
    standin.start()
    check("messages survive a restart", standin.messages(stage.chat) == before)
    check("updates survive it", pending and stage("getUpdates")["result"] == pending, json.dumps(pending)[:500])


def refusals(standin, Stage, asked):
    for part in (places, topics, messages, files, mishaps):
        part(standin, Stage, asked)
