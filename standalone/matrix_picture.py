"""Makes the picture of a linked room anew, as a person sees it with nheko, a client for Matrix.

Usage: matrix_picture.py FOLDER PICTURE, which `matrix.sh --picture` does. Needs nheko, Xvfb, matchbox-window-manager, xdotool
and ImageMagick's `import`, all of them Debian's.
"""

import json
import os
import subprocess
import sys
import time

from bridge_flock import bridge, post
from checking import HOME, SOON, call, check, finish, flock, free_port, must, parsed, until
from matrix_stage import Stage

CHANNEL = "fizzbuzz"
WIDTH, HEIGHT = 1100, 880
# Left of it are the rooms.
LEFT = 223
DONE = """It works: `fizzbuzz.py` prints 1 to 15, and its tests pass.

| number | printed |
|---|---|
| 3 | Fizz |
| 5 | Buzz |
| 15 | FizzBuzz |"""
WANTED = {"kind": "egress", "host": "pypi.org", "reason": "pytest is not in my sandbox"}
REPLIES = [
    {"when": "please write", "steps": [{"calls": [{"name": "flock_sysadmin_request", "arguments": WANTED}]}, {"say": ""}]},
    {"when": "and now", "steps": [{"say": DONE}]},
    {"steps": [{"say": ""}]},
]


def main(folder, picture):
    stage = Stage(folder)
    try:
        stage.open()
        show(stage, talk(stage), folder, picture)
    finally:
        flock("stop")
        stage.close()
    finish()


def talk(stage):
    """A conversation in a linked room, in which a person decides a request; the room."""
    must("init", "init", "--yes", "--no-images", "--model", "script/demo", "--port", str(free_port()), limit=300)
    os.makedirs(f"{HOME}/scripts", exist_ok=True)
    with open(f"{HOME}/scripts/picture", "w") as file:
        json.dump({"replies": REPLIES}, file)
    must("an agent", "add", "coder", "--no-container", "--network", "proxy", "--model", "script/picture")
    must("start", "start")
    added = bridge("add", "matrix", "--name", stage.bridge, *stage.credentials())
    check("a bridge", added[0] == 0, added)
    must("an approver", "config", "set", "plugins.entries.flock.config.approvers", '["human:alice"]')
    must("who alice is", "person", "link", "human:alice", f"{stage.bridge}:{stage.account('alice')}")
    must("a channel", "channel", "create", CHANNEL, "--topic", "FizzBuzz in Python", "--member", "coder")
    room = stage.channel(CHANNEL, ("alice", "bob"))
    linked = bridge("link", CHANNEL, f"{stage.bridge}:{room}")
    check("a link", linked[0] == 0, linked)
    stage.say("bob", room, "Good morning")
    stage.arrives(room, "bob joined")
    stage.say("alice", room, "@coder please write FizzBuzz with tests")
    asked = stage.arrives(room, "waits for a person")
    stage.react("alice", room, asked[0].id, "👍")
    until(SOON, lambda: "was approved" in stage.now(room, asked[0]).text)
    stage.say("alice", room, "@coder and now?")
    stage.arrives(room, "It works")
    post(CHANNEL, "Thank you. I close this channel tomorrow.")
    stage.arrives(room, "Thank you")
    return room


def show(stage, room, folder, picture):
    """Opens the room as alice, and takes the picture of it."""
    token, display = stage.tokens["alice"], f":{free_port() % 500 + 100}"
    device = parsed(call(stage.synapse.port, token, "GET", "/_matrix/client/v3/account/whoami")[1])["device_id"]
    os.makedirs(f"{folder}/config/nheko")
    with open(f"{folder}/config/nheko/nheko.conf", "w") as file:
        file.write(f"""[General]
run_without_secure_secrets_service=true

[auth]
access_token={token}
device_id={device}
home_server={stage.synapse.url}
user_id={stage.account("alice")}

[user]
theme=light
""")
    env = {**os.environ, "DISPLAY": display, "QT_QUICK_BACKEND": "software", "XDG_RUNTIME_DIR": folder,
           **{f"XDG_{name}_HOME": f"{folder}/{name.lower()}" for name in ("CONFIG", "DATA", "CACHE")}}
    screen = subprocess.Popen(["Xvfb", display, "-screen", "0", f"{WIDTH}x{HEIGHT}x24", "-ac"])
    until(SOON, lambda: os.path.exists(f"/tmp/.X11-unix/X{display[1:]}"))
    windows = subprocess.Popen(["matchbox-window-manager", "-use_titlebar", "no"], env=env)
    client = subprocess.Popen(["nheko"], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def click(left, top):
        subprocess.run(["xdotool", "mousemove", str(left), str(top), "click", "1"], env=env, check=True)
        # The program does not say when it has drawn what follows.
        time.sleep(3)

    try:
        time.sleep(20)
        # It asks about keys first, and then warns that there are none. The newest room is the first one.
        click(WIDTH - 67, HEIGHT - 39)
        click(208, 66)
        click(120, 70)
        part = f"{WIDTH - LEFT}x{HEIGHT}+{LEFT}+0"
        subprocess.run(["import", "-window", "root", "-crop", part, "+repage", "+dither", "-colors", "64", f"png8:{picture}"], env=env, check=True)
    finally:
        for process in (client, windows, screen):
            process.kill()
            process.wait()


main(*sys.argv[1:])
