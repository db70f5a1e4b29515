"""A Synapse of its own on this machine's loopback, with one SQLite database and no federation."""

import hashlib
import hmac
import json
import os
import secrets
import subprocess
import sys

from checking import call, free_port, lines, parsed, until

# What no test reaches.
UNLIMITED = {"per_second": 100_000, "burst_count": 100_000}
LIMITS = {
    "rc_message": UNLIMITED,
    "rc_registration": UNLIMITED,
    "rc_login": {"address": UNLIMITED, "account": UNLIMITED, "failed_attempts": UNLIMITED},
    "rc_joins": {"local": UNLIMITED, "remote": UNLIMITED},
    "rc_room_creation": UNLIMITED,
    "rc_joins_per_room": UNLIMITED,
    "rc_invites": {"per_room": UNLIMITED, "per_user": UNLIMITED, "per_issuer": UNLIMITED},
    "rc_admin_redaction": UNLIMITED,
}


class Synapse:
    """The homeserver; its files are below `folder`."""

    name = "matrix.test"

    def __init__(self, folder):
        self.folder, self.port, self.process = folder, free_port(), None
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = f"{folder}/synapse.log"
        self.shared = secrets.token_hex(16)
        self.passwords = {}
        os.makedirs(folder)
        handler = {"class": "logging.FileHandler", "filename": self.log, "formatter": "plain"}
        logging = {
            "version": 1,
            "formatters": {"plain": {"format": "%(asctime)s %(levelname)s %(name)s %(message)s"}},
            "handlers": {"file": handler},
            "root": {"level": "WARNING", "handlers": ["file"]},
            "disable_existing_loggers": False,
        }
        resources = [{"names": ["client"], "compress": False}]
        config = {
            "server_name": self.name,
            "public_baseurl": self.url,
            "listeners": [{"port": self.port, "bind_addresses": ["127.0.0.1"], "type": "http", "resources": resources}],
            "database": {"name": "sqlite3", "args": {"database": f"{folder}/homeserver.db"}},
            "log_config": self.write("logging.yaml", logging),
            "media_store_path": f"{folder}/media",
            "signing_key_path": f"{folder}/signing.key",
            "registration_shared_secret": self.shared,
            "macaroon_secret_key": secrets.token_hex(16),
            "form_secret": secrets.token_hex(16),
            "federation_domain_whitelist": [],
            "trusted_key_servers": [],
            "report_stats": False,
            "enable_metrics": False,
            "presence": {"enabled": False},
            "enable_search": False,
            "user_directory": {"enabled": False},
            **LIMITS,
        }
        self.config = self.write("homeserver.yaml", config)

    def write(self, name, document):
        """JSON is YAML, too."""
        with open(f"{self.folder}/{name}", "w") as file:
            json.dump(document, file)
        return file.name

    def start(self):
        """Starts it and waits until it answers; whether it does."""
        with open(f"{self.folder}/output.txt", "a") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "synapse.app.homeserver", "--config-path", self.config],
                stdout=output, stderr=output, cwd=self.folder,
            )
        with open(f"{self.folder}/pid", "w") as file:
            file.write(str(self.process.pid))
        until(120, lambda: self.process.poll() is not None or self.version())
        return self.version()

    def version(self):
        """Its version if it answers."""
        status, body = call(self.port, None, "GET", "/_synapse/admin/v1/server_version", limit=10)
        return parsed(body).get("server_version") if status == 200 else None

    def stop(self):
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None
        os.remove(f"{self.folder}/pid")

    def restart(self):
        self.stop()
        return self.start()

    def register(self, name, is_admin=False):
        """Makes an account; its id and its token."""
        _, body = call(self.port, None, "GET", "/_synapse/admin/v1/register")
        nonce, password = parsed(body)["nonce"], secrets.token_hex(16)
        parts = [nonce, name, password, "admin" if is_admin else "notadmin"]
        mac = hmac.new(self.shared.encode(), "\0".join(parts).encode(), hashlib.sha1).hexdigest()
        wanted = {"nonce": nonce, "username": name, "password": password, "admin": is_admin, "mac": mac}
        status, body = call(self.port, None, "POST", "/_synapse/admin/v1/register", wanted)
        assert status == 200, (status, body, self.said())
        account = json.loads(body)
        self.passwords[account["user_id"]] = password
        return account["user_id"], account["access_token"]

    def log_in(self, user):
        """The token of another session of an account, by its password as people do.

        One that an administrator makes belongs to no device, so Synapse forgets at its next start what was sent with it.
        """
        identifier = {"type": "m.id.user", "user": user}
        wanted = {"type": "m.login.password", "identifier": identifier, "password": self.passwords[user]}
        status, body = call(self.port, None, "POST", "/_matrix/client/v3/login", wanted)
        assert status == 200, (status, body)
        return parsed(body)["access_token"]

    def log_out(self, token):
        """Ends the session of a token, which is worth nothing from then on."""
        status, body = call(self.port, token, "POST", "/_matrix/client/v3/logout", {})
        assert status == 200, (status, body)

    def limit(self, admin, user, messages_per_second):
        """Limits an account, or no longer with `None`; `admin` is an administrator's token."""
        path = f"/_synapse/admin/v1/users/{user}/override_ratelimit"
        if messages_per_second is None:
            return call(self.port, admin, "DELETE", path)[0] == 200
        wanted = {"messages_per_second": messages_per_second, "burst_count": messages_per_second}
        return call(self.port, admin, "POST", path, wanted)[0] == 200

    def highlights(self, token):
        """The ids of all messages that called an account by name."""
        _, body = call(self.port, token, "GET", "/_matrix/client/v3/notifications?only=highlight&limit=100")
        return [one["event"]["event_id"] for one in parsed(body).get("notifications", [])]

    def said(self):
        """The end of what it wrote, for a failure."""
        return "".join(lines(self.log)[-20:] + lines(f"{self.folder}/output.txt")[-20:])
