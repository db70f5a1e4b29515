"""The script of the agents in campaigns of faults: messages say by their first word what an agent does."""


def used(tool, **arguments):
    """The steps of an agent that uses a tool and says what it answered."""
    return [{"calls": [{"name": tool, "arguments": arguments}]}, {"say": "{{last_result}}"}]


def replies(mark, ran, vault, path, *more):
    """The replies of an agent. `mark` is the command in its sandbox, `ran` the file that commands on the host add to, and `path` the
    one in a vault that lines are added to."""
    line, host = "{{last_message}}\n", f"echo '{{{{last_message}}}}' >> {ran}"
    return [
        # What becomes of a request comes as a message with the command in it, and is nothing to be done.
        {"when": "Your request", "steps": [{"say": ""}]},
        # A word of these may end with one of those that follow, as "slow-command" does.
        *more,
        {"when": "command ", "steps": used("exec", command=mark)},
        {"when": "errand ", "steps": [{"say": "errand done", "delay_ms": 40}]},
        {"when": "note ", "steps": [{"say": "", "delay_ms": 60}]},
        {"when": "line ", "steps": used("flock_workspace_write", workspace=vault, path=path, content=line, append=True)},
        {"when": "host ", "steps": used("flock_sysadmin_request", kind="command", reason="it is needed", timeout=60, command=host)},
        {"steps": [{"say": ""}]},
    ]
