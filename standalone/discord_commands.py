"""The routes of application commands: what an application offers behind the slash."""

import re

from discord_api import Form, Refusal, route, unknown

CHAT_INPUT, USER, MESSAGE = 1, 2, 3
SUBCOMMAND, GROUP = 1, 2
MAX_COMMANDS = {CHAT_INPUT: 100, USER: 15, MESSAGE: 15}
# Letters, digits, '-' and '_' of any script; nothing that has a capital.
NAME = re.compile(r"[-_'\w]{1,32}")


def own(call):
    """The place where an application keeps its commands: everywhere, or one server."""
    if call.args["application"] != call.bot["id"]:
        raise Refusal(403, 20012, "You are not authorized to perform this action on this application")
    guild = call.args.get("guild")
    if guild:
        call.world.guild(guild, call.bot)
    return f"{call.bot['id']}:{guild or ''}"


def kept(call, place):
    return call.world.store.get("commands", place) or []


def check_name(form, path, body):
    name = form.text("name", low=1, high=32, required=True, path=f"{path}name", body=body)
    if name and body.get("type", CHAT_INPUT) == CHAT_INPUT and (not NAME.fullmatch(name) or name != name.lower()):
        form.fail(f"{path}name", "APPLICATION_COMMAND_INVALID_NAME", "Command name is invalid")


def check_options(form, path, body, depth=0):
    names, optional = [], False
    for at, option in form.objects("options", 25, f"{path}options", body):
        here = f"{path}options.{at}."
        check_name(form, here, {**option, "type": CHAT_INPUT})
        form.text("description", low=1, high=100, required=True, path=f"{here}description", body=option)
        type = form.number("type", 1, 11, path=f"{here}type", body=option)
        if type is None:
            form.fail(f"{here}type", "BASE_TYPE_REQUIRED", "This field is required")
        if option.get("name") in names:
            form.fail(f"{path}options", "APPLICATION_COMMAND_OPTIONS_NAME_INVALID", "Option name must be unique")
        names.append(option.get("name"))
        if option.get("required") and optional:
            text = "Required options must be placed before non-required options"
            form.fail(f"{path}options", "APPLICATION_COMMAND_OPTIONS_REQUIRED_INVALID", text)
        optional = optional or not option.get("required")
        for number, choice in form.objects("choices", 25, f"{here}choices", option):
            form.text("name", low=1, high=100, required=True, path=f"{here}choices.{number}.name", body=choice)
        if type in (SUBCOMMAND, GROUP) and depth < 2:
            check_options(form, here, option, depth + 1)


def check(form, path, body):
    type = form.choice("type", (CHAT_INPUT, USER, MESSAGE, 4), CHAT_INPUT, path=f"{path}type", body=body)
    check_name(form, path, body)
    if type == CHAT_INPUT:
        form.text("description", low=1, high=100, required=True, path=f"{path}description", body=body)
        check_options(form, path, body)
    elif body.get("description"):
        form.fail(f"{path}description", "APPLICATION_COMMAND_DESCRIPTION_INVALID", "Context menu commands cannot have description")


def made(call, body, id=None):
    """A command as it is kept and shown."""
    guild = call.args.get("guild")
    return {
        "id": id or call.world.store.snowflake(), "application_id": call.bot["id"], "version": call.world.store.snowflake(),
        "type": body.get("type", CHAT_INPUT), "name": body["name"], "name_localizations": None,
        "description": body.get("description") or "", "description_localizations": None, "options": body.get("options") or [],
        "default_member_permissions": body.get("default_member_permissions"), "nsfw": bool(body.get("nsfw")),
        "dm_permission": body.get("dm_permission", True), "contexts": body.get("contexts"), "integration_types": [0],
        **({"guild_id": guild} if guild else {}),
    }


def keep(call, place, commands):
    for type, most in MAX_COMMANDS.items():
        if sum(one["type"] == type for one in commands) > most:
            raise Refusal(400, 30032, f"Maximum number of application commands reached ({most})")
    call.world.store.put("commands", place, commands)


async def listed(call):
    return kept(call, own(call))


async def replace(call):
    place = own(call)
    bodies = call.body if isinstance(call.body, list) else None
    form = Form({})
    if bodies is None:
        form.fail("", "LIST_TYPE_CONVERT", "Only iterables may be used in a ListType")
        form.close()
    seen = []
    for at, body in enumerate(bodies):
        if not form.mapping(body, str(at)):
            continue
        check(form, f"{at}.", body)
        key = (body.get("type", CHAT_INPUT), body.get("name"))
        if key in seen:
            form.fail(str(at), "APPLICATION_COMMANDS_DUPLICATE_NAME", "Application command names must be unique")
        seen.append(key)
    form.close()
    ids = {(one["type"], one["name"]): one["id"] for one in kept(call, place)}
    commands = [made(call, one, ids.get((one.get("type", CHAT_INPUT), one["name"]))) for one in bodies]
    keep(call, place, commands)
    return commands


async def add(call):
    place, form = own(call), Form(call.body)
    check(form, "", call.body)
    form.close()
    others = kept(call, place)
    same = next((one for one in others if (one["type"], one["name"]) == (call.body.get("type", CHAT_INPUT), call.body["name"])), None)
    command = made(call, call.body, same and same["id"])
    keep(call, place, [one for one in others if one is not same] + [command])
    return command


def found(call, place):
    command = next((one for one in kept(call, place) if one["id"] == call.args["command"]), None)
    if not command:
        raise unknown("application command")
    return command


async def one(call):
    return found(call, own(call))


async def change(call):
    place = own(call)
    old = found(call, place)
    body = {**old, **call.body}
    form = Form(body)
    check(form, "", body)
    form.close()
    new = made(call, body, old["id"])
    keep(call, place, [new if one is old else one for one in kept(call, place)])
    return new


async def delete(call):
    place = own(call)
    old = found(call, place)
    keep(call, place, [one for one in kept(call, place) if one is not old])


for base in ("/applications/{application}/commands", "/applications/{application}/guilds/{guild}/commands"):
    route("GET", base, 10, 5)(listed)
    route("PUT", base, 5, 20)(replace)
    route("POST", base, 5, 20)(add)
    route("GET", base + "/{command}", 10, 5)(one)
    route("PATCH", base + "/{command}", 5, 20)(change)
    route("DELETE", base + "/{command}", 5, 20)(delete)
