# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_flock_global_optspecs
    string join \n home= json q/quiet v/verbose color= y/yes h/help V/version
end

function __fish_flock_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_flock_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_flock_using_subcommand
    set -l cmd (__fish_flock_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c flock -n "__fish_flock_needs_command" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_needs_command" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_needs_command" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_needs_command" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_needs_command" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_needs_command" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_needs_command" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_needs_command" -s V -l version -d 'Print version'
complete -c flock -n "__fish_flock_needs_command" -f -a "init" -d 'Set up a home, or complete an unfinished one'
complete -c flock -n "__fish_flock_needs_command" -f -a "start" -d 'Start the gateway in the background and keep it running'
complete -c flock -n "__fish_flock_needs_command" -f -a "stop" -d 'Stop the gateway, its supervisor and the containers of this home'
complete -c flock -n "__fish_flock_needs_command" -f -a "restart" -d 'Restart the gateway and OpenClaw, or start them'
complete -c flock -n "__fish_flock_needs_command" -f -a "status" -d 'Show the state of the gateway, the agents and their sandboxes'
complete -c flock -n "__fish_flock_needs_command" -f -a "logs" -d 'Show the log of the gateway, of OpenClaw or of the supervisor'
complete -c flock -n "__fish_flock_needs_command" -f -a "service" -d 'Let the machine\'s service manager keep the gateway running'
complete -c flock -n "__fish_flock_needs_command" -f -a "add" -d 'Add an agent'
complete -c flock -n "__fish_flock_needs_command" -f -a "edit" -d 'Change an agent\'s settings'
complete -c flock -n "__fish_flock_needs_command" -f -a "remove" -d 'Remove an agent'
complete -c flock -n "__fish_flock_needs_command" -f -a "rm" -d 'Remove an agent'
complete -c flock -n "__fish_flock_needs_command" -f -a "rename" -d 'Change an agent\'s id'
complete -c flock -n "__fish_flock_needs_command" -f -a "list" -d 'List the agents'
complete -c flock -n "__fish_flock_needs_command" -f -a "ls" -d 'List the agents'
complete -c flock -n "__fish_flock_needs_command" -f -a "tasks" -d 'List the tasks that agents were given, with their states'
complete -c flock -n "__fish_flock_needs_command" -f -a "config" -d 'Show, change or check the configuration'
complete -c flock -n "__fish_flock_needs_command" -f -a "nix" -d 'Manage agents\' packages in the shared store'
complete -c flock -n "__fish_flock_needs_command" -f -a "engine" -d 'Use more container engines than the machine\'s own'
complete -c flock -n "__fish_flock_needs_command" -f -a "update" -d 'Update OpenClaw or flock itself, or go back to the previous version'
complete -c flock -n "__fish_flock_needs_command" -f -a "generations" -d 'List the generations of this home, or show one'
complete -c flock -n "__fish_flock_needs_command" -f -a "rollback" -d 'Go back to an earlier generation of this home'
complete -c flock -n "__fish_flock_needs_command" -f -a "approvals" -d 'Show, approve, answer, deny and revoke the requests of agents'
complete -c flock -n "__fish_flock_needs_command" -f -a "token" -d 'Make, list and revoke the tokens of clients'
complete -c flock -n "__fish_flock_needs_command" -f -a "bridge" -d 'Let people join channels from other platforms'
complete -c flock -n "__fish_flock_needs_command" -f -a "mcp" -d 'Give agents the tools of MCP servers'
complete -c flock -n "__fish_flock_needs_command" -f -a "skill" -d 'Import skills, and see what they contain'
complete -c flock -n "__fish_flock_needs_command" -f -a "project" -d 'Let agents work on a git repository'
complete -c flock -n "__fish_flock_needs_command" -f -a "person" -d 'Add people with rights of their own, and manage those who come from other platforms'
complete -c flock -n "__fish_flock_needs_command" -f -a "freeze" -d 'Freeze an agent, or all of them'
complete -c flock -n "__fish_flock_needs_command" -f -a "thaw" -d 'Thaw a frozen agent, or all of them'
complete -c flock -n "__fish_flock_needs_command" -f -a "resume" -d 'Try a used-up quota now, before its time'
complete -c flock -n "__fish_flock_needs_command" -f -a "checkpoint" -d 'Make a checkpoint of an agent'
complete -c flock -n "__fish_flock_needs_command" -f -a "checkpoints" -d 'List the checkpoints of an agent, newest first'
complete -c flock -n "__fish_flock_needs_command" -f -a "rewind" -d 'Set an agent back to a checkpoint'
complete -c flock -n "__fish_flock_needs_command" -f -a "fork" -d 'Make a second agent, or a second channel with its team, that goes on from where the first one is'
complete -c flock -n "__fish_flock_needs_command" -f -a "race" -d 'Let several copies of a channel\'s team work on the same task, and merge the best result'
complete -c flock -n "__fish_flock_needs_command" -f -a "schedule" -d 'Give a text to a channel or an agent at certain times'
complete -c flock -n "__fish_flock_needs_command" -f -a "hook" -d 'Let other services send to a channel by webhooks'
complete -c flock -n "__fish_flock_needs_command" -f -a "usage" -d 'Show the usage of models and its cost'
complete -c flock -n "__fish_flock_needs_command" -f -a "audit" -d 'Show the audit, or verify that it is intact'
complete -c flock -n "__fish_flock_needs_command" -f -a "search" -d 'Search memory, findings, transcripts, vaults and channels'
complete -c flock -n "__fish_flock_needs_command" -f -a "receipt" -d 'Show, export and check receipts of delivered work'
complete -c flock -n "__fish_flock_needs_command" -f -a "verify" -d 'Check a receipt, and run its checks again'
complete -c flock -n "__fish_flock_needs_command" -f -a "doctor" -d 'Find problems, and show how to fix them'
complete -c flock -n "__fish_flock_needs_command" -f -a "backup" -d 'Back up the whole home into one file, or verify a backup'
complete -c flock -n "__fish_flock_needs_command" -f -a "restore" -d 'Restore a home from a backup, or a damaged database from its newest intact copy'
complete -c flock -n "__fish_flock_needs_command" -f -a "home" -d 'Move the home\'s database to a server of PostgreSQL, or back into a file'
complete -c flock -n "__fish_flock_needs_command" -f -a "storage" -d 'Keep checkpoints, conversations and vaults in a second place, and bring them back'
complete -c flock -n "__fish_flock_needs_command" -f -a "uninstall" -d 'Remove flock from this machine, or OpenClaw from the home'
complete -c flock -n "__fish_flock_needs_command" -f -a "completions" -d 'Print a completion script for a shell'
complete -c flock -n "__fish_flock_needs_command" -f -a "chat" -d 'Talk with an agent'
complete -c flock -n "__fish_flock_needs_command" -f -a "acp" -d 'Connect an editor to an agent or a channel'
complete -c flock -n "__fish_flock_needs_command" -f -a "dashboard" -d 'Open the dashboard in a browser'
complete -c flock -n "__fish_flock_needs_command" -f -a "top" -d 'Watch the team on the terminal, as it works'
complete -c flock -n "__fish_flock_needs_command" -f -a "channel" -d 'Read, write and manage channels'
complete -c flock -n "__fish_flock_needs_command" -f -a "session" -d 'Show, compact, reset, export and import the sessions of agents'
complete -c flock -n "__fish_flock_needs_command" -f -a "prompt" -d 'Show what is sent to a model'
complete -c flock -n "__fish_flock_needs_command" -f -a "replay" -d 'Play a recorded session again, and show what the present code would send'
complete -c flock -n "__fish_flock_needs_command" -f -a "sim" -d 'Show what a team of this size would cost on a project, and where its agents would wait for each other'
complete -c flock -n "__fish_flock_needs_command" -f -a "gateway" -d 'Have several gateways use one database, and share its agents'
complete -c flock -n "__fish_flock_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c flock -n "__fish_flock_using_subcommand init" -l model -d 'Default model of the agents, as in anthropic/claude-opus-4-5' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand init" -l token-file -d 'File with the owner\'s token for the HTTP API, or "-" for stdin' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand init" -l port -d 'Port of the gateway on 127.0.0.1 [default: 3779, or the next free port]' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand init" -l gateway -d 'Gateway to set up' -r -f -a "native\t'Only flock\'s own gateway, which is part of this program'
openclaw\t'OpenClaw as well, which is cloned and built here'"
complete -c flock -n "__fish_flock_using_subcommand init" -l repo -d 'Repository to clone OpenClaw from: an https, ssh or file URL, user@host:path, or a path' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand init" -l ref -d 'Branch, tag or commit of OpenClaw; updates follow only a branch' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand init" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand init" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand init" -l no-images -d 'Do not make the images and the package store; the first `flock add` or another `flock init` makes them'
complete -c flock -n "__fish_flock_using_subcommand init" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand init" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand init" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand init" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand init" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand start" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand start" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand start" -l foreground -d 'Run in the foreground, for a service manager'
complete -c flock -n "__fish_flock_using_subcommand start" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand start" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand start" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand start" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand start" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand stop" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand stop" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand stop" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand stop" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand stop" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand stop" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand stop" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand restart" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand restart" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand restart" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand restart" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand restart" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand restart" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand restart" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand status" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand status" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand status" -l probe -d 'Probe every sandbox now, from inside'
complete -c flock -n "__fish_flock_using_subcommand status" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand status" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand status" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand status" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand status" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand logs" -s n -l lines -d 'Number of lines to show, from the end of the log' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand logs" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand logs" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand logs" -s f -l follow -d 'Print new lines as they are written, also after a rotation'
complete -c flock -n "__fish_flock_using_subcommand logs" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand logs" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand logs" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand logs" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand logs" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand service; and not __fish_seen_subcommand_from install remove help" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand service; and not __fish_seen_subcommand_from install remove help" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand service; and not __fish_seen_subcommand_from install remove help" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand service; and not __fish_seen_subcommand_from install remove help" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand service; and not __fish_seen_subcommand_from install remove help" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand service; and not __fish_seen_subcommand_from install remove help" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand service; and not __fish_seen_subcommand_from install remove help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand service; and not __fish_seen_subcommand_from install remove help" -f -a "install" -d 'Write the unit file of the service, and start the service'
complete -c flock -n "__fish_flock_using_subcommand service; and not __fish_seen_subcommand_from install remove help" -f -a "remove" -d 'Stop the service, and remove its unit file'
complete -c flock -n "__fish_flock_using_subcommand service; and not __fish_seen_subcommand_from install remove help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c flock -n "__fish_flock_using_subcommand service; and __fish_seen_subcommand_from install" -l root -d 'Only write or remove the unit file, below this folder, and start or stop nothing' -r -F
complete -c flock -n "__fish_flock_using_subcommand service; and __fish_seen_subcommand_from install" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand service; and __fish_seen_subcommand_from install" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand service; and __fish_seen_subcommand_from install" -l system -d 'Use a service of the system, even if you are not root'
complete -c flock -n "__fish_flock_using_subcommand service; and __fish_seen_subcommand_from install" -l user -d 'Use a service of the user, even if you are root'
complete -c flock -n "__fish_flock_using_subcommand service; and __fish_seen_subcommand_from install" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand service; and __fish_seen_subcommand_from install" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand service; and __fish_seen_subcommand_from install" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand service; and __fish_seen_subcommand_from install" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand service; and __fish_seen_subcommand_from install" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand service; and __fish_seen_subcommand_from remove" -l root -d 'Only write or remove the unit file, below this folder, and start or stop nothing' -r -F
complete -c flock -n "__fish_flock_using_subcommand service; and __fish_seen_subcommand_from remove" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand service; and __fish_seen_subcommand_from remove" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand service; and __fish_seen_subcommand_from remove" -l system -d 'Use a service of the system, even if you are not root'
complete -c flock -n "__fish_flock_using_subcommand service; and __fish_seen_subcommand_from remove" -l user -d 'Use a service of the user, even if you are root'
complete -c flock -n "__fish_flock_using_subcommand service; and __fish_seen_subcommand_from remove" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand service; and __fish_seen_subcommand_from remove" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand service; and __fish_seen_subcommand_from remove" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand service; and __fish_seen_subcommand_from remove" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand service; and __fish_seen_subcommand_from remove" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand service; and __fish_seen_subcommand_from help" -f -a "install" -d 'Write the unit file of the service, and start the service'
complete -c flock -n "__fish_flock_using_subcommand service; and __fish_seen_subcommand_from help" -f -a "remove" -d 'Stop the service, and remove its unit file'
complete -c flock -n "__fish_flock_using_subcommand service; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c flock -n "__fish_flock_using_subcommand add" -l role -d 'Role in the team' -r -f -a "orchestrator\t'Represents the owner: creates channels and assigns members'
sysadmin\t'Maintains the machine and has no sandbox'
worker\t'Does the work'"
complete -c flock -n "__fish_flock_using_subcommand add" -l model -d 'Model of the agent [default: the home\'s default model]' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand add" -l archetype -d 'Archetype, which says what the agent is good at' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand add" -l runtime -d 'Program that runs the agent\'s turns: flock itself (native), OpenClaw if it is installed, or an installed agent program' -r -f -a "native\t''
openclaw\t''
claude\t''
codex\t''
gemini\t''
opencode\t''"
complete -c flock -n "__fish_flock_using_subcommand add" -l effort -d 'Thinking effort of the agent\'s model [default: left to the provider]' -r -f -a "off\t'No thinking, or the lowest level of the model'
low\t'Little thinking'
medium\t'The usual amount of thinking'
high\t'Much thinking'"
complete -c flock -n "__fish_flock_using_subcommand add" -l packages -d 'Packages to install for the agent, by their names in nixpkgs, separated by commas' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand add" -l network -d 'Network of the agent\'s sandbox [default: none, or proxy with --egress]' -r -f -a "none\t'No network'
proxy\t'Only the allowed hosts, through the gateway'"
complete -c flock -n "__fish_flock_using_subcommand add" -l egress -d 'Host that the sandbox may reach, or "*.HOST" for all hosts below it' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand add" -l labels -d 'Labels that the engine of the sandbox must have, separated by commas' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand add" -l memory -d 'Memory limit of the container, as in 2g [default: the home\'s default, else 2g]' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand add" -l cpus -d 'Core limit of the container, as in 1.5 [default: the home\'s default, else 2]' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand add" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand add" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand add" -l on-host -d 'Run the agent program on this machine itself, with your rights, instead of in the container'
complete -c flock -n "__fish_flock_using_subcommand add" -l no-container -d 'Do not make the container now; the agent\'s first command makes it'
complete -c flock -n "__fish_flock_using_subcommand add" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand add" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand add" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand add" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand add" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand edit" -l role -d 'Role in the team; a sysadmin has no sandbox' -r -f -a "orchestrator\t'Represents the owner: creates channels and assigns members'
sysadmin\t'Maintains the machine and has no sandbox'
worker\t'Does the work'"
complete -c flock -n "__fish_flock_using_subcommand edit" -l archetype -d 'Archetype, which says what the agent is good at, or "none"' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand edit" -l runtime -d 'Program that runs the agent\'s turns: flock itself (native), OpenClaw if it is installed, or an installed agent program' -r -f -a "native\t''
openclaw\t''
claude\t''
codex\t''
gemini\t''
opencode\t''"
complete -c flock -n "__fish_flock_using_subcommand edit" -l model -d 'Model of the agent, or "default" for the home\'s default model' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand edit" -l effort -d 'Thinking effort of the agent\'s model, or "default" to leave it to the provider' -r -f -a "off\t''
low\t''
medium\t''
high\t''
default\t''"
complete -c flock -n "__fish_flock_using_subcommand edit" -l autonomy -d 'Autonomy of the agent: what it may do without asking' -r -f -a "readonly\t'Reads, and changes nothing'
supervised\t'Works in its sandbox, and asks before anything outside'
full\t'Works like supervised, but is not told to ask'"
complete -c flock -n "__fish_flock_using_subcommand edit" -l memory -d 'Memory limit of the container, as in 2g, or "default"' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand edit" -l cpus -d 'Core limit of the container, as in 1.5, or "default"' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand edit" -l disk -d 'Disk limit of the workspace, as in 20g, "none" for no limit, or "default"' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand edit" -l network -d 'Network of the agent\'s sandbox' -r -f -a "none\t'No network'
proxy\t'Only the allowed hosts, through the gateway'"
complete -c flock -n "__fish_flock_using_subcommand edit" -l egress -d 'Host that the sandbox may reach, or "*.HOST" for all hosts below it' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand edit" -l budget-tokens -d 'Tokens that the agent may use in one day, or "default" for the limit that holds for all agents' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand edit" -l budget-usd -d 'Dollars that the agent may use in one day, or "default" for the limit that holds for all agents' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand edit" -l id -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand edit" -l workspace -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand edit" -l packages -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand edit" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand edit" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand edit" -l on-host -d 'Run the agent program on this machine itself, with your rights, instead of in the container'
complete -c flock -n "__fish_flock_using_subcommand edit" -l no-on-host -d 'Run the agent program in the container again'
complete -c flock -n "__fish_flock_using_subcommand edit" -l no-egress -d 'Remove all hosts that the sandbox may reach'
complete -c flock -n "__fish_flock_using_subcommand edit" -l dry-run -d 'Show what would change, and change nothing'
complete -c flock -n "__fish_flock_using_subcommand edit" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand edit" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand edit" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand edit" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand edit" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand remove" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand remove" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand remove" -l purge -d 'Also delete the workspace and the transcripts, after a confirmation'
complete -c flock -n "__fish_flock_using_subcommand remove" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand remove" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand remove" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand remove" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand remove" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand rm" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand rm" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand rm" -l purge -d 'Also delete the workspace and the transcripts, after a confirmation'
complete -c flock -n "__fish_flock_using_subcommand rm" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand rm" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand rm" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand rm" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand rm" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand rename" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand rename" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand rename" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand rename" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand rename" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand rename" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand rename" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand list" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand list" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand list" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand list" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand list" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand list" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand list" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand ls" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand ls" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand ls" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand ls" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand ls" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand ls" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand ls" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand tasks" -l agent -d 'Show only tasks that this agent gave or was given' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand tasks" -l state -d 'Show only tasks in this state' -r -f -a "submitted\t''
working\t''
input-required\t''
completed\t''
failed\t''
canceled\t''
rejected\t''"
complete -c flock -n "__fish_flock_using_subcommand tasks" -l limit -d 'Number of tasks to show, newest first' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand tasks" -l cancel -d 'Cancel this task, and stop the turn that works on it' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand tasks" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand tasks" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand tasks" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand tasks" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand tasks" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand tasks" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand tasks" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand config; and not __fish_seen_subcommand_from get set unset validate help" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand config; and not __fish_seen_subcommand_from get set unset validate help" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand config; and not __fish_seen_subcommand_from get set unset validate help" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand config; and not __fish_seen_subcommand_from get set unset validate help" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand config; and not __fish_seen_subcommand_from get set unset validate help" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand config; and not __fish_seen_subcommand_from get set unset validate help" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand config; and not __fish_seen_subcommand_from get set unset validate help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand config; and not __fish_seen_subcommand_from get set unset validate help" -f -a "get" -d 'Print the configuration, or one value of it'
complete -c flock -n "__fish_flock_using_subcommand config; and not __fish_seen_subcommand_from get set unset validate help" -f -a "set" -d 'Change one value'
complete -c flock -n "__fish_flock_using_subcommand config; and not __fish_seen_subcommand_from get set unset validate help" -f -a "unset" -d 'Remove one value'
complete -c flock -n "__fish_flock_using_subcommand config; and not __fish_seen_subcommand_from get set unset validate help" -f -a "validate" -d 'Check that the configuration can be used'
complete -c flock -n "__fish_flock_using_subcommand config; and not __fish_seen_subcommand_from get set unset validate help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c flock -n "__fish_flock_using_subcommand config; and __fish_seen_subcommand_from get" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand config; and __fish_seen_subcommand_from get" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand config; and __fish_seen_subcommand_from get" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand config; and __fish_seen_subcommand_from get" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand config; and __fish_seen_subcommand_from get" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand config; and __fish_seen_subcommand_from get" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand config; and __fish_seen_subcommand_from get" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand config; and __fish_seen_subcommand_from set" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand config; and __fish_seen_subcommand_from set" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand config; and __fish_seen_subcommand_from set" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand config; and __fish_seen_subcommand_from set" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand config; and __fish_seen_subcommand_from set" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand config; and __fish_seen_subcommand_from set" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand config; and __fish_seen_subcommand_from set" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand config; and __fish_seen_subcommand_from unset" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand config; and __fish_seen_subcommand_from unset" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand config; and __fish_seen_subcommand_from unset" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand config; and __fish_seen_subcommand_from unset" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand config; and __fish_seen_subcommand_from unset" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand config; and __fish_seen_subcommand_from unset" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand config; and __fish_seen_subcommand_from unset" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand config; and __fish_seen_subcommand_from validate" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand config; and __fish_seen_subcommand_from validate" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand config; and __fish_seen_subcommand_from validate" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand config; and __fish_seen_subcommand_from validate" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand config; and __fish_seen_subcommand_from validate" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand config; and __fish_seen_subcommand_from validate" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand config; and __fish_seen_subcommand_from validate" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand config; and __fish_seen_subcommand_from help" -f -a "get" -d 'Print the configuration, or one value of it'
complete -c flock -n "__fish_flock_using_subcommand config; and __fish_seen_subcommand_from help" -f -a "set" -d 'Change one value'
complete -c flock -n "__fish_flock_using_subcommand config; and __fish_seen_subcommand_from help" -f -a "unset" -d 'Remove one value'
complete -c flock -n "__fish_flock_using_subcommand config; and __fish_seen_subcommand_from help" -f -a "validate" -d 'Check that the configuration can be used'
complete -c flock -n "__fish_flock_using_subcommand config; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c flock -n "__fish_flock_using_subcommand nix; and not __fish_seen_subcommand_from install remove list gc pin rollback help" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand nix; and not __fish_seen_subcommand_from install remove list gc pin rollback help" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand nix; and not __fish_seen_subcommand_from install remove list gc pin rollback help" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand nix; and not __fish_seen_subcommand_from install remove list gc pin rollback help" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand nix; and not __fish_seen_subcommand_from install remove list gc pin rollback help" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand nix; and not __fish_seen_subcommand_from install remove list gc pin rollback help" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand nix; and not __fish_seen_subcommand_from install remove list gc pin rollback help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand nix; and not __fish_seen_subcommand_from install remove list gc pin rollback help" -f -a "install" -d 'Install packages for an agent'
complete -c flock -n "__fish_flock_using_subcommand nix; and not __fish_seen_subcommand_from install remove list gc pin rollback help" -f -a "remove" -d 'Remove packages from an agent'
complete -c flock -n "__fish_flock_using_subcommand nix; and not __fish_seen_subcommand_from install remove list gc pin rollback help" -f -a "list" -d 'List the installed packages'
complete -c flock -n "__fish_flock_using_subcommand nix; and not __fish_seen_subcommand_from install remove list gc pin rollback help" -f -a "gc" -d 'Delete packages that no agent needs from the store'
complete -c flock -n "__fish_flock_using_subcommand nix; and not __fish_seen_subcommand_from install remove list gc pin rollback help" -f -a "pin" -d 'Show the pin of the package set, or move it'
complete -c flock -n "__fish_flock_using_subcommand nix; and not __fish_seen_subcommand_from install remove list gc pin rollback help" -f -a "rollback" -d 'Undo the last change of an agent\'s packages'
complete -c flock -n "__fish_flock_using_subcommand nix; and not __fish_seen_subcommand_from install remove list gc pin rollback help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from install" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from install" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from install" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from install" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from install" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from install" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from install" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from remove" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from remove" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from remove" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from remove" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from remove" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from remove" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from remove" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from list" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from list" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from list" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from list" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from list" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from list" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from gc" -l keep-days -d 'Also delete generations of profiles that were replaced more than this many days ago' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from gc" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from gc" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from gc" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from gc" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from gc" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from gc" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from gc" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from pin" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from pin" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from pin" -l update -d 'Pin the package set to what its flake refers to now'
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from pin" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from pin" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from pin" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from pin" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from pin" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from rollback" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from rollback" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from rollback" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from rollback" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from rollback" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from rollback" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from rollback" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from help" -f -a "install" -d 'Install packages for an agent'
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from help" -f -a "remove" -d 'Remove packages from an agent'
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from help" -f -a "list" -d 'List the installed packages'
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from help" -f -a "gc" -d 'Delete packages that no agent needs from the store'
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from help" -f -a "pin" -d 'Show the pin of the package set, or move it'
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from help" -f -a "rollback" -d 'Undo the last change of an agent\'s packages'
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c flock -n "__fish_flock_using_subcommand engine; and not __fish_seen_subcommand_from add list ls show drain renew image remove rm help" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand engine; and not __fish_seen_subcommand_from add list ls show drain renew image remove rm help" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand engine; and not __fish_seen_subcommand_from add list ls show drain renew image remove rm help" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand engine; and not __fish_seen_subcommand_from add list ls show drain renew image remove rm help" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand engine; and not __fish_seen_subcommand_from add list ls show drain renew image remove rm help" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand engine; and not __fish_seen_subcommand_from add list ls show drain renew image remove rm help" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand engine; and not __fish_seen_subcommand_from add list ls show drain renew image remove rm help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand engine; and not __fish_seen_subcommand_from add list ls show drain renew image remove rm help" -f -a "add" -d 'Add an engine after it was checked'
complete -c flock -n "__fish_flock_using_subcommand engine; and not __fish_seen_subcommand_from add list ls show drain renew image remove rm help" -f -a "list" -d 'List the engines with their agents'
complete -c flock -n "__fish_flock_using_subcommand engine; and not __fish_seen_subcommand_from add list ls show drain renew image remove rm help" -f -a "ls" -d 'List the engines with their agents'
complete -c flock -n "__fish_flock_using_subcommand engine; and not __fish_seen_subcommand_from add list ls show drain renew image remove rm help" -f -a "show" -d 'Show an engine'
complete -c flock -n "__fish_flock_using_subcommand engine; and not __fish_seen_subcommand_from add list ls show drain renew image remove rm help" -f -a "drain" -d 'Move the agents of an engine to others, each when its turn has ended'
complete -c flock -n "__fish_flock_using_subcommand engine; and not __fish_seen_subcommand_from add list ls show drain renew image remove rm help" -f -a "renew" -d 'Replace the certificates of an engine with TLS, or the access to a cluster'
complete -c flock -n "__fish_flock_using_subcommand engine; and not __fish_seen_subcommand_from add list ls show drain renew image remove rm help" -f -a "image" -d 'Make the image of the sandboxes in a Kubernetes cluster'
complete -c flock -n "__fish_flock_using_subcommand engine; and not __fish_seen_subcommand_from add list ls show drain renew image remove rm help" -f -a "remove" -d 'Remove an engine with all that this home has in it'
complete -c flock -n "__fish_flock_using_subcommand engine; and not __fish_seen_subcommand_from add list ls show drain renew image remove rm help" -f -a "rm" -d 'Remove an engine with all that this home has in it'
complete -c flock -n "__fish_flock_using_subcommand engine; and not __fish_seen_subcommand_from add list ls show drain renew image remove rm help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from add" -l ca -d 'PEM file with the certificate of the authority that has signed the engine\'s, for a tcp:// address' -r -F
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from add" -l cert -d 'PEM file with the certificate by which the engine knows this home, for a tcp:// address' -r -F
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from add" -l key -d 'PEM file with the key of that certificate; it is copied to the home\'s secrets' -r -F
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from add" -l image -d 'Image of the sandboxes in a cluster, which `flock engine image` makes, for a k8s:// address' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from add" -l storage -d 'Size of the volume of each workspace, for a k8s:// address [default: 10g]' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from add" -l storage-class -d 'Storage class of these volumes [default: the cluster\'s]' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from add" -l kubeconfig -d 'Kubeconfig with the context of a k8s:// address, or - for one in JSON on standard input [default: that of kubectl]' -r -F
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from add" -l runtime -d 'OCI runtime of agents that name none [default: the engine\'s]' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from add" -l labels -d 'Labels that agents can ask for, separated by commas' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from add" -l memory -d 'Memory that the limits of its agents may add up to, as in 16g [default: no limit]' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from add" -l lost-after -d 'Silence after which its agents are placed on other engines, as in 30m; for another machine only [default: never]' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from add" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from add" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from add" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from add" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from add" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from add" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from add" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from list" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from list" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from list" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from list" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from list" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from list" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from ls" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from ls" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from ls" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from ls" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from ls" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from ls" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from ls" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from show" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from show" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from show" -l check -d 'Check it now, with a sandbox that is made in it'
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from show" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from show" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from show" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from show" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from drain" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from drain" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from drain" -l stop -d 'End the draining; agents that have moved stay where they are'
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from drain" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from drain" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from drain" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from drain" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from drain" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from renew" -l ca -d 'PEM file with the certificate of the authority that has signed the engine\'s, for a tcp:// address' -r -F
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from renew" -l cert -d 'PEM file with the certificate by which the engine knows this home, for a tcp:// address' -r -F
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from renew" -l key -d 'PEM file with the key of that certificate; it is copied to the home\'s secrets' -r -F
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from renew" -l kubeconfig -d 'Kubeconfig with the context of a k8s:// address, or - for one in JSON on standard input [default: that of kubectl]' -r -F
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from renew" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from renew" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from renew" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from renew" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from renew" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from renew" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from renew" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from image" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from image" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from image" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from image" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from image" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from image" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from image" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from remove" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from remove" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from remove" -l force -d 'Remove it although it has agents, which are placed anew, or does not answer'
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from remove" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from remove" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from remove" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from remove" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from remove" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from rm" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from rm" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from rm" -l force -d 'Remove it although it has agents, which are placed anew, or does not answer'
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from rm" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from rm" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from rm" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from rm" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from rm" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from help" -f -a "add" -d 'Add an engine after it was checked'
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from help" -f -a "list" -d 'List the engines with their agents'
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from help" -f -a "show" -d 'Show an engine'
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from help" -f -a "drain" -d 'Move the agents of an engine to others, each when its turn has ended'
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from help" -f -a "renew" -d 'Replace the certificates of an engine with TLS, or the access to a cluster'
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from help" -f -a "image" -d 'Make the image of the sandboxes in a Kubernetes cluster'
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from help" -f -a "remove" -d 'Remove an engine with all that this home has in it'
complete -c flock -n "__fish_flock_using_subcommand engine; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c flock -n "__fish_flock_using_subcommand update" -l ref -d 'Branch, tag or commit to update to; updates follow only a branch' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand update" -l from -d 'Repository or folder with flock\'s source [default: the last one given]' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand update" -l program -d 'File to write the new program to [default: the running program]' -r -F
complete -c flock -n "__fish_flock_using_subcommand update" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand update" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand update" -l check -d 'Look for a newer version, and change nothing'
complete -c flock -n "__fish_flock_using_subcommand update" -l retry -d 'Also try a commit that failed here or that was rolled back'
complete -c flock -n "__fish_flock_using_subcommand update" -l rollback -d 'Go back to the previous version'
complete -c flock -n "__fish_flock_using_subcommand update" -l self -d 'Update flock\'s own program instead of OpenClaw'
complete -c flock -n "__fish_flock_using_subcommand update" -l unencrypted -d 'Accept an http or git address, although it is not encrypted'
complete -c flock -n "__fish_flock_using_subcommand update" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand update" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand update" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand update" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand update" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand generations; and not __fish_seen_subcommand_from show help" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand generations; and not __fish_seen_subcommand_from show help" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand generations; and not __fish_seen_subcommand_from show help" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand generations; and not __fish_seen_subcommand_from show help" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand generations; and not __fish_seen_subcommand_from show help" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand generations; and not __fish_seen_subcommand_from show help" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand generations; and not __fish_seen_subcommand_from show help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand generations; and not __fish_seen_subcommand_from show help" -f -a "show" -d 'Show a generation, and how it differs from the one before'
complete -c flock -n "__fish_flock_using_subcommand generations; and not __fish_seen_subcommand_from show help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c flock -n "__fish_flock_using_subcommand generations; and __fish_seen_subcommand_from show" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand generations; and __fish_seen_subcommand_from show" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand generations; and __fish_seen_subcommand_from show" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand generations; and __fish_seen_subcommand_from show" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand generations; and __fish_seen_subcommand_from show" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand generations; and __fish_seen_subcommand_from show" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand generations; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand generations; and __fish_seen_subcommand_from help" -f -a "show" -d 'Show a generation, and how it differs from the one before'
complete -c flock -n "__fish_flock_using_subcommand generations; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c flock -n "__fish_flock_using_subcommand rollback" -l only -d 'Parts to change [default: all]' -r -f -a "config\t'The configuration, with agents and policy'
packages\t'The packages of agents'
images\t'The images of sandboxes and of the package store'
openclaw\t'The version of OpenClaw'
program\t'flock\'s own program, with the database that it reads'"
complete -c flock -n "__fish_flock_using_subcommand rollback" -l program -d 'File of flock\'s own program [default: the running program]' -r -F
complete -c flock -n "__fish_flock_using_subcommand rollback" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand rollback" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand rollback" -l dry-run -d 'Show what would change, and change nothing'
complete -c flock -n "__fish_flock_using_subcommand rollback" -l restore-backup -d 'Replace the database by its backup if the earlier program can\'t read it'
complete -c flock -n "__fish_flock_using_subcommand rollback" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand rollback" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand rollback" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand rollback" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand rollback" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand approvals; and not __fish_seen_subcommand_from list show approve answer deny revoke help" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand approvals; and not __fish_seen_subcommand_from list show approve answer deny revoke help" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand approvals; and not __fish_seen_subcommand_from list show approve answer deny revoke help" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand approvals; and not __fish_seen_subcommand_from list show approve answer deny revoke help" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand approvals; and not __fish_seen_subcommand_from list show approve answer deny revoke help" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand approvals; and not __fish_seen_subcommand_from list show approve answer deny revoke help" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand approvals; and not __fish_seen_subcommand_from list show approve answer deny revoke help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand approvals; and not __fish_seen_subcommand_from list show approve answer deny revoke help" -f -a "list" -d 'List the open requests'
complete -c flock -n "__fish_flock_using_subcommand approvals; and not __fish_seen_subcommand_from list show approve answer deny revoke help" -f -a "show" -d 'Show one request: the exact action, the agent and the reason'
complete -c flock -n "__fish_flock_using_subcommand approvals; and not __fish_seen_subcommand_from list show approve answer deny revoke help" -f -a "approve" -d 'Approve a request, or restore a revoked grant'
complete -c flock -n "__fish_flock_using_subcommand approvals; and not __fish_seen_subcommand_from list show approve answer deny revoke help" -f -a "answer" -d 'Answer the question of an MCP server'
complete -c flock -n "__fish_flock_using_subcommand approvals; and not __fish_seen_subcommand_from list show approve answer deny revoke help" -f -a "deny" -d 'Deny a request, or withdraw an approval that has had no effect yet'
complete -c flock -n "__fish_flock_using_subcommand approvals; and not __fish_seen_subcommand_from list show approve answer deny revoke help" -f -a "revoke" -d 'Revoke what a request granted: a host, a folder or a package'
complete -c flock -n "__fish_flock_using_subcommand approvals; and not __fish_seen_subcommand_from list show approve answer deny revoke help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from list" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from list" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from list" -l all -d 'Also list closed requests'
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from list" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from list" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from list" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from list" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from show" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from show" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from show" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from show" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from show" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from show" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from approve" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from approve" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from approve" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from approve" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from approve" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from approve" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from approve" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from answer" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from answer" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from answer" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from answer" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from answer" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from answer" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from answer" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from deny" -l reason -d 'Reason, which the agent is told' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from deny" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from deny" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from deny" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from deny" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from deny" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from deny" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from deny" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from revoke" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from revoke" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from revoke" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from revoke" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from revoke" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from revoke" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from revoke" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from help" -f -a "list" -d 'List the open requests'
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from help" -f -a "show" -d 'Show one request: the exact action, the agent and the reason'
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from help" -f -a "approve" -d 'Approve a request, or restore a revoked grant'
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from help" -f -a "answer" -d 'Answer the question of an MCP server'
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from help" -f -a "deny" -d 'Deny a request, or withdraw an approval that has had no effect yet'
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from help" -f -a "revoke" -d 'Revoke what a request granted: a host, a folder or a package'
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c flock -n "__fish_flock_using_subcommand token; and not __fish_seen_subcommand_from add list revoke help" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand token; and not __fish_seen_subcommand_from add list revoke help" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand token; and not __fish_seen_subcommand_from add list revoke help" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand token; and not __fish_seen_subcommand_from add list revoke help" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand token; and not __fish_seen_subcommand_from add list revoke help" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand token; and not __fish_seen_subcommand_from add list revoke help" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand token; and not __fish_seen_subcommand_from add list revoke help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand token; and not __fish_seen_subcommand_from add list revoke help" -f -a "add" -d 'Make a token and print it'
complete -c flock -n "__fish_flock_using_subcommand token; and not __fish_seen_subcommand_from add list revoke help" -f -a "list" -d 'List the tokens with their rights, agents and expiry times'
complete -c flock -n "__fish_flock_using_subcommand token; and not __fish_seen_subcommand_from add list revoke help" -f -a "revoke" -d 'Revoke a token and end the streams that it opened'
complete -c flock -n "__fish_flock_using_subcommand token; and not __fish_seen_subcommand_from add list revoke help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c flock -n "__fish_flock_using_subcommand token; and __fish_seen_subcommand_from add" -l agents -d 'Agents that the client may see and ask, separated by commas, or "all"' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand token; and __fish_seen_subcommand_from add" -l rights -d 'Rights of the client, separated by commas' -r -f -a "chat\t''
a2a\t''
read\t''
approve\t''"
complete -c flock -n "__fish_flock_using_subcommand token; and __fish_seen_subcommand_from add" -l expires -d 'Time until the token expires, in m, h, d or w, as in 12h or 30d [default: never]' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand token; and __fish_seen_subcommand_from add" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand token; and __fish_seen_subcommand_from add" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand token; and __fish_seen_subcommand_from add" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand token; and __fish_seen_subcommand_from add" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand token; and __fish_seen_subcommand_from add" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand token; and __fish_seen_subcommand_from add" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand token; and __fish_seen_subcommand_from add" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand token; and __fish_seen_subcommand_from list" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand token; and __fish_seen_subcommand_from list" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand token; and __fish_seen_subcommand_from list" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand token; and __fish_seen_subcommand_from list" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand token; and __fish_seen_subcommand_from list" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand token; and __fish_seen_subcommand_from list" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand token; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand token; and __fish_seen_subcommand_from revoke" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand token; and __fish_seen_subcommand_from revoke" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand token; and __fish_seen_subcommand_from revoke" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand token; and __fish_seen_subcommand_from revoke" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand token; and __fish_seen_subcommand_from revoke" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand token; and __fish_seen_subcommand_from revoke" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand token; and __fish_seen_subcommand_from revoke" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand token; and __fish_seen_subcommand_from help" -f -a "add" -d 'Make a token and print it'
complete -c flock -n "__fish_flock_using_subcommand token; and __fish_seen_subcommand_from help" -f -a "list" -d 'List the tokens with their rights, agents and expiry times'
complete -c flock -n "__fish_flock_using_subcommand token; and __fish_seen_subcommand_from help" -f -a "revoke" -d 'Revoke a token and end the streams that it opened'
complete -c flock -n "__fish_flock_using_subcommand token; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c flock -n "__fish_flock_using_subcommand bridge; and not __fish_seen_subcommand_from add remove link unlink allow disallow list ls status pause resume test help" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand bridge; and not __fish_seen_subcommand_from add remove link unlink allow disallow list ls status pause resume test help" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand bridge; and not __fish_seen_subcommand_from add remove link unlink allow disallow list ls status pause resume test help" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand bridge; and not __fish_seen_subcommand_from add remove link unlink allow disallow list ls status pause resume test help" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand bridge; and not __fish_seen_subcommand_from add remove link unlink allow disallow list ls status pause resume test help" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand bridge; and not __fish_seen_subcommand_from add remove link unlink allow disallow list ls status pause resume test help" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand bridge; and not __fish_seen_subcommand_from add remove link unlink allow disallow list ls status pause resume test help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand bridge; and not __fish_seen_subcommand_from add remove link unlink allow disallow list ls status pause resume test help" -f -a "add" -d 'Add an account on a platform'
complete -c flock -n "__fish_flock_using_subcommand bridge; and not __fish_seen_subcommand_from add remove link unlink allow disallow list ls status pause resume test help" -f -a "remove" -d 'Remove a bridge with its token and its links'
complete -c flock -n "__fish_flock_using_subcommand bridge; and not __fish_seen_subcommand_from add remove link unlink allow disallow list ls status pause resume test help" -f -a "link" -d 'Link a channel with a channel of a platform'
complete -c flock -n "__fish_flock_using_subcommand bridge; and not __fish_seen_subcommand_from add remove link unlink allow disallow list ls status pause resume test help" -f -a "unlink" -d 'End a link'
complete -c flock -n "__fish_flock_using_subcommand bridge; and not __fish_seen_subcommand_from add remove link unlink allow disallow list ls status pause resume test help" -f -a "allow" -d 'Let more people be heard over a link'
complete -c flock -n "__fish_flock_using_subcommand bridge; and not __fish_seen_subcommand_from add remove link unlink allow disallow list ls status pause resume test help" -f -a "disallow" -d 'Hear some people no longer over a link'
complete -c flock -n "__fish_flock_using_subcommand bridge; and not __fish_seen_subcommand_from add remove link unlink allow disallow list ls status pause resume test help" -f -a "list" -d 'List the bridges and their links'
complete -c flock -n "__fish_flock_using_subcommand bridge; and not __fish_seen_subcommand_from add remove link unlink allow disallow list ls status pause resume test help" -f -a "ls" -d 'List the bridges and their links'
complete -c flock -n "__fish_flock_using_subcommand bridge; and not __fish_seen_subcommand_from add remove link unlink allow disallow list ls status pause resume test help" -f -a "status" -d 'Show how the bridges are: connected since when, the last error, what waits'
complete -c flock -n "__fish_flock_using_subcommand bridge; and not __fish_seen_subcommand_from add remove link unlink allow disallow list ls status pause resume test help" -f -a "pause" -d 'Pause a bridge, or one of its links'
complete -c flock -n "__fish_flock_using_subcommand bridge; and not __fish_seen_subcommand_from add remove link unlink allow disallow list ls status pause resume test help" -f -a "resume" -d 'Resume a paused bridge or link'
complete -c flock -n "__fish_flock_using_subcommand bridge; and not __fish_seen_subcommand_from add remove link unlink allow disallow list ls status pause resume test help" -f -a "test" -d 'Send a test message over a link, or over each link of a bridge, and look whether it arrived'
complete -c flock -n "__fish_flock_using_subcommand bridge; and not __fish_seen_subcommand_from add remove link unlink allow disallow list ls status pause resume test help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from add" -l name -d 'Name of the bridge [default: the platform\'s]' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from add" -l homeserver -d 'URL of the Matrix homeserver' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from add" -l api -d 'URL of the platform\'s API, if it is not the public one' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from add" -l token-file -d 'File with the account\'s token, or "-" for stdin [default: asks]' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from add" -l app-token-file -d 'File with Slack\'s app-level token [default: asks]' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from add" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from add" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from add" -l from-env -d 'Use the token of DISCORD_BOT_TOKEN, SLACK_BOT_TOKEN and SLACK_APP_TOKEN, or TELEGRAM_BOT_TOKEN'
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from add" -l replace -d 'Give the bridge that has this name a new token; its links and what waits to be sent stay'
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from add" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from add" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from add" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from add" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from add" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from remove" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from remove" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from remove" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from remove" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from remove" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from remove" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from remove" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from link" -l allow -d 'Account that is heard, by the platform\'s id, "role:ID", or "everyone"; can be given more than once' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from link" -l since -d 'Bring in earlier messages as read history, of the last m, h, d or w, as in 12h or 7d' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from link" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from link" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from link" -l create -d 'Create the platform\'s channel'
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from link" -l cross -d 'Also send what people say on other platforms'
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from link" -l bots -d 'Also hear programs among those who are heard, such as other bots'
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from link" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from link" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from link" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from link" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from link" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from unlink" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from unlink" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from unlink" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from unlink" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from unlink" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from unlink" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from unlink" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from allow" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from allow" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from allow" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from allow" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from allow" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from allow" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from allow" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from disallow" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from disallow" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from disallow" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from disallow" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from disallow" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from disallow" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from disallow" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from list" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from list" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from list" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from list" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from list" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from list" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from ls" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from ls" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from ls" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from ls" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from ls" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from ls" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from ls" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from status" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from status" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from status" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from status" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from status" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from status" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from status" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from pause" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from pause" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from pause" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from pause" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from pause" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from pause" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from pause" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from resume" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from resume" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from resume" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from resume" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from resume" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from resume" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from resume" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from test" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from test" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from test" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from test" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from test" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from test" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from test" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from help" -f -a "add" -d 'Add an account on a platform'
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from help" -f -a "remove" -d 'Remove a bridge with its token and its links'
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from help" -f -a "link" -d 'Link a channel with a channel of a platform'
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from help" -f -a "unlink" -d 'End a link'
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from help" -f -a "allow" -d 'Let more people be heard over a link'
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from help" -f -a "disallow" -d 'Hear some people no longer over a link'
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from help" -f -a "list" -d 'List the bridges and their links'
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from help" -f -a "status" -d 'Show how the bridges are: connected since when, the last error, what waits'
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from help" -f -a "pause" -d 'Pause a bridge, or one of its links'
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from help" -f -a "resume" -d 'Resume a paused bridge or link'
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from help" -f -a "test" -d 'Send a test message over a link, or over each link of a bridge, and look whether it arrived'
complete -c flock -n "__fish_flock_using_subcommand bridge; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c flock -n "__fish_flock_using_subcommand mcp; and not __fish_seen_subcommand_from add import list ls show test update grant revoke secret login logout remove rm help" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand mcp; and not __fish_seen_subcommand_from add import list ls show test update grant revoke secret login logout remove rm help" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand mcp; and not __fish_seen_subcommand_from add import list ls show test update grant revoke secret login logout remove rm help" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand mcp; and not __fish_seen_subcommand_from add import list ls show test update grant revoke secret login logout remove rm help" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand mcp; and not __fish_seen_subcommand_from add import list ls show test update grant revoke secret login logout remove rm help" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand mcp; and not __fish_seen_subcommand_from add import list ls show test update grant revoke secret login logout remove rm help" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand mcp; and not __fish_seen_subcommand_from add import list ls show test update grant revoke secret login logout remove rm help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand mcp; and not __fish_seen_subcommand_from add import list ls show test update grant revoke secret login logout remove rm help" -f -a "add" -d 'Add a server'
complete -c flock -n "__fish_flock_using_subcommand mcp; and not __fish_seen_subcommand_from add import list ls show test update grant revoke secret login logout remove rm help" -f -a "import" -d 'Add the servers of a file in the form that other programs use: {"mcpServers": {…}}'
complete -c flock -n "__fish_flock_using_subcommand mcp; and not __fish_seen_subcommand_from add import list ls show test update grant revoke secret login logout remove rm help" -f -a "list" -d 'List the servers'
complete -c flock -n "__fish_flock_using_subcommand mcp; and not __fish_seen_subcommand_from add import list ls show test update grant revoke secret login logout remove rm help" -f -a "ls" -d 'List the servers'
complete -c flock -n "__fish_flock_using_subcommand mcp; and not __fish_seen_subcommand_from add import list ls show test update grant revoke secret login logout remove rm help" -f -a "show" -d 'Show a server, its grants and its state'
complete -c flock -n "__fish_flock_using_subcommand mcp; and not __fish_seen_subcommand_from add import list ls show test update grant revoke secret login logout remove rm help" -f -a "test" -d 'Start a server if it does not run, and list its tools'
complete -c flock -n "__fish_flock_using_subcommand mcp; and not __fish_seen_subcommand_from add import list ls show test update grant revoke secret login logout remove rm help" -f -a "update" -d 'Replace the package of a server by another version, or fetch it again'
complete -c flock -n "__fish_flock_using_subcommand mcp; and not __fish_seen_subcommand_from add import list ls show test update grant revoke secret login logout remove rm help" -f -a "grant" -d 'Let an agent call tools of a server, or let the server ask the agent\'s model meanwhile'
complete -c flock -n "__fish_flock_using_subcommand mcp; and not __fish_seen_subcommand_from add import list ls show test update grant revoke secret login logout remove rm help" -f -a "revoke" -d 'Take tools, or what the server may ask for, away from an agent'
complete -c flock -n "__fish_flock_using_subcommand mcp; and not __fish_seen_subcommand_from add import list ls show test update grant revoke secret login logout remove rm help" -f -a "secret" -d 'Store a secret of a server, read from stdin or asked for'
complete -c flock -n "__fish_flock_using_subcommand mcp; and not __fish_seen_subcommand_from add import list ls show test update grant revoke secret login logout remove rm help" -f -a "login" -d 'Sign in to a server at a URL, with a browser'
complete -c flock -n "__fish_flock_using_subcommand mcp; and not __fish_seen_subcommand_from add import list ls show test update grant revoke secret login logout remove rm help" -f -a "logout" -d 'End the sign-in to a server: revoke its tokens, if the server offers that, and remove them'
complete -c flock -n "__fish_flock_using_subcommand mcp; and not __fish_seen_subcommand_from add import list ls show test update grant revoke secret login logout remove rm help" -f -a "remove" -d 'Remove a server with its grants and its sandbox'
complete -c flock -n "__fish_flock_using_subcommand mcp; and not __fish_seen_subcommand_from add import list ls show test update grant revoke secret login logout remove rm help" -f -a "rm" -d 'Remove a server with its grants and its sandbox'
complete -c flock -n "__fish_flock_using_subcommand mcp; and not __fish_seen_subcommand_from add import list ls show test update grant revoke secret login logout remove rm help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from add" -l npm -d 'Package of npm that is the server, as NAME@VERSION. A range or a tag is pinned to the version that it means now' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from add" -l pypi -d 'Package of PyPI that is the server, as NAME==VERSION. Only wheels are used' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from add" -l with -d 'Package that is installed beside it, with a range of versions; can be given more than once' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from add" -l bin -d 'Program of the package to run if it has several' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from add" -l server-json -d 'Description of the server in the form that other programs use: {"command": …, "args": […], "env": {…}}' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from add" -l env -d 'Variable of its environment; can be given more than once' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from add" -l secret -d 'Variable whose value is a secret, with the name of the secret; can be given more than once' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from add" -l header -d 'Header of each request to a server at a URL, with the name of the secret; can be given more than once' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from add" -l packages -d 'Packages to install for the server, by their names in nixpkgs, separated by commas' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from add" -l network -d 'Network of the server\'s sandbox [default: none, or proxy with --egress]' -r -f -a "none\t'No network'
proxy\t'Only the allowed hosts, through the gateway'"
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from add" -l egress -d 'Host that the server may reach, or "*.HOST" for all hosts below it; can be given more than once' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from add" -l memory -d 'Memory limit of the server\'s container, as in 512m' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from add" -l cpus -d 'Core limit of the server\'s container, as in 1.5' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from add" -l image -d 'Image of the server\'s container, which is on this machine [default: flock\'s own]' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from add" -l call-seconds -d 'Longest time of one call' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from add" -l calls-per-turn -d 'Most calls of the server\'s tools in one turn' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from add" -l samples-per-call -d 'Most times that the server can ask an agent\'s model in one call, if you grant that' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from add" -l samples-per-day -d 'Most times that the server can ask the model of one agent on one day' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from add" -l sample-tokens -d 'Most tokens of an answer of the model' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from add" -l idle-minutes -d 'Time without a call after which the server is stopped' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from add" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from add" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from add" -l fetch -d 'Fetch the package that a description runs with npx, uvx or pipx'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from add" -l allow-local -d 'Allow a server at a URL that is on this machine or its networks, also without TLS'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from add" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from add" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from add" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from add" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from add" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from import" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from import" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from import" -l fetch -d 'Fetch the packages of servers that the file runs with npx, uvx or pipx'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from import" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from import" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from import" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from import" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from import" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from list" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from list" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from list" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from list" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from list" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from list" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from ls" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from ls" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from ls" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from ls" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from ls" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from ls" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from ls" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from show" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from show" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from show" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from show" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from show" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from show" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from test" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from test" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from test" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from test" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from test" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from test" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from test" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from update" -l to -d 'Version to change to: an exact one, a range, or latest' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from update" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from update" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from update" -l locked -d 'Fetch exactly the packages of the lock again, if files are missing or were changed'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from update" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from update" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from update" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from update" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from update" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from grant" -l tools -d 'Tools by the server\'s own names, separated by commas [default: all that the server lists now, or none with --sampling or --elicitation]' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from grant" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from grant" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from grant" -l read-only-ok -d 'Let an agent call them although its autonomy is readonly'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from grant" -l sampling -d 'Let the server ask the agent\'s model for answers while the agent calls it'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from grant" -l elicitation -d 'Let the server ask people while the agent calls it'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from grant" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from grant" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from grant" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from grant" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from grant" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from revoke" -l tools -d 'Tools by the server\'s own names, separated by commas' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from revoke" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from revoke" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from revoke" -l sampling -d 'The server may ask the agent\'s model no longer'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from revoke" -l elicitation -d 'The server may ask people no longer'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from revoke" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from revoke" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from revoke" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from revoke" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from revoke" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from secret" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from secret" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from secret" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from secret" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from secret" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from secret" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from secret" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from login" -l client-id -d 'Id of a client that was registered with the authorization server beforehand, or the https address of a document that describes one [default: flock registers itself]' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from login" -l scopes -d 'Scopes to ask for, separated by commas [default: those that the server proposes]' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from login" -l port -d 'Port of this machine that the browser returns to [default: any that is free]' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from login" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from login" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from login" -l client-secret -d 'Ask for the secret of that client, or read it from stdin'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from login" -l paste -d 'Only read the address that the browser ends at from stdin, and open no port'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from login" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from login" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from login" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from login" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from login" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from logout" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from logout" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from logout" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from logout" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from logout" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from logout" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from logout" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from remove" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from remove" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from remove" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from remove" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from remove" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from remove" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from remove" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from rm" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from rm" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from rm" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from rm" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from rm" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from rm" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from rm" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from help" -f -a "add" -d 'Add a server'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from help" -f -a "import" -d 'Add the servers of a file in the form that other programs use: {"mcpServers": {…}}'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from help" -f -a "list" -d 'List the servers'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from help" -f -a "show" -d 'Show a server, its grants and its state'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from help" -f -a "test" -d 'Start a server if it does not run, and list its tools'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from help" -f -a "update" -d 'Replace the package of a server by another version, or fetch it again'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from help" -f -a "grant" -d 'Let an agent call tools of a server, or let the server ask the agent\'s model meanwhile'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from help" -f -a "revoke" -d 'Take tools, or what the server may ask for, away from an agent'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from help" -f -a "secret" -d 'Store a secret of a server, read from stdin or asked for'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from help" -f -a "login" -d 'Sign in to a server at a URL, with a browser'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from help" -f -a "logout" -d 'End the sign-in to a server: revoke its tokens, if the server offers that, and remove them'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from help" -f -a "remove" -d 'Remove a server with its grants and its sandbox'
complete -c flock -n "__fish_flock_using_subcommand mcp; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c flock -n "__fish_flock_using_subcommand skill; and not __fish_seen_subcommand_from add list ls show update adopt remove rm help" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand skill; and not __fish_seen_subcommand_from add list ls show update adopt remove rm help" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand skill; and not __fish_seen_subcommand_from add list ls show update adopt remove rm help" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand skill; and not __fish_seen_subcommand_from add list ls show update adopt remove rm help" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand skill; and not __fish_seen_subcommand_from add list ls show update adopt remove rm help" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand skill; and not __fish_seen_subcommand_from add list ls show update adopt remove rm help" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand skill; and not __fish_seen_subcommand_from add list ls show update adopt remove rm help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand skill; and not __fish_seen_subcommand_from add list ls show update adopt remove rm help" -f -a "add" -d 'Import a skill from a folder or a git repository'
complete -c flock -n "__fish_flock_using_subcommand skill; and not __fish_seen_subcommand_from add list ls show update adopt remove rm help" -f -a "list" -d 'List the skills: where they come from, and whether they are what was imported'
complete -c flock -n "__fish_flock_using_subcommand skill; and not __fish_seen_subcommand_from add list ls show update adopt remove rm help" -f -a "ls" -d 'List the skills: where they come from, and whether they are what was imported'
complete -c flock -n "__fish_flock_using_subcommand skill; and not __fish_seen_subcommand_from add list ls show update adopt remove rm help" -f -a "show" -d 'Show a skill: what it contains, where it comes from, who can read it'
complete -c flock -n "__fish_flock_using_subcommand skill; and not __fish_seen_subcommand_from add list ls show update adopt remove rm help" -f -a "update" -d 'Show what changed at the source of a skill, and take it over'
complete -c flock -n "__fish_flock_using_subcommand skill; and not __fish_seen_subcommand_from add list ls show update adopt remove rm help" -f -a "adopt" -d 'Make an imported skill your own: keep its files as they are, and forget where it came from'
complete -c flock -n "__fish_flock_using_subcommand skill; and not __fish_seen_subcommand_from add list ls show update adopt remove rm help" -f -a "remove" -d 'Remove a skill with all its files'
complete -c flock -n "__fish_flock_using_subcommand skill; and not __fish_seen_subcommand_from add list ls show update adopt remove rm help" -f -a "rm" -d 'Remove a skill with all its files'
complete -c flock -n "__fish_flock_using_subcommand skill; and not __fish_seen_subcommand_from add list ls show update adopt remove rm help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c flock -n "__fish_flock_using_subcommand skill; and __fish_seen_subcommand_from add" -l name -d 'Name of the skill here, if not the one that it gives itself' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand skill; and __fish_seen_subcommand_from add" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand skill; and __fish_seen_subcommand_from add" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand skill; and __fish_seen_subcommand_from add" -l check -d 'Show what it contains, and import nothing'
complete -c flock -n "__fish_flock_using_subcommand skill; and __fish_seen_subcommand_from add" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand skill; and __fish_seen_subcommand_from add" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand skill; and __fish_seen_subcommand_from add" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand skill; and __fish_seen_subcommand_from add" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand skill; and __fish_seen_subcommand_from add" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand skill; and __fish_seen_subcommand_from list" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand skill; and __fish_seen_subcommand_from list" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand skill; and __fish_seen_subcommand_from list" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand skill; and __fish_seen_subcommand_from list" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand skill; and __fish_seen_subcommand_from list" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand skill; and __fish_seen_subcommand_from list" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand skill; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand skill; and __fish_seen_subcommand_from ls" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand skill; and __fish_seen_subcommand_from ls" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand skill; and __fish_seen_subcommand_from ls" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand skill; and __fish_seen_subcommand_from ls" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand skill; and __fish_seen_subcommand_from ls" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand skill; and __fish_seen_subcommand_from ls" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand skill; and __fish_seen_subcommand_from ls" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand skill; and __fish_seen_subcommand_from show" -l file -d 'File of the skill to print, as in SKILL.md' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand skill; and __fish_seen_subcommand_from show" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand skill; and __fish_seen_subcommand_from show" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand skill; and __fish_seen_subcommand_from show" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand skill; and __fish_seen_subcommand_from show" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand skill; and __fish_seen_subcommand_from show" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand skill; and __fish_seen_subcommand_from show" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand skill; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand skill; and __fish_seen_subcommand_from update" -l ref -d 'Branch, tag or commit to move to' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand skill; and __fish_seen_subcommand_from update" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand skill; and __fish_seen_subcommand_from update" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand skill; and __fish_seen_subcommand_from update" -l check -d 'Show the difference, and change nothing'
complete -c flock -n "__fish_flock_using_subcommand skill; and __fish_seen_subcommand_from update" -l full -d 'Show all lines of the difference, however many there are'
complete -c flock -n "__fish_flock_using_subcommand skill; and __fish_seen_subcommand_from update" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand skill; and __fish_seen_subcommand_from update" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand skill; and __fish_seen_subcommand_from update" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand skill; and __fish_seen_subcommand_from update" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand skill; and __fish_seen_subcommand_from update" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand skill; and __fish_seen_subcommand_from adopt" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand skill; and __fish_seen_subcommand_from adopt" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand skill; and __fish_seen_subcommand_from adopt" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand skill; and __fish_seen_subcommand_from adopt" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand skill; and __fish_seen_subcommand_from adopt" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand skill; and __fish_seen_subcommand_from adopt" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand skill; and __fish_seen_subcommand_from adopt" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand skill; and __fish_seen_subcommand_from remove" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand skill; and __fish_seen_subcommand_from remove" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand skill; and __fish_seen_subcommand_from remove" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand skill; and __fish_seen_subcommand_from remove" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand skill; and __fish_seen_subcommand_from remove" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand skill; and __fish_seen_subcommand_from remove" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand skill; and __fish_seen_subcommand_from remove" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand skill; and __fish_seen_subcommand_from rm" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand skill; and __fish_seen_subcommand_from rm" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand skill; and __fish_seen_subcommand_from rm" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand skill; and __fish_seen_subcommand_from rm" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand skill; and __fish_seen_subcommand_from rm" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand skill; and __fish_seen_subcommand_from rm" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand skill; and __fish_seen_subcommand_from rm" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand skill; and __fish_seen_subcommand_from help" -f -a "add" -d 'Import a skill from a folder or a git repository'
complete -c flock -n "__fish_flock_using_subcommand skill; and __fish_seen_subcommand_from help" -f -a "list" -d 'List the skills: where they come from, and whether they are what was imported'
complete -c flock -n "__fish_flock_using_subcommand skill; and __fish_seen_subcommand_from help" -f -a "show" -d 'Show a skill: what it contains, where it comes from, who can read it'
complete -c flock -n "__fish_flock_using_subcommand skill; and __fish_seen_subcommand_from help" -f -a "update" -d 'Show what changed at the source of a skill, and take it over'
complete -c flock -n "__fish_flock_using_subcommand skill; and __fish_seen_subcommand_from help" -f -a "adopt" -d 'Make an imported skill your own: keep its files as they are, and forget where it came from'
complete -c flock -n "__fish_flock_using_subcommand skill; and __fish_seen_subcommand_from help" -f -a "remove" -d 'Remove a skill with all its files'
complete -c flock -n "__fish_flock_using_subcommand skill; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c flock -n "__fish_flock_using_subcommand project; and not __fish_seen_subcommand_from add list ls show diff log sync assign unassign remove submit submissions accept refuse withdraw land help" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand project; and not __fish_seen_subcommand_from add list ls show diff log sync assign unassign remove submit submissions accept refuse withdraw land help" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand project; and not __fish_seen_subcommand_from add list ls show diff log sync assign unassign remove submit submissions accept refuse withdraw land help" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand project; and not __fish_seen_subcommand_from add list ls show diff log sync assign unassign remove submit submissions accept refuse withdraw land help" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand project; and not __fish_seen_subcommand_from add list ls show diff log sync assign unassign remove submit submissions accept refuse withdraw land help" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand project; and not __fish_seen_subcommand_from add list ls show diff log sync assign unassign remove submit submissions accept refuse withdraw land help" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand project; and not __fish_seen_subcommand_from add list ls show diff log sync assign unassign remove submit submissions accept refuse withdraw land help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand project; and not __fish_seen_subcommand_from add list ls show diff log sync assign unassign remove submit submissions accept refuse withdraw land help" -f -a "add" -d 'Add a repository that agents work on'
complete -c flock -n "__fish_flock_using_subcommand project; and not __fish_seen_subcommand_from add list ls show diff log sync assign unassign remove submit submissions accept refuse withdraw land help" -f -a "list" -d 'List the projects'
complete -c flock -n "__fish_flock_using_subcommand project; and not __fish_seen_subcommand_from add list ls show diff log sync assign unassign remove submit submissions accept refuse withdraw land help" -f -a "ls" -d 'List the projects'
complete -c flock -n "__fish_flock_using_subcommand project; and not __fish_seen_subcommand_from add list ls show diff log sync assign unassign remove submit submissions accept refuse withdraw land help" -f -a "show" -d 'Show a project: its tip, its agents\' branches, what is submitted and what is claimed'
complete -c flock -n "__fish_flock_using_subcommand project; and not __fish_seen_subcommand_from add list ls show diff log sync assign unassign remove submit submissions accept refuse withdraw land help" -f -a "diff" -d 'Show what an agent changed, in colour and by file'
complete -c flock -n "__fish_flock_using_subcommand project; and not __fish_seen_subcommand_from add list ls show diff log sync assign unassign remove submit submissions accept refuse withdraw land help" -f -a "log" -d 'Show the commits of the tip, newest first'
complete -c flock -n "__fish_flock_using_subcommand project; and not __fish_seen_subcommand_from add list ls show diff log sync assign unassign remove submit submissions accept refuse withdraw land help" -f -a "sync" -d 'Fetch what is new in your repository'
complete -c flock -n "__fish_flock_using_subcommand project; and not __fish_seen_subcommand_from add list ls show diff log sync assign unassign remove submit submissions accept refuse withdraw land help" -f -a "assign" -d 'Give agents a clone of a project'
complete -c flock -n "__fish_flock_using_subcommand project; and not __fish_seen_subcommand_from add list ls show diff log sync assign unassign remove submit submissions accept refuse withdraw land help" -f -a "unassign" -d 'Take a project away from agents'
complete -c flock -n "__fish_flock_using_subcommand project; and not __fish_seen_subcommand_from add list ls show diff log sync assign unassign remove submit submissions accept refuse withdraw land help" -f -a "remove" -d 'Remove a project with flock\'s repository and the agents\' branches in it'
complete -c flock -n "__fish_flock_using_subcommand project; and not __fish_seen_subcommand_from add list ls show diff log sync assign unassign remove submit submissions accept refuse withdraw land help" -f -a "submit" -d 'Submit an agent\'s branch: it is joined with the tip once its checks passed'
complete -c flock -n "__fish_flock_using_subcommand project; and not __fish_seen_subcommand_from add list ls show diff log sync assign unassign remove submit submissions accept refuse withdraw land help" -f -a "submissions" -d 'List what was submitted, newest first'
complete -c flock -n "__fish_flock_using_subcommand project; and not __fish_seen_subcommand_from add list ls show diff log sync assign unassign remove submit submissions accept refuse withdraw land help" -f -a "accept" -d 'Accept a submission that waits for a person'
complete -c flock -n "__fish_flock_using_subcommand project; and not __fish_seen_subcommand_from add list ls show diff log sync assign unassign remove submit submissions accept refuse withdraw land help" -f -a "refuse" -d 'Send a submission back to its author'
complete -c flock -n "__fish_flock_using_subcommand project; and not __fish_seen_subcommand_from add list ls show diff log sync assign unassign remove submit submissions accept refuse withdraw land help" -f -a "withdraw" -d 'Take a submission out of the queue'
complete -c flock -n "__fish_flock_using_subcommand project; and not __fish_seen_subcommand_from add list ls show diff log sync assign unassign remove submit submissions accept refuse withdraw land help" -f -a "land" -d 'Hand the project\'s tip to your repository, as a branch, a patch or a pull request'
complete -c flock -n "__fish_flock_using_subcommand project; and not __fish_seen_subcommand_from add list ls show diff log sync assign unassign remove submit submissions accept refuse withdraw land help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from add" -l repo -d 'Your repository: a path or a URL' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from add" -l branch -d 'Branch of your repository that work is joined on' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from add" -l setup -d 'Command that prepares a tree for its checks' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from add" -l setup-egress -d 'Host that the preparation may reach; can be given more than once' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from add" -l check -d 'Command that a change has to pass; can be given more than once' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from add" -l file -d 'File that a change has to have; can be given more than once' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from add" -l check-minutes -d 'Minutes that one command may take' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from add" -l review -d 'Reviewer of a change before it is merged' -r -f -a "none\t'Nobody: the checks decide'
agent\t'Another agent of the project'
person\t'A person'"
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from add" -l agent -d 'Agent that gets a clone; can be given more than once' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from add" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from add" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from add" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from add" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from add" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from add" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from add" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from list" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from list" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from list" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from list" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from list" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from list" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from ls" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from ls" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from ls" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from ls" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from ls" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from ls" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from ls" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from show" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from show" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from show" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from show" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from show" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from show" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from diff" -l branch -d 'The branch\'s name after "flock/AGENT/"' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from diff" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from diff" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from diff" -l stat -d 'Show only the names and sizes of the changes'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from diff" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from diff" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from diff" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from diff" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from diff" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from log" -l limit -d 'Number of commits to show' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from log" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from log" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from log" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from log" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from log" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from log" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from log" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from sync" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from sync" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from sync" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from sync" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from sync" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from sync" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from sync" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from assign" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from assign" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from assign" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from assign" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from assign" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from assign" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from assign" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from unassign" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from unassign" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from unassign" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from unassign" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from unassign" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from unassign" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from unassign" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from remove" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from remove" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from remove" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from remove" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from remove" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from remove" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from remove" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from submit" -l branch -d 'The branch\'s name after "flock/AGENT/"' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from submit" -l title -d 'One line about the change [default: the subject of its last commit]' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from submit" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from submit" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from submit" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from submit" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from submit" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from submit" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from submit" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from submissions" -l show -d 'Show one submission whole, with the log of its checks' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from submissions" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from submissions" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from submissions" -l open -d 'Show only what is on its way'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from submissions" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from submissions" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from submissions" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from submissions" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from submissions" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from accept" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from accept" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from accept" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from accept" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from accept" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from accept" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from accept" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from refuse" -l reason -d 'Changes that are needed' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from refuse" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from refuse" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from refuse" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from refuse" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from refuse" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from refuse" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from refuse" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from withdraw" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from withdraw" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from withdraw" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from withdraw" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from withdraw" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from withdraw" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from withdraw" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from land" -l branch -d 'Branch to make in your repository [default: flock/PROJECT]' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from land" -l patch -d 'Write a patch for "git am" instead' -r -F
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from land" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from land" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from land" -l pull-request -d 'Push the branch to the repository that the project was added with, and open a pull request with gh'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from land" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from land" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from land" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from land" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from land" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from help" -f -a "add" -d 'Add a repository that agents work on'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from help" -f -a "list" -d 'List the projects'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from help" -f -a "show" -d 'Show a project: its tip, its agents\' branches, what is submitted and what is claimed'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from help" -f -a "diff" -d 'Show what an agent changed, in colour and by file'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from help" -f -a "log" -d 'Show the commits of the tip, newest first'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from help" -f -a "sync" -d 'Fetch what is new in your repository'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from help" -f -a "assign" -d 'Give agents a clone of a project'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from help" -f -a "unassign" -d 'Take a project away from agents'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from help" -f -a "remove" -d 'Remove a project with flock\'s repository and the agents\' branches in it'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from help" -f -a "submit" -d 'Submit an agent\'s branch: it is joined with the tip once its checks passed'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from help" -f -a "submissions" -d 'List what was submitted, newest first'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from help" -f -a "accept" -d 'Accept a submission that waits for a person'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from help" -f -a "refuse" -d 'Send a submission back to its author'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from help" -f -a "withdraw" -d 'Take a submission out of the queue'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from help" -f -a "land" -d 'Hand the project\'s tip to your repository, as a branch, a patch or a pull request'
complete -c flock -n "__fish_flock_using_subcommand project; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c flock -n "__fish_flock_using_subcommand person; and not __fish_seen_subcommand_from add list ls show set token remove rm link unlink rename help" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand person; and not __fish_seen_subcommand_from add list ls show set token remove rm link unlink rename help" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand person; and not __fish_seen_subcommand_from add list ls show set token remove rm link unlink rename help" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand person; and not __fish_seen_subcommand_from add list ls show set token remove rm link unlink rename help" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand person; and not __fish_seen_subcommand_from add list ls show set token remove rm link unlink rename help" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand person; and not __fish_seen_subcommand_from add list ls show set token remove rm link unlink rename help" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand person; and not __fish_seen_subcommand_from add list ls show set token remove rm link unlink rename help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand person; and not __fish_seen_subcommand_from add list ls show set token remove rm link unlink rename help" -f -a "add" -d 'Add a person'
complete -c flock -n "__fish_flock_using_subcommand person; and not __fish_seen_subcommand_from add list ls show set token remove rm link unlink rename help" -f -a "list" -d 'List the people with their roles and accounts'
complete -c flock -n "__fish_flock_using_subcommand person; and not __fish_seen_subcommand_from add list ls show set token remove rm link unlink rename help" -f -a "ls" -d 'List the people with their roles and accounts'
complete -c flock -n "__fish_flock_using_subcommand person; and not __fish_seen_subcommand_from add list ls show set token remove rm link unlink rename help" -f -a "show" -d 'Show one person with tokens, browsers and budget'
complete -c flock -n "__fish_flock_using_subcommand person; and not __fish_seen_subcommand_from add list ls show set token remove rm link unlink rename help" -f -a "set" -d 'Change the role, the agents, the channels or the budget of a person'
complete -c flock -n "__fish_flock_using_subcommand person; and not __fish_seen_subcommand_from add list ls show set token remove rm link unlink rename help" -f -a "token" -d 'Make a token of a person and print it'
complete -c flock -n "__fish_flock_using_subcommand person; and not __fish_seen_subcommand_from add list ls show set token remove rm link unlink rename help" -f -a "remove" -d 'Remove a person, with all tokens, browsers and accounts'
complete -c flock -n "__fish_flock_using_subcommand person; and not __fish_seen_subcommand_from add list ls show set token remove rm link unlink rename help" -f -a "rm" -d 'Remove a person, with all tokens, browsers and accounts'
complete -c flock -n "__fish_flock_using_subcommand person; and not __fish_seen_subcommand_from add list ls show set token remove rm link unlink rename help" -f -a "link" -d 'Bind an account to a person'
complete -c flock -n "__fish_flock_using_subcommand person; and not __fish_seen_subcommand_from add list ls show set token remove rm link unlink rename help" -f -a "unlink" -d 'Forget an account: its next message makes a person of its own'
complete -c flock -n "__fish_flock_using_subcommand person; and not __fish_seen_subcommand_from add list ls show set token remove rm link unlink rename help" -f -a "rename" -d 'Give a person another name'
complete -c flock -n "__fish_flock_using_subcommand person; and not __fish_seen_subcommand_from add list ls show set token remove rm link unlink rename help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from add" -l role -d 'Role of the person' -r -f -a "owner\t''
operator\t''
member\t''
viewer\t''"
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from add" -l agents -d 'Agents that the person may see and ask, separated by commas, or "all"' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from add" -l channels -d 'Channels that the person is on, separated by commas, or "all" or "none"' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from add" -l budget-tokens -d 'Tokens that the person may use in one day, or "none" for no limit' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from add" -l budget-usd -d 'Dollars that the person may use in one day, or "none" for no limit' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from add" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from add" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from add" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from add" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from add" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from add" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from add" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from list" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from list" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from list" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from list" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from list" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from list" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from ls" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from ls" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from ls" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from ls" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from ls" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from ls" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from ls" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from show" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from show" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from show" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from show" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from show" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from show" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from set" -l role -d 'Role of the person' -r -f -a "owner\t''
operator\t''
member\t''
viewer\t''"
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from set" -l agents -d 'Agents that the person may see and ask, separated by commas, or "all"' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from set" -l channels -d 'Channels that the person is on, separated by commas, or "all" or "none"' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from set" -l budget-tokens -d 'Tokens that the person may use in one day, or "none" for no limit' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from set" -l budget-usd -d 'Dollars that the person may use in one day, or "none" for no limit' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from set" -l oidc-subject -d 'Subject of the person\'s account at the OpenID Connect provider, which then signs in to the dashboard' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from set" -l oidc-email -d 'E-mail address of that account, for its first sign-in' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from set" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from set" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from set" -l oidc-none -d 'Take the account away, and sign its browsers out'
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from set" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from set" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from set" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from set" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from set" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from token" -l expires -d 'Time until the token expires, in m, h, d or w, as in 12h or 30d [default: never]' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from token" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from token" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from token" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from token" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from token" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from token" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from token" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from remove" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from remove" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from remove" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from remove" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from remove" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from remove" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from remove" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from rm" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from rm" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from rm" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from rm" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from rm" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from rm" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from rm" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from link" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from link" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from link" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from link" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from link" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from link" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from link" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from unlink" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from unlink" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from unlink" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from unlink" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from unlink" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from unlink" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from unlink" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from rename" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from rename" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from rename" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from rename" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from rename" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from rename" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from rename" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from help" -f -a "add" -d 'Add a person'
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from help" -f -a "list" -d 'List the people with their roles and accounts'
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from help" -f -a "show" -d 'Show one person with tokens, browsers and budget'
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from help" -f -a "set" -d 'Change the role, the agents, the channels or the budget of a person'
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from help" -f -a "token" -d 'Make a token of a person and print it'
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from help" -f -a "remove" -d 'Remove a person, with all tokens, browsers and accounts'
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from help" -f -a "link" -d 'Bind an account to a person'
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from help" -f -a "unlink" -d 'Forget an account: its next message makes a person of its own'
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from help" -f -a "rename" -d 'Give a person another name'
complete -c flock -n "__fish_flock_using_subcommand person; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c flock -n "__fish_flock_using_subcommand freeze" -l reason -d 'Reason, in one line' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand freeze" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand freeze" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand freeze" -l all -d 'All agents; a freeze also covers those that are added later'
complete -c flock -n "__fish_flock_using_subcommand freeze" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand freeze" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand freeze" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand freeze" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand freeze" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand thaw" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand thaw" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand thaw" -l all -d 'All agents; a freeze also covers those that are added later'
complete -c flock -n "__fish_flock_using_subcommand thaw" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand thaw" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand thaw" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand thaw" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand thaw" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand resume" -l credential -d 'Name of a credential or provider, as `flock status` shows it' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand resume" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand resume" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand resume" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand resume" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand resume" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand resume" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand resume" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand checkpoint" -l note -d 'Purpose of the checkpoint, in one line' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand checkpoint" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand checkpoint" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand checkpoint" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand checkpoint" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand checkpoint" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand checkpoint" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand checkpoint" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand checkpoints" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand checkpoints" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand checkpoints" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand checkpoints" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand checkpoints" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand checkpoints" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand checkpoints" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand rewind" -l turn -l to -d 'Number of the checkpoint at the turn\'s beginning, or of any other, as `flock checkpoints` shows it' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand rewind" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand rewind" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand rewind" -l files -d 'Only the files and packages'
complete -c flock -n "__fish_flock_using_subcommand rewind" -l conversation -d 'Only the conversations'
complete -c flock -n "__fish_flock_using_subcommand rewind" -l both -d 'Files, packages and conversations; the default'
complete -c flock -n "__fish_flock_using_subcommand rewind" -l undo -d 'Undo the last rewind'
complete -c flock -n "__fish_flock_using_subcommand rewind" -l keep-others -d 'Leave what somebody else has changed as it is, and set back the rest'
complete -c flock -n "__fish_flock_using_subcommand rewind" -l without-packages -d 'Leave the packages as they are'
complete -c flock -n "__fish_flock_using_subcommand rewind" -l dry-run -d 'Only show what would change'
complete -c flock -n "__fish_flock_using_subcommand rewind" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand rewind" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand rewind" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand rewind" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand rewind" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand fork" -l checkpoint -d 'Number of an agent\'s checkpoint to go on from, as `flock checkpoints` shows it [default: the present state]' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand fork" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand fork" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand fork" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand fork" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand fork" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand fork" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand fork" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand race; and not __fish_seen_subcommand_from list ls show keep stop drop help" -l project -d 'Name of the project that the copies work on' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand race; and not __fish_seen_subcommand_from list ls show keep stop drop help" -l budget-tokens -d 'Tokens that all copies together may use' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand race; and not __fish_seen_subcommand_from list ls show keep stop drop help" -l budget-usd -d 'Dollars that all copies together may use' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand race; and not __fish_seen_subcommand_from list ls show keep stop drop help" -l minutes -d 'Minutes after which the race is decided with what is there' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand race; and not __fish_seen_subcommand_from list ls show keep stop drop help" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand race; and not __fish_seen_subcommand_from list ls show keep stop drop help" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand race; and not __fish_seen_subcommand_from list ls show keep stop drop help" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand race; and not __fish_seen_subcommand_from list ls show keep stop drop help" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand race; and not __fish_seen_subcommand_from list ls show keep stop drop help" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand race; and not __fish_seen_subcommand_from list ls show keep stop drop help" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand race; and not __fish_seen_subcommand_from list ls show keep stop drop help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand race; and not __fish_seen_subcommand_from list ls show keep stop drop help" -a "list" -d 'List the races, the newest first'
complete -c flock -n "__fish_flock_using_subcommand race; and not __fish_seen_subcommand_from list ls show keep stop drop help" -a "ls" -d 'List the races, the newest first'
complete -c flock -n "__fish_flock_using_subcommand race; and not __fish_seen_subcommand_from list ls show keep stop drop help" -a "show" -d 'Show a race with what each copy has done'
complete -c flock -n "__fish_flock_using_subcommand race; and not __fish_seen_subcommand_from list ls show keep stop drop help" -a "keep" -d 'Choose the winner yourself, before the work of another one is merged'
complete -c flock -n "__fish_flock_using_subcommand race; and not __fish_seen_subcommand_from list ls show keep stop drop help" -a "stop" -d 'End a race without a winner'
complete -c flock -n "__fish_flock_using_subcommand race; and not __fish_seen_subcommand_from list ls show keep stop drop help" -a "drop" -d 'Remove the copies that did not win, with their agents, files and branches'
complete -c flock -n "__fish_flock_using_subcommand race; and not __fish_seen_subcommand_from list ls show keep stop drop help" -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c flock -n "__fish_flock_using_subcommand race; and __fish_seen_subcommand_from list" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand race; and __fish_seen_subcommand_from list" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand race; and __fish_seen_subcommand_from list" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand race; and __fish_seen_subcommand_from list" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand race; and __fish_seen_subcommand_from list" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand race; and __fish_seen_subcommand_from list" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand race; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand race; and __fish_seen_subcommand_from ls" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand race; and __fish_seen_subcommand_from ls" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand race; and __fish_seen_subcommand_from ls" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand race; and __fish_seen_subcommand_from ls" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand race; and __fish_seen_subcommand_from ls" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand race; and __fish_seen_subcommand_from ls" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand race; and __fish_seen_subcommand_from ls" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand race; and __fish_seen_subcommand_from show" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand race; and __fish_seen_subcommand_from show" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand race; and __fish_seen_subcommand_from show" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand race; and __fish_seen_subcommand_from show" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand race; and __fish_seen_subcommand_from show" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand race; and __fish_seen_subcommand_from show" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand race; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand race; and __fish_seen_subcommand_from keep" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand race; and __fish_seen_subcommand_from keep" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand race; and __fish_seen_subcommand_from keep" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand race; and __fish_seen_subcommand_from keep" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand race; and __fish_seen_subcommand_from keep" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand race; and __fish_seen_subcommand_from keep" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand race; and __fish_seen_subcommand_from keep" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand race; and __fish_seen_subcommand_from stop" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand race; and __fish_seen_subcommand_from stop" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand race; and __fish_seen_subcommand_from stop" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand race; and __fish_seen_subcommand_from stop" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand race; and __fish_seen_subcommand_from stop" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand race; and __fish_seen_subcommand_from stop" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand race; and __fish_seen_subcommand_from stop" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand race; and __fish_seen_subcommand_from drop" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand race; and __fish_seen_subcommand_from drop" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand race; and __fish_seen_subcommand_from drop" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand race; and __fish_seen_subcommand_from drop" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand race; and __fish_seen_subcommand_from drop" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand race; and __fish_seen_subcommand_from drop" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand race; and __fish_seen_subcommand_from drop" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand race; and __fish_seen_subcommand_from help" -f -a "list" -d 'List the races, the newest first'
complete -c flock -n "__fish_flock_using_subcommand race; and __fish_seen_subcommand_from help" -f -a "show" -d 'Show a race with what each copy has done'
complete -c flock -n "__fish_flock_using_subcommand race; and __fish_seen_subcommand_from help" -f -a "keep" -d 'Choose the winner yourself, before the work of another one is merged'
complete -c flock -n "__fish_flock_using_subcommand race; and __fish_seen_subcommand_from help" -f -a "stop" -d 'End a race without a winner'
complete -c flock -n "__fish_flock_using_subcommand race; and __fish_seen_subcommand_from help" -f -a "drop" -d 'Remove the copies that did not win, with their agents, files and branches'
complete -c flock -n "__fish_flock_using_subcommand race; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c flock -n "__fish_flock_using_subcommand schedule; and not __fish_seen_subcommand_from add list ls show pause resume budget run history remove rm help" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand schedule; and not __fish_seen_subcommand_from add list ls show pause resume budget run history remove rm help" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand schedule; and not __fish_seen_subcommand_from add list ls show pause resume budget run history remove rm help" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand schedule; and not __fish_seen_subcommand_from add list ls show pause resume budget run history remove rm help" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand schedule; and not __fish_seen_subcommand_from add list ls show pause resume budget run history remove rm help" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand schedule; and not __fish_seen_subcommand_from add list ls show pause resume budget run history remove rm help" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand schedule; and not __fish_seen_subcommand_from add list ls show pause resume budget run history remove rm help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand schedule; and not __fish_seen_subcommand_from add list ls show pause resume budget run history remove rm help" -f -a "add" -d 'Add a schedule'
complete -c flock -n "__fish_flock_using_subcommand schedule; and not __fish_seen_subcommand_from add list ls show pause resume budget run history remove rm help" -f -a "list" -d 'List the schedules with their next times'
complete -c flock -n "__fish_flock_using_subcommand schedule; and not __fish_seen_subcommand_from add list ls show pause resume budget run history remove rm help" -f -a "ls" -d 'List the schedules with their next times'
complete -c flock -n "__fish_flock_using_subcommand schedule; and not __fish_seen_subcommand_from add list ls show pause resume budget run history remove rm help" -f -a "show" -d 'Show a schedule'
complete -c flock -n "__fish_flock_using_subcommand schedule; and not __fish_seen_subcommand_from add list ls show pause resume budget run history remove rm help" -f -a "pause" -d 'Pause a schedule; its times pass without effect'
complete -c flock -n "__fish_flock_using_subcommand schedule; and not __fish_seen_subcommand_from add list ls show pause resume budget run history remove rm help" -f -a "resume" -d 'Let a paused schedule go on'
complete -c flock -n "__fish_flock_using_subcommand schedule; and not __fish_seen_subcommand_from add list ls show pause resume budget run history remove rm help" -f -a "budget" -d 'Change what the runs of a schedule may use in a day'
complete -c flock -n "__fish_flock_using_subcommand schedule; and not __fish_seen_subcommand_from add list ls show pause resume budget run history remove rm help" -f -a "run" -d 'Run a schedule now, besides its times'
complete -c flock -n "__fish_flock_using_subcommand schedule; and not __fish_seen_subcommand_from add list ls show pause resume budget run history remove rm help" -f -a "history" -d 'Show what became of a schedule\'s times, the newest first'
complete -c flock -n "__fish_flock_using_subcommand schedule; and not __fish_seen_subcommand_from add list ls show pause resume budget run history remove rm help" -f -a "remove" -d 'Remove a schedule with its history'
complete -c flock -n "__fish_flock_using_subcommand schedule; and not __fish_seen_subcommand_from add list ls show pause resume budget run history remove rm help" -f -a "rm" -d 'Remove a schedule with its history'
complete -c flock -n "__fish_flock_using_subcommand schedule; and not __fish_seen_subcommand_from add list ls show pause resume budget run history remove rm help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from add" -l every -d 'Interval, such as 90m, 2h or 1d' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from add" -l at -d 'Single time, such as 2026-12-24T18:00' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from add" -l after -d 'Event to run after, such as task.completed or project.merged' -r -f -a "task.completed\t''
task.failed\t''
project.merged\t''
race.decided\t''
channel.archived\t''
agent.added\t''
approval.waiting\t''"
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from add" -l tz -d 'Time zone, such as Europe/Berlin [default: the machine\'s]' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from add" -l name -d 'Name of the schedule [default: the recipient\'s with a number]' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from add" -l missed -d 'Policy for times that passed while nothing could run' -r -f -a "once\t'One run for all of them'
skip\t'No run'
all\t'One run for each'"
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from add" -l budget-tokens -d 'Tokens that its runs may use in a day' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from add" -l budget-usd -d 'Dollars that its runs may cost in a day' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from add" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from add" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from add" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from add" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from add" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from add" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from add" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from list" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from list" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from list" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from list" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from list" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from list" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from ls" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from ls" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from ls" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from ls" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from ls" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from ls" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from ls" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from show" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from show" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from show" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from show" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from show" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from show" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from pause" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from pause" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from pause" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from pause" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from pause" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from pause" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from pause" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from resume" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from resume" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from resume" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from resume" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from resume" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from resume" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from resume" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from budget" -l tokens -d 'Tokens in a day, or none for no limit' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from budget" -l usd -d 'Dollars in a day, or none for no limit' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from budget" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from budget" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from budget" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from budget" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from budget" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from budget" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from budget" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from run" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from run" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from run" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from run" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from run" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from run" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from run" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from history" -l limit -d 'Number of rows to show' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from history" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from history" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from history" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from history" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from history" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from history" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from history" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from remove" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from remove" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from remove" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from remove" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from remove" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from remove" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from remove" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from rm" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from rm" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from rm" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from rm" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from rm" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from rm" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from rm" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from help" -f -a "add" -d 'Add a schedule'
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from help" -f -a "list" -d 'List the schedules with their next times'
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from help" -f -a "show" -d 'Show a schedule'
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from help" -f -a "pause" -d 'Pause a schedule; its times pass without effect'
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from help" -f -a "resume" -d 'Let a paused schedule go on'
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from help" -f -a "budget" -d 'Change what the runs of a schedule may use in a day'
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from help" -f -a "run" -d 'Run a schedule now, besides its times'
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from help" -f -a "history" -d 'Show what became of a schedule\'s times, the newest first'
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from help" -f -a "remove" -d 'Remove a schedule with its history'
complete -c flock -n "__fish_flock_using_subcommand schedule; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c flock -n "__fish_flock_using_subcommand hook; and not __fish_seen_subcommand_from add list ls show pause resume history preview remove rm help" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand hook; and not __fish_seen_subcommand_from add list ls show pause resume history preview remove rm help" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand hook; and not __fish_seen_subcommand_from add list ls show pause resume history preview remove rm help" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand hook; and not __fish_seen_subcommand_from add list ls show pause resume history preview remove rm help" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand hook; and not __fish_seen_subcommand_from add list ls show pause resume history preview remove rm help" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand hook; and not __fish_seen_subcommand_from add list ls show pause resume history preview remove rm help" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand hook; and not __fish_seen_subcommand_from add list ls show pause resume history preview remove rm help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand hook; and not __fish_seen_subcommand_from add list ls show pause resume history preview remove rm help" -f -a "add" -d 'Add a webhook, and show its address and its secret'
complete -c flock -n "__fish_flock_using_subcommand hook; and not __fish_seen_subcommand_from add list ls show pause resume history preview remove rm help" -f -a "list" -d 'List the webhooks'
complete -c flock -n "__fish_flock_using_subcommand hook; and not __fish_seen_subcommand_from add list ls show pause resume history preview remove rm help" -f -a "ls" -d 'List the webhooks'
complete -c flock -n "__fish_flock_using_subcommand hook; and not __fish_seen_subcommand_from add list ls show pause resume history preview remove rm help" -f -a "show" -d 'Show a webhook'
complete -c flock -n "__fish_flock_using_subcommand hook; and not __fish_seen_subcommand_from add list ls show pause resume history preview remove rm help" -f -a "pause" -d 'Pause a webhook; its deliveries are refused'
complete -c flock -n "__fish_flock_using_subcommand hook; and not __fish_seen_subcommand_from add list ls show pause resume history preview remove rm help" -f -a "resume" -d 'Let a paused webhook go on'
complete -c flock -n "__fish_flock_using_subcommand hook; and not __fish_seen_subcommand_from add list ls show pause resume history preview remove rm help" -f -a "history" -d 'Show what came to a webhook, the newest first'
complete -c flock -n "__fish_flock_using_subcommand hook; and not __fish_seen_subcommand_from add list ls show pause resume history preview remove rm help" -f -a "preview" -d 'Show the message that a webhook would post'
complete -c flock -n "__fish_flock_using_subcommand hook; and not __fish_seen_subcommand_from add list ls show pause resume history preview remove rm help" -f -a "remove" -d 'Remove a webhook with its secret and its history'
complete -c flock -n "__fish_flock_using_subcommand hook; and not __fish_seen_subcommand_from add list ls show pause resume history preview remove rm help" -f -a "rm" -d 'Remove a webhook with its secret and its history'
complete -c flock -n "__fish_flock_using_subcommand hook; and not __fish_seen_subcommand_from add list ls show pause resume history preview remove rm help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from add" -l channel -d 'Channel to post to' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from add" -l template -d 'File with the template of the message [default: the kind\'s own]' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from add" -l secret-file -d 'File with the secret that the sender has already, or - for stdin [default: a new one]' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from add" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from add" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from add" -l github -d 'GitHub, also Gitea and Forgejo'
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from add" -l gitlab -d 'GitLab'
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from add" -l generic -d 'Any sender that signs by the specification Standard Webhooks (default)'
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from add" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from add" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from add" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from add" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from add" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from list" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from list" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from list" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from list" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from list" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from list" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from ls" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from ls" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from ls" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from ls" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from ls" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from ls" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from ls" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from show" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from show" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from show" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from show" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from show" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from show" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from pause" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from pause" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from pause" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from pause" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from pause" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from pause" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from pause" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from resume" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from resume" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from resume" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from resume" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from resume" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from resume" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from resume" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from history" -l limit -d 'Number of rows to show' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from history" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from history" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from history" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from history" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from history" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from history" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from history" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from preview" -l event -d 'Event, such as push' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from preview" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from preview" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from preview" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from preview" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from preview" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from preview" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from preview" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from remove" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from remove" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from remove" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from remove" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from remove" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from remove" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from remove" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from rm" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from rm" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from rm" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from rm" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from rm" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from rm" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from rm" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from help" -f -a "add" -d 'Add a webhook, and show its address and its secret'
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from help" -f -a "list" -d 'List the webhooks'
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from help" -f -a "show" -d 'Show a webhook'
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from help" -f -a "pause" -d 'Pause a webhook; its deliveries are refused'
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from help" -f -a "resume" -d 'Let a paused webhook go on'
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from help" -f -a "history" -d 'Show what came to a webhook, the newest first'
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from help" -f -a "preview" -d 'Show the message that a webhook would post'
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from help" -f -a "remove" -d 'Remove a webhook with its secret and its history'
complete -c flock -n "__fish_flock_using_subcommand hook; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c flock -n "__fish_flock_using_subcommand usage" -l day -d 'Day to show, as in 2026-02-28 [default: today]' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand usage" -l since -d 'First day to show; all later days are shown, too' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand usage" -l agent -d 'Show only the usage of this agent' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand usage" -l by -d 'Grouping of the sums' -r -f -a "agent\t'By agent'
channel\t'By channel'
model\t'By model'
day\t'By day'
server\t'By MCP server: only the calls that the servers asked for (sampling)'"
complete -c flock -n "__fish_flock_using_subcommand usage" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand usage" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand usage" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand usage" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand usage" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand usage" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand usage" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand audit" -l agent -d 'Show only actions of this actor: an agent\'s id, human:NAME or system' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand audit" -l level -d 'Show only actions of this level: GREEN, YELLOW or RED' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand audit" -l action -d 'Show only this action, as in channel.post, or all actions of a kind, as in channel' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand audit" -l limit -d 'Number of rows to show, newest first, at most 100' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand audit" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand audit" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand audit" -l verify -d 'Verify the whole audit instead of showing rows'
complete -c flock -n "__fish_flock_using_subcommand audit" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand audit" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand audit" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand audit" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand audit" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand search" -l agent -d 'Search only what this agent may read' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand search" -l in -d 'Places to search, separated by commas [default: all]' -r -f -a "memory\t'Memory of agents: MEMORY.md and memory/ of their workspaces'
findings\t'Findings of agents: deliverables/findings/ of their workspaces'
sessions\t'Transcripts of sessions'
vaults\t'Vaults, which all agents share'
channels\t'Messages in channels'"
complete -c flock -n "__fish_flock_using_subcommand search" -l limit -d 'Number of results to show, at most 100' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand search" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand search" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand search" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand search" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand search" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand search" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand search" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand receipt; and not __fish_seen_subcommand_from list show export key help" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand receipt; and not __fish_seen_subcommand_from list show export key help" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand receipt; and not __fish_seen_subcommand_from list show export key help" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand receipt; and not __fish_seen_subcommand_from list show export key help" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand receipt; and not __fish_seen_subcommand_from list show export key help" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand receipt; and not __fish_seen_subcommand_from list show export key help" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand receipt; and not __fish_seen_subcommand_from list show export key help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand receipt; and not __fish_seen_subcommand_from list show export key help" -f -a "list" -d 'List receipts, newest first'
complete -c flock -n "__fish_flock_using_subcommand receipt; and not __fish_seen_subcommand_from list show export key help" -f -a "show" -d 'Show a receipt: what was checked, and how it ended'
complete -c flock -n "__fish_flock_using_subcommand receipt; and not __fish_seen_subcommand_from list show export key help" -f -a "export" -d 'Write a receipt with all that is needed to check it elsewhere into one file'
complete -c flock -n "__fish_flock_using_subcommand receipt; and not __fish_seen_subcommand_from list show export key help" -f -a "key" -d 'Print the key that signs receipts, as a line for a file of allowed signers'
complete -c flock -n "__fish_flock_using_subcommand receipt; and not __fish_seen_subcommand_from list show export key help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c flock -n "__fish_flock_using_subcommand receipt; and __fish_seen_subcommand_from list" -l project -d 'Show only receipts of this project' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand receipt; and __fish_seen_subcommand_from list" -l task -d 'Show only receipts of this task' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand receipt; and __fish_seen_subcommand_from list" -l agent -d 'Show only receipts of this agent\'s work' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand receipt; and __fish_seen_subcommand_from list" -l limit -d 'Number of receipts to show' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand receipt; and __fish_seen_subcommand_from list" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand receipt; and __fish_seen_subcommand_from list" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand receipt; and __fish_seen_subcommand_from list" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand receipt; and __fish_seen_subcommand_from list" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand receipt; and __fish_seen_subcommand_from list" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand receipt; and __fish_seen_subcommand_from list" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand receipt; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand receipt; and __fish_seen_subcommand_from show" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand receipt; and __fish_seen_subcommand_from show" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand receipt; and __fish_seen_subcommand_from show" -l output -d 'Also print the kept output of its checks'
complete -c flock -n "__fish_flock_using_subcommand receipt; and __fish_seen_subcommand_from show" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand receipt; and __fish_seen_subcommand_from show" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand receipt; and __fish_seen_subcommand_from show" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand receipt; and __fish_seen_subcommand_from show" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand receipt; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand receipt; and __fish_seen_subcommand_from export" -l to -d 'File to write [default: the start of the id, with the ending .receipt]' -r -F
complete -c flock -n "__fish_flock_using_subcommand receipt; and __fish_seen_subcommand_from export" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand receipt; and __fish_seen_subcommand_from export" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand receipt; and __fish_seen_subcommand_from export" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand receipt; and __fish_seen_subcommand_from export" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand receipt; and __fish_seen_subcommand_from export" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand receipt; and __fish_seen_subcommand_from export" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand receipt; and __fish_seen_subcommand_from export" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand receipt; and __fish_seen_subcommand_from key" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand receipt; and __fish_seen_subcommand_from key" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand receipt; and __fish_seen_subcommand_from key" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand receipt; and __fish_seen_subcommand_from key" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand receipt; and __fish_seen_subcommand_from key" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand receipt; and __fish_seen_subcommand_from key" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand receipt; and __fish_seen_subcommand_from key" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand receipt; and __fish_seen_subcommand_from help" -f -a "list" -d 'List receipts, newest first'
complete -c flock -n "__fish_flock_using_subcommand receipt; and __fish_seen_subcommand_from help" -f -a "show" -d 'Show a receipt: what was checked, and how it ended'
complete -c flock -n "__fish_flock_using_subcommand receipt; and __fish_seen_subcommand_from help" -f -a "export" -d 'Write a receipt with all that is needed to check it elsewhere into one file'
complete -c flock -n "__fish_flock_using_subcommand receipt; and __fish_seen_subcommand_from help" -f -a "key" -d 'Print the key that signs receipts, as a line for a file of allowed signers'
complete -c flock -n "__fish_flock_using_subcommand receipt; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c flock -n "__fish_flock_using_subcommand verify" -l key -d 'File with the public key that must have signed it' -r -F
complete -c flock -n "__fish_flock_using_subcommand verify" -l allowed-signers -d 'File of allowed signers, as ssh-keygen takes it' -r -F
complete -c flock -n "__fish_flock_using_subcommand verify" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand verify" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand verify" -l rerun -d 'Run the checks again, as without this option'
complete -c flock -n "__fish_flock_using_subcommand verify" -l no-rerun -d 'Check only the documents'
complete -c flock -n "__fish_flock_using_subcommand verify" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand verify" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand verify" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand verify" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand verify" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand doctor" -l bundle -d 'Write a bundle for a bug report to FILE, a .tar.gz without keys, messages and transcripts, and list its contents' -r -F
complete -c flock -n "__fish_flock_using_subcommand doctor" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand doctor" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand doctor" -l deep -d 'Read the database, the audit and the transcripts in full'
complete -c flock -n "__fish_flock_using_subcommand doctor" -l fix -d 'Fix what can be fixed without losing data, and report each fix'
complete -c flock -n "__fish_flock_using_subcommand doctor" -l confirm-clock -d 'Confirm that this machine\'s clock is right, so that flock deletes expired data again'
complete -c flock -n "__fish_flock_using_subcommand doctor" -l force -d 'Replace FILE if it exists'
complete -c flock -n "__fish_flock_using_subcommand doctor" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand doctor" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand doctor" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand doctor" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand doctor" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand backup" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand backup" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand backup" -l verify -d 'Read FILE and check everything in it, and back up nothing'
complete -c flock -n "__fish_flock_using_subcommand backup" -l without-workspaces -d 'Leave out the workspaces and checkpoints'
complete -c flock -n "__fish_flock_using_subcommand backup" -l without-secrets -d 'Leave out keys and tokens, which have to be entered again after a restore'
complete -c flock -n "__fish_flock_using_subcommand backup" -l no-verify -d 'Do not read the archive again after it was written'
complete -c flock -n "__fish_flock_using_subcommand backup" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand backup" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand backup" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand backup" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand backup" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand restore" -l to -d 'Place of the restored database: postgres://USER@HOST/DATABASE without a password, or sqlite [default: sqlite]' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand restore" -l schema -d 'Schema for the tables on the server [default: flock]' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand restore" -l password-secret -d 'Secret of the restored home with the password of the database\'s user [default: postgres]' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand restore" -l from -d 'Backup of the database to start with [default: the newest intact one]' -r -F
complete -c flock -n "__fish_flock_using_subcommand restore" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand restore" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand restore" -l replace -d 'Move the home that is there aside first, and say where it is then'
complete -c flock -n "__fish_flock_using_subcommand restore" -l replace-nul -d 'Replacement of NUL characters, which PostgreSQL can\'t store, by U+FFFD in the copy on the server'
complete -c flock -n "__fish_flock_using_subcommand restore" -l list -d 'List the backups of the database, and restore nothing'
complete -c flock -n "__fish_flock_using_subcommand restore" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand restore" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand restore" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand restore" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand restore" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand home; and not __fish_seen_subcommand_from move help" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand home; and not __fish_seen_subcommand_from move help" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand home; and not __fish_seen_subcommand_from move help" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand home; and not __fish_seen_subcommand_from move help" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand home; and not __fish_seen_subcommand_from move help" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand home; and not __fish_seen_subcommand_from move help" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand home; and not __fish_seen_subcommand_from move help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand home; and not __fish_seen_subcommand_from move help" -f -a "move" -d 'Move the database to another place, and use it there'
complete -c flock -n "__fish_flock_using_subcommand home; and not __fish_seen_subcommand_from move help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c flock -n "__fish_flock_using_subcommand home; and __fish_seen_subcommand_from move" -l to -d 'New place: postgres://USER@HOST/DATABASE without a password, or sqlite for a file of the home' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand home; and __fish_seen_subcommand_from move" -l schema -d 'Schema for the tables on the server [default: flock]' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand home; and __fish_seen_subcommand_from move" -l password-secret -d 'Secret with the password of the database\'s user [default: postgres]' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand home; and __fish_seen_subcommand_from move" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand home; and __fish_seen_subcommand_from move" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand home; and __fish_seen_subcommand_from move" -l replace-nul -d 'Replacement of NUL characters, which PostgreSQL can\'t store, by U+FFFD in the copy'
complete -c flock -n "__fish_flock_using_subcommand home; and __fish_seen_subcommand_from move" -l dry-run -d 'Show what would be moved, and move nothing'
complete -c flock -n "__fish_flock_using_subcommand home; and __fish_seen_subcommand_from move" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand home; and __fish_seen_subcommand_from move" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand home; and __fish_seen_subcommand_from move" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand home; and __fish_seen_subcommand_from move" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand home; and __fish_seen_subcommand_from move" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand home; and __fish_seen_subcommand_from help" -f -a "move" -d 'Move the database to another place, and use it there'
complete -c flock -n "__fish_flock_using_subcommand home; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c flock -n "__fish_flock_using_subcommand storage; and not __fish_seen_subcommand_from check list push pull sweep forget take help" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand storage; and not __fish_seen_subcommand_from check list push pull sweep forget take help" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand storage; and not __fish_seen_subcommand_from check list push pull sweep forget take help" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand storage; and not __fish_seen_subcommand_from check list push pull sweep forget take help" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand storage; and not __fish_seen_subcommand_from check list push pull sweep forget take help" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand storage; and not __fish_seen_subcommand_from check list push pull sweep forget take help" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand storage; and not __fish_seen_subcommand_from check list push pull sweep forget take help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand storage; and not __fish_seen_subcommand_from check list push pull sweep forget take help" -f -a "check" -d 'Try everything that flock needs of the place'
complete -c flock -n "__fish_flock_using_subcommand storage; and not __fish_seen_subcommand_from check list push pull sweep forget take help" -f -a "list" -d 'List the checkpoints and the copies of vaults in the place, newest first'
complete -c flock -n "__fish_flock_using_subcommand storage; and not __fish_seen_subcommand_from check list push pull sweep forget take help" -f -a "push" -d 'Copy the newest checkpoints now'
complete -c flock -n "__fish_flock_using_subcommand storage; and not __fish_seen_subcommand_from check list push pull sweep forget take help" -f -a "pull" -d 'Bring a checkpoint or a vault from the place to this home'
complete -c flock -n "__fish_flock_using_subcommand storage; and not __fish_seen_subcommand_from check list push pull sweep forget take help" -f -a "sweep" -d 'Delete the oldest checkpoints in the place, and what only they needed'
complete -c flock -n "__fish_flock_using_subcommand storage; and not __fish_seen_subcommand_from check list push pull sweep forget take help" -f -a "forget" -d 'Delete everything in the place of an agent or a vault that was removed'
complete -c flock -n "__fish_flock_using_subcommand storage; and not __fish_seen_subcommand_from check list push pull sweep forget take help" -f -a "take" -d 'Make the place this home\'s, after another home has used it'
complete -c flock -n "__fish_flock_using_subcommand storage; and not __fish_seen_subcommand_from check list push pull sweep forget take help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c flock -n "__fish_flock_using_subcommand storage; and __fish_seen_subcommand_from check" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand storage; and __fish_seen_subcommand_from check" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand storage; and __fish_seen_subcommand_from check" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand storage; and __fish_seen_subcommand_from check" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand storage; and __fish_seen_subcommand_from check" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand storage; and __fish_seen_subcommand_from check" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand storage; and __fish_seen_subcommand_from check" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand storage; and __fish_seen_subcommand_from list" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand storage; and __fish_seen_subcommand_from list" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand storage; and __fish_seen_subcommand_from list" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand storage; and __fish_seen_subcommand_from list" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand storage; and __fish_seen_subcommand_from list" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand storage; and __fish_seen_subcommand_from list" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand storage; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand storage; and __fish_seen_subcommand_from push" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand storage; and __fish_seen_subcommand_from push" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand storage; and __fish_seen_subcommand_from push" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand storage; and __fish_seen_subcommand_from push" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand storage; and __fish_seen_subcommand_from push" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand storage; and __fish_seen_subcommand_from push" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand storage; and __fish_seen_subcommand_from push" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand storage; and __fish_seen_subcommand_from pull" -l checkpoint -d 'Number of the checkpoint, as `flock storage list` shows it [default: the newest state]' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand storage; and __fish_seen_subcommand_from pull" -l vault -d 'Name of a vault, instead of an agent' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand storage; and __fish_seen_subcommand_from pull" -l at -d 'Time up to which the newest copy of the vault is taken, as in \'2026-02-28 09:30:00\' [default: now]' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand storage; and __fish_seen_subcommand_from pull" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand storage; and __fish_seen_subcommand_from pull" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand storage; and __fish_seen_subcommand_from pull" -l replace -d 'Replacement of the vault\'s files that differ here'
complete -c flock -n "__fish_flock_using_subcommand storage; and __fish_seen_subcommand_from pull" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand storage; and __fish_seen_subcommand_from pull" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand storage; and __fish_seen_subcommand_from pull" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand storage; and __fish_seen_subcommand_from pull" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand storage; and __fish_seen_subcommand_from pull" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand storage; and __fish_seen_subcommand_from sweep" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand storage; and __fish_seen_subcommand_from sweep" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand storage; and __fish_seen_subcommand_from sweep" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand storage; and __fish_seen_subcommand_from sweep" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand storage; and __fish_seen_subcommand_from sweep" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand storage; and __fish_seen_subcommand_from sweep" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand storage; and __fish_seen_subcommand_from sweep" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand storage; and __fish_seen_subcommand_from forget" -l vault -d 'Name of the removed vault, instead of an agent' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand storage; and __fish_seen_subcommand_from forget" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand storage; and __fish_seen_subcommand_from forget" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand storage; and __fish_seen_subcommand_from forget" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand storage; and __fish_seen_subcommand_from forget" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand storage; and __fish_seen_subcommand_from forget" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand storage; and __fish_seen_subcommand_from forget" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand storage; and __fish_seen_subcommand_from forget" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand storage; and __fish_seen_subcommand_from take" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand storage; and __fish_seen_subcommand_from take" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand storage; and __fish_seen_subcommand_from take" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand storage; and __fish_seen_subcommand_from take" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand storage; and __fish_seen_subcommand_from take" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand storage; and __fish_seen_subcommand_from take" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand storage; and __fish_seen_subcommand_from take" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand storage; and __fish_seen_subcommand_from help" -f -a "check" -d 'Try everything that flock needs of the place'
complete -c flock -n "__fish_flock_using_subcommand storage; and __fish_seen_subcommand_from help" -f -a "list" -d 'List the checkpoints and the copies of vaults in the place, newest first'
complete -c flock -n "__fish_flock_using_subcommand storage; and __fish_seen_subcommand_from help" -f -a "push" -d 'Copy the newest checkpoints now'
complete -c flock -n "__fish_flock_using_subcommand storage; and __fish_seen_subcommand_from help" -f -a "pull" -d 'Bring a checkpoint or a vault from the place to this home'
complete -c flock -n "__fish_flock_using_subcommand storage; and __fish_seen_subcommand_from help" -f -a "sweep" -d 'Delete the oldest checkpoints in the place, and what only they needed'
complete -c flock -n "__fish_flock_using_subcommand storage; and __fish_seen_subcommand_from help" -f -a "forget" -d 'Delete everything in the place of an agent or a vault that was removed'
complete -c flock -n "__fish_flock_using_subcommand storage; and __fish_seen_subcommand_from help" -f -a "take" -d 'Make the place this home\'s, after another home has used it'
complete -c flock -n "__fish_flock_using_subcommand storage; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c flock -n "__fish_flock_using_subcommand uninstall" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand uninstall" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand uninstall" -l purge -d 'Also delete what people and agents made: workspaces, transcripts, configuration, keys, database'
complete -c flock -n "__fish_flock_using_subcommand uninstall" -l force -d 'Remove OpenClaw even if agents run on it'
complete -c flock -n "__fish_flock_using_subcommand uninstall" -l dry-run -d 'Show what would be removed, and remove nothing'
complete -c flock -n "__fish_flock_using_subcommand uninstall" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand uninstall" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand uninstall" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand uninstall" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand uninstall" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand completions" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand completions" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand completions" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand completions" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand completions" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand completions" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand completions" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand chat" -l session -d 'Key of the session to continue [default: your own session with the agent]' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand chat" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand chat" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand chat" -l wait -d 'Wait until a frozen agent is thawed, instead of failing'
complete -c flock -n "__fish_flock_using_subcommand chat" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand chat" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand chat" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand chat" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand chat" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand acp" -l agent -d 'Agent to talk to [default: the orchestrator]' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand acp" -l channel -d 'Channel to talk to, with all agents who are its members' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand acp" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand acp" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand acp" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand acp" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand acp" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand acp" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand acp" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand dashboard; and not __fish_seen_subcommand_from sessions help" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand dashboard; and not __fish_seen_subcommand_from sessions help" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand dashboard; and not __fish_seen_subcommand_from sessions help" -l print -d 'Print the address with its code instead of opening a browser'
complete -c flock -n "__fish_flock_using_subcommand dashboard; and not __fish_seen_subcommand_from sessions help" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand dashboard; and not __fish_seen_subcommand_from sessions help" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand dashboard; and not __fish_seen_subcommand_from sessions help" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand dashboard; and not __fish_seen_subcommand_from sessions help" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand dashboard; and not __fish_seen_subcommand_from sessions help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand dashboard; and not __fish_seen_subcommand_from sessions help" -f -a "sessions" -d 'List the browsers that are signed in, or sign them out'
complete -c flock -n "__fish_flock_using_subcommand dashboard; and not __fish_seen_subcommand_from sessions help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c flock -n "__fish_flock_using_subcommand dashboard; and __fish_seen_subcommand_from sessions" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand dashboard; and __fish_seen_subcommand_from sessions" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand dashboard; and __fish_seen_subcommand_from sessions" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand dashboard; and __fish_seen_subcommand_from sessions" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand dashboard; and __fish_seen_subcommand_from sessions" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand dashboard; and __fish_seen_subcommand_from sessions" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand dashboard; and __fish_seen_subcommand_from sessions" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand dashboard; and __fish_seen_subcommand_from sessions" -f -a "list" -d 'List the browsers that are signed in'
complete -c flock -n "__fish_flock_using_subcommand dashboard; and __fish_seen_subcommand_from sessions" -f -a "revoke" -d 'Sign a browser out'
complete -c flock -n "__fish_flock_using_subcommand dashboard; and __fish_seen_subcommand_from sessions" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c flock -n "__fish_flock_using_subcommand dashboard; and __fish_seen_subcommand_from help" -f -a "sessions" -d 'List the browsers that are signed in, or sign them out'
complete -c flock -n "__fish_flock_using_subcommand dashboard; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c flock -n "__fish_flock_using_subcommand top" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand top" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand top" -l mouse -d 'Select with the mouse, and scroll with its wheel'
complete -c flock -n "__fish_flock_using_subcommand top" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand top" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand top" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand top" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand top" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand channel; and not __fish_seen_subcommand_from list ls create post read assign rename topic archive reopen help" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand channel; and not __fish_seen_subcommand_from list ls create post read assign rename topic archive reopen help" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand channel; and not __fish_seen_subcommand_from list ls create post read assign rename topic archive reopen help" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand channel; and not __fish_seen_subcommand_from list ls create post read assign rename topic archive reopen help" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand channel; and not __fish_seen_subcommand_from list ls create post read assign rename topic archive reopen help" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand channel; and not __fish_seen_subcommand_from list ls create post read assign rename topic archive reopen help" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand channel; and not __fish_seen_subcommand_from list ls create post read assign rename topic archive reopen help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand channel; and not __fish_seen_subcommand_from list ls create post read assign rename topic archive reopen help" -f -a "list" -d 'List the channels'
complete -c flock -n "__fish_flock_using_subcommand channel; and not __fish_seen_subcommand_from list ls create post read assign rename topic archive reopen help" -f -a "ls" -d 'List the channels'
complete -c flock -n "__fish_flock_using_subcommand channel; and not __fish_seen_subcommand_from list ls create post read assign rename topic archive reopen help" -f -a "create" -d 'Create a channel'
complete -c flock -n "__fish_flock_using_subcommand channel; and not __fish_seen_subcommand_from list ls create post read assign rename topic archive reopen help" -f -a "post" -d 'Post a message to a channel'
complete -c flock -n "__fish_flock_using_subcommand channel; and not __fish_seen_subcommand_from list ls create post read assign rename topic archive reopen help" -f -a "read" -d 'Show the messages of a channel'
complete -c flock -n "__fish_flock_using_subcommand channel; and not __fish_seen_subcommand_from list ls create post read assign rename topic archive reopen help" -f -a "assign" -d 'Add members to a channel, or remove them'
complete -c flock -n "__fish_flock_using_subcommand channel; and not __fish_seen_subcommand_from list ls create post read assign rename topic archive reopen help" -f -a "rename" -d 'Change the name that people see of a channel'
complete -c flock -n "__fish_flock_using_subcommand channel; and not __fish_seen_subcommand_from list ls create post read assign rename topic archive reopen help" -f -a "topic" -d 'Change the topic of a channel'
complete -c flock -n "__fish_flock_using_subcommand channel; and not __fish_seen_subcommand_from list ls create post read assign rename topic archive reopen help" -f -a "archive" -d 'Archive a channel'
complete -c flock -n "__fish_flock_using_subcommand channel; and not __fish_seen_subcommand_from list ls create post read assign rename topic archive reopen help" -f -a "reopen" -d 'Reopen an archived channel'
complete -c flock -n "__fish_flock_using_subcommand channel; and not __fish_seen_subcommand_from list ls create post read assign rename topic archive reopen help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from list" -l member -d 'Show only channels of this member, an agent or human:NAME' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from list" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from list" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from list" -l all -d 'Also list archived channels'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from list" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from list" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from list" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from list" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from ls" -l member -d 'Show only channels of this member, an agent or human:NAME' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from ls" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from ls" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from ls" -l all -d 'Also list archived channels'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from ls" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from ls" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from ls" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from ls" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from ls" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from create" -l topic -d 'Topic of the channel, at most 500 characters' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from create" -l member -d 'Member to add, an agent or human:NAME; can be given more than once' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from create" -l message -d 'First message to post' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from create" -l as -d 'Name to act under [default: your login]' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from create" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from create" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from create" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from create" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from create" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from create" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from create" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from post" -l as -d 'Name to act under [default: your login]' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from post" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from post" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from post" -l no-notify -d 'Wake no agent: members get the message along with the next one that wakes them'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from post" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from post" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from post" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from post" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from post" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from read" -l after -d 'Show messages after this number' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from read" -l before -d 'Show messages before this number' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from read" -s n -l limit -d 'Number of messages to show, at most 200' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from read" -l search -d 'Show messages that contain all these words' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from read" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from read" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from read" -s f -l follow -d 'Print new messages as they arrive, until Ctrl-C'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from read" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from read" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from read" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from read" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from read" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from assign" -l add -d 'Member to add, an agent or human:NAME; can be given more than once' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from assign" -l remove -d 'Member to remove, an agent or human:NAME; can be given more than once' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from assign" -l as -d 'Name to act under [default: your login]' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from assign" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from assign" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from assign" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from assign" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from assign" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from assign" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from assign" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from rename" -l as -d 'Name to act under [default: your login]' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from rename" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from rename" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from rename" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from rename" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from rename" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from rename" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from rename" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from topic" -l as -d 'Name to act under [default: your login]' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from topic" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from topic" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from topic" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from topic" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from topic" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from topic" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from topic" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from archive" -l as -d 'Name to act under [default: your login]' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from archive" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from archive" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from archive" -l force -d 'Archive the channel at once, even if agents are not ready'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from archive" -l cancel -d 'Cancel the archiving'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from archive" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from archive" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from archive" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from archive" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from archive" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from reopen" -l as -d 'Name to act under [default: your login]' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from reopen" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from reopen" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from reopen" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from reopen" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from reopen" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from reopen" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from reopen" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from help" -f -a "list" -d 'List the channels'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from help" -f -a "create" -d 'Create a channel'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from help" -f -a "post" -d 'Post a message to a channel'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from help" -f -a "read" -d 'Show the messages of a channel'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from help" -f -a "assign" -d 'Add members to a channel, or remove them'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from help" -f -a "rename" -d 'Change the name that people see of a channel'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from help" -f -a "topic" -d 'Change the topic of a channel'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from help" -f -a "archive" -d 'Archive a channel'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from help" -f -a "reopen" -d 'Reopen an archived channel'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c flock -n "__fish_flock_using_subcommand session; and not __fish_seen_subcommand_from list ls show compact reset export import help" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand session; and not __fish_seen_subcommand_from list ls show compact reset export import help" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand session; and not __fish_seen_subcommand_from list ls show compact reset export import help" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand session; and not __fish_seen_subcommand_from list ls show compact reset export import help" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand session; and not __fish_seen_subcommand_from list ls show compact reset export import help" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand session; and not __fish_seen_subcommand_from list ls show compact reset export import help" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand session; and not __fish_seen_subcommand_from list ls show compact reset export import help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand session; and not __fish_seen_subcommand_from list ls show compact reset export import help" -f -a "list" -d 'List the sessions, last used first'
complete -c flock -n "__fish_flock_using_subcommand session; and not __fish_seen_subcommand_from list ls show compact reset export import help" -f -a "ls" -d 'List the sessions, last used first'
complete -c flock -n "__fish_flock_using_subcommand session; and not __fish_seen_subcommand_from list ls show compact reset export import help" -f -a "show" -d 'Show how full a session is, and its last compaction'
complete -c flock -n "__fish_flock_using_subcommand session; and not __fish_seen_subcommand_from list ls show compact reset export import help" -f -a "compact" -d 'Compact a session now'
complete -c flock -n "__fish_flock_using_subcommand session; and not __fish_seen_subcommand_from list ls show compact reset export import help" -f -a "reset" -d 'Start a session anew'
complete -c flock -n "__fish_flock_using_subcommand session; and not __fish_seen_subcommand_from list ls show compact reset export import help" -f -a "export" -d 'Export a session\'s transcript as one JSON document'
complete -c flock -n "__fish_flock_using_subcommand session; and not __fish_seen_subcommand_from list ls show compact reset export import help" -f -a "import" -d 'Create a session from an exported one'
complete -c flock -n "__fish_flock_using_subcommand session; and not __fish_seen_subcommand_from list ls show compact reset export import help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from list" -l agent -d 'Show only sessions of this agent' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from list" -l limit -d 'Number of sessions to show' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from list" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from list" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from list" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from list" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from list" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from list" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from ls" -l agent -d 'Show only sessions of this agent' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from ls" -l limit -d 'Number of sessions to show' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from ls" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from ls" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from ls" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from ls" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from ls" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from ls" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from ls" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from show" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from show" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from show" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from show" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from show" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from show" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from compact" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from compact" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from compact" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from compact" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from compact" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from compact" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from compact" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from reset" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from reset" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from reset" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from reset" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from reset" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from reset" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from reset" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from export" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from export" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from export" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from export" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from export" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from export" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from export" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from import" -l session -d 'Key of the new session [default: the exported key]' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from import" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from import" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from import" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from import" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from import" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from import" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from import" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from help" -f -a "list" -d 'List the sessions, last used first'
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from help" -f -a "show" -d 'Show how full a session is, and its last compaction'
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from help" -f -a "compact" -d 'Compact a session now'
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from help" -f -a "reset" -d 'Start a session anew'
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from help" -f -a "export" -d 'Export a session\'s transcript as one JSON document'
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from help" -f -a "import" -d 'Create a session from an exported one'
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c flock -n "__fish_flock_using_subcommand prompt; and not __fish_seen_subcommand_from show help" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand prompt; and not __fish_seen_subcommand_from show help" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand prompt; and not __fish_seen_subcommand_from show help" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand prompt; and not __fish_seen_subcommand_from show help" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand prompt; and not __fish_seen_subcommand_from show help" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand prompt; and not __fish_seen_subcommand_from show help" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand prompt; and not __fish_seen_subcommand_from show help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand prompt; and not __fish_seen_subcommand_from show help" -f -a "show" -d 'Show the system prompt that an agent\'s model would be sent'
complete -c flock -n "__fish_flock_using_subcommand prompt; and not __fish_seen_subcommand_from show help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c flock -n "__fish_flock_using_subcommand prompt; and __fish_seen_subcommand_from show" -l session -d 'Key of the session to show the prompt of [default: a new session]' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand prompt; and __fish_seen_subcommand_from show" -l model -d 'Model that would be sent the request [default: the agent\'s model]' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand prompt; and __fish_seen_subcommand_from show" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand prompt; and __fish_seen_subcommand_from show" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand prompt; and __fish_seen_subcommand_from show" -l request -d 'Show the exact body of the request, with prompt, tools and conversation'
complete -c flock -n "__fish_flock_using_subcommand prompt; and __fish_seen_subcommand_from show" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand prompt; and __fish_seen_subcommand_from show" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand prompt; and __fish_seen_subcommand_from show" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand prompt; and __fish_seen_subcommand_from show" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand prompt; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand prompt; and __fish_seen_subcommand_from help" -f -a "show" -d 'Show the system prompt that an agent\'s model would be sent'
complete -c flock -n "__fish_flock_using_subcommand prompt; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c flock -n "__fish_flock_using_subcommand replay" -l transcript -d 'File of a transcript that is not in this home' -r -F
complete -c flock -n "__fish_flock_using_subcommand replay" -l agent -d 'Agent that plays the transcript of --transcript' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand replay" -l save -d 'Write the replay to a file' -r -F
complete -c flock -n "__fish_flock_using_subcommand replay" -l against -d 'Saved replay to compare with, instead of what was recorded' -r -F
complete -c flock -n "__fish_flock_using_subcommand replay" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand replay" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand replay" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand replay" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand replay" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand replay" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand replay" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand sim" -l agents -d 'Number of agents' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand sim" -l work -d 'Number of past changes that are done again' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand sim" -l check-seconds -d 'Seconds that the checks take [default: as long as for the newest receipt, else 60]' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand sim" -l call-seconds -d 'Seconds that a model call takes' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand sim" -l review-minutes -d 'Minutes until a person has reviewed a change' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand sim" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand sim" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand sim" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand sim" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand sim" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand sim" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand sim" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand gateway; and not __fish_seen_subcommand_from serve check invite join help" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand gateway; and not __fish_seen_subcommand_from serve check invite join help" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand gateway; and not __fish_seen_subcommand_from serve check invite join help" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand gateway; and not __fish_seen_subcommand_from serve check invite join help" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand gateway; and not __fish_seen_subcommand_from serve check invite join help" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand gateway; and not __fish_seen_subcommand_from serve check invite join help" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand gateway; and not __fish_seen_subcommand_from serve check invite join help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand gateway; and not __fish_seen_subcommand_from serve check invite join help" -f -a "serve" -d 'Serve this home until SIGTERM'
complete -c flock -n "__fish_flock_using_subcommand gateway; and not __fish_seen_subcommand_from serve check invite join help" -f -a "check" -d 'Open this home as the gateway does, and report the result'
complete -c flock -n "__fish_flock_using_subcommand gateway; and not __fish_seen_subcommand_from serve check invite join help" -f -a "invite" -d 'Let gateways of other homes use the database beside this one'
complete -c flock -n "__fish_flock_using_subcommand gateway; and not __fish_seen_subcommand_from serve check invite join help" -f -a "join" -d 'Use the database and the agents of other gateways, beside them'
complete -c flock -n "__fish_flock_using_subcommand gateway; and not __fish_seen_subcommand_from serve check invite join help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c flock -n "__fish_flock_using_subcommand gateway; and __fish_seen_subcommand_from serve" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand gateway; and __fish_seen_subcommand_from serve" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand gateway; and __fish_seen_subcommand_from serve" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand gateway; and __fish_seen_subcommand_from serve" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand gateway; and __fish_seen_subcommand_from serve" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand gateway; and __fish_seen_subcommand_from serve" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand gateway; and __fish_seen_subcommand_from serve" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand gateway; and __fish_seen_subcommand_from check" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand gateway; and __fish_seen_subcommand_from check" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand gateway; and __fish_seen_subcommand_from check" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand gateway; and __fish_seen_subcommand_from check" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand gateway; and __fish_seen_subcommand_from check" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand gateway; and __fish_seen_subcommand_from check" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand gateway; and __fish_seen_subcommand_from check" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand gateway; and __fish_seen_subcommand_from invite" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand gateway; and __fish_seen_subcommand_from invite" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand gateway; and __fish_seen_subcommand_from invite" -l end -d 'Go back to one gateway: only this home\'s, from its next start on'
complete -c flock -n "__fish_flock_using_subcommand gateway; and __fish_seen_subcommand_from invite" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand gateway; and __fish_seen_subcommand_from invite" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand gateway; and __fish_seen_subcommand_from invite" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand gateway; and __fish_seen_subcommand_from invite" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand gateway; and __fish_seen_subcommand_from invite" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand gateway; and __fish_seen_subcommand_from join" -l files -d 'Folder with the files of the agents: the home of the gateway that invited, as this machine sees it' -r -F
complete -c flock -n "__fish_flock_using_subcommand gateway; and __fish_seen_subcommand_from join" -l schema -d 'Schema with the tables on the server [default: flock]' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand gateway; and __fish_seen_subcommand_from join" -l password-secret -d 'Secret with the password of the database\'s user [default: postgres]' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand gateway; and __fish_seen_subcommand_from join" -l home -d 'Home folder to use [default: $FLOCK_HOME, else ~/.flock]' -r -F
complete -c flock -n "__fish_flock_using_subcommand gateway; and __fish_seen_subcommand_from join" -l color -d 'Use of colour' -r -f -a "auto\t'Only on a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand gateway; and __fish_seen_subcommand_from join" -l json -d 'Print the result as JSON'
complete -c flock -n "__fish_flock_using_subcommand gateway; and __fish_seen_subcommand_from join" -s q -l quiet -d 'Print only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand gateway; and __fish_seen_subcommand_from join" -s v -l verbose -d 'Print more details'
complete -c flock -n "__fish_flock_using_subcommand gateway; and __fish_seen_subcommand_from join" -s y -l yes -d 'Never prompt: skip confirmations and use defaults, or fail if there is none'
complete -c flock -n "__fish_flock_using_subcommand gateway; and __fish_seen_subcommand_from join" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand gateway; and __fish_seen_subcommand_from help" -f -a "serve" -d 'Serve this home until SIGTERM'
complete -c flock -n "__fish_flock_using_subcommand gateway; and __fish_seen_subcommand_from help" -f -a "check" -d 'Open this home as the gateway does, and report the result'
complete -c flock -n "__fish_flock_using_subcommand gateway; and __fish_seen_subcommand_from help" -f -a "invite" -d 'Let gateways of other homes use the database beside this one'
complete -c flock -n "__fish_flock_using_subcommand gateway; and __fish_seen_subcommand_from help" -f -a "join" -d 'Use the database and the agents of other gateways, beside them'
complete -c flock -n "__fish_flock_using_subcommand gateway; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix engine update generations rollback approvals token bridge mcp skill project person freeze thaw resume checkpoint checkpoints rewind fork race schedule hook usage audit search receipt verify doctor backup restore home storage uninstall completions chat acp dashboard top channel session prompt replay sim gateway help" -f -a "init" -d 'Set up a home, or complete an unfinished one'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix engine update generations rollback approvals token bridge mcp skill project person freeze thaw resume checkpoint checkpoints rewind fork race schedule hook usage audit search receipt verify doctor backup restore home storage uninstall completions chat acp dashboard top channel session prompt replay sim gateway help" -f -a "start" -d 'Start the gateway in the background and keep it running'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix engine update generations rollback approvals token bridge mcp skill project person freeze thaw resume checkpoint checkpoints rewind fork race schedule hook usage audit search receipt verify doctor backup restore home storage uninstall completions chat acp dashboard top channel session prompt replay sim gateway help" -f -a "stop" -d 'Stop the gateway, its supervisor and the containers of this home'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix engine update generations rollback approvals token bridge mcp skill project person freeze thaw resume checkpoint checkpoints rewind fork race schedule hook usage audit search receipt verify doctor backup restore home storage uninstall completions chat acp dashboard top channel session prompt replay sim gateway help" -f -a "restart" -d 'Restart the gateway and OpenClaw, or start them'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix engine update generations rollback approvals token bridge mcp skill project person freeze thaw resume checkpoint checkpoints rewind fork race schedule hook usage audit search receipt verify doctor backup restore home storage uninstall completions chat acp dashboard top channel session prompt replay sim gateway help" -f -a "status" -d 'Show the state of the gateway, the agents and their sandboxes'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix engine update generations rollback approvals token bridge mcp skill project person freeze thaw resume checkpoint checkpoints rewind fork race schedule hook usage audit search receipt verify doctor backup restore home storage uninstall completions chat acp dashboard top channel session prompt replay sim gateway help" -f -a "logs" -d 'Show the log of the gateway, of OpenClaw or of the supervisor'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix engine update generations rollback approvals token bridge mcp skill project person freeze thaw resume checkpoint checkpoints rewind fork race schedule hook usage audit search receipt verify doctor backup restore home storage uninstall completions chat acp dashboard top channel session prompt replay sim gateway help" -f -a "service" -d 'Let the machine\'s service manager keep the gateway running'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix engine update generations rollback approvals token bridge mcp skill project person freeze thaw resume checkpoint checkpoints rewind fork race schedule hook usage audit search receipt verify doctor backup restore home storage uninstall completions chat acp dashboard top channel session prompt replay sim gateway help" -f -a "add" -d 'Add an agent'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix engine update generations rollback approvals token bridge mcp skill project person freeze thaw resume checkpoint checkpoints rewind fork race schedule hook usage audit search receipt verify doctor backup restore home storage uninstall completions chat acp dashboard top channel session prompt replay sim gateway help" -f -a "edit" -d 'Change an agent\'s settings'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix engine update generations rollback approvals token bridge mcp skill project person freeze thaw resume checkpoint checkpoints rewind fork race schedule hook usage audit search receipt verify doctor backup restore home storage uninstall completions chat acp dashboard top channel session prompt replay sim gateway help" -f -a "remove" -d 'Remove an agent'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix engine update generations rollback approvals token bridge mcp skill project person freeze thaw resume checkpoint checkpoints rewind fork race schedule hook usage audit search receipt verify doctor backup restore home storage uninstall completions chat acp dashboard top channel session prompt replay sim gateway help" -f -a "rename" -d 'Change an agent\'s id'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix engine update generations rollback approvals token bridge mcp skill project person freeze thaw resume checkpoint checkpoints rewind fork race schedule hook usage audit search receipt verify doctor backup restore home storage uninstall completions chat acp dashboard top channel session prompt replay sim gateway help" -f -a "list" -d 'List the agents'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix engine update generations rollback approvals token bridge mcp skill project person freeze thaw resume checkpoint checkpoints rewind fork race schedule hook usage audit search receipt verify doctor backup restore home storage uninstall completions chat acp dashboard top channel session prompt replay sim gateway help" -f -a "tasks" -d 'List the tasks that agents were given, with their states'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix engine update generations rollback approvals token bridge mcp skill project person freeze thaw resume checkpoint checkpoints rewind fork race schedule hook usage audit search receipt verify doctor backup restore home storage uninstall completions chat acp dashboard top channel session prompt replay sim gateway help" -f -a "config" -d 'Show, change or check the configuration'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix engine update generations rollback approvals token bridge mcp skill project person freeze thaw resume checkpoint checkpoints rewind fork race schedule hook usage audit search receipt verify doctor backup restore home storage uninstall completions chat acp dashboard top channel session prompt replay sim gateway help" -f -a "nix" -d 'Manage agents\' packages in the shared store'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix engine update generations rollback approvals token bridge mcp skill project person freeze thaw resume checkpoint checkpoints rewind fork race schedule hook usage audit search receipt verify doctor backup restore home storage uninstall completions chat acp dashboard top channel session prompt replay sim gateway help" -f -a "engine" -d 'Use more container engines than the machine\'s own'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix engine update generations rollback approvals token bridge mcp skill project person freeze thaw resume checkpoint checkpoints rewind fork race schedule hook usage audit search receipt verify doctor backup restore home storage uninstall completions chat acp dashboard top channel session prompt replay sim gateway help" -f -a "update" -d 'Update OpenClaw or flock itself, or go back to the previous version'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix engine update generations rollback approvals token bridge mcp skill project person freeze thaw resume checkpoint checkpoints rewind fork race schedule hook usage audit search receipt verify doctor backup restore home storage uninstall completions chat acp dashboard top channel session prompt replay sim gateway help" -f -a "generations" -d 'List the generations of this home, or show one'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix engine update generations rollback approvals token bridge mcp skill project person freeze thaw resume checkpoint checkpoints rewind fork race schedule hook usage audit search receipt verify doctor backup restore home storage uninstall completions chat acp dashboard top channel session prompt replay sim gateway help" -f -a "rollback" -d 'Go back to an earlier generation of this home'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix engine update generations rollback approvals token bridge mcp skill project person freeze thaw resume checkpoint checkpoints rewind fork race schedule hook usage audit search receipt verify doctor backup restore home storage uninstall completions chat acp dashboard top channel session prompt replay sim gateway help" -f -a "approvals" -d 'Show, approve, answer, deny and revoke the requests of agents'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix engine update generations rollback approvals token bridge mcp skill project person freeze thaw resume checkpoint checkpoints rewind fork race schedule hook usage audit search receipt verify doctor backup restore home storage uninstall completions chat acp dashboard top channel session prompt replay sim gateway help" -f -a "token" -d 'Make, list and revoke the tokens of clients'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix engine update generations rollback approvals token bridge mcp skill project person freeze thaw resume checkpoint checkpoints rewind fork race schedule hook usage audit search receipt verify doctor backup restore home storage uninstall completions chat acp dashboard top channel session prompt replay sim gateway help" -f -a "bridge" -d 'Let people join channels from other platforms'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix engine update generations rollback approvals token bridge mcp skill project person freeze thaw resume checkpoint checkpoints rewind fork race schedule hook usage audit search receipt verify doctor backup restore home storage uninstall completions chat acp dashboard top channel session prompt replay sim gateway help" -f -a "mcp" -d 'Give agents the tools of MCP servers'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix engine update generations rollback approvals token bridge mcp skill project person freeze thaw resume checkpoint checkpoints rewind fork race schedule hook usage audit search receipt verify doctor backup restore home storage uninstall completions chat acp dashboard top channel session prompt replay sim gateway help" -f -a "skill" -d 'Import skills, and see what they contain'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix engine update generations rollback approvals token bridge mcp skill project person freeze thaw resume checkpoint checkpoints rewind fork race schedule hook usage audit search receipt verify doctor backup restore home storage uninstall completions chat acp dashboard top channel session prompt replay sim gateway help" -f -a "project" -d 'Let agents work on a git repository'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix engine update generations rollback approvals token bridge mcp skill project person freeze thaw resume checkpoint checkpoints rewind fork race schedule hook usage audit search receipt verify doctor backup restore home storage uninstall completions chat acp dashboard top channel session prompt replay sim gateway help" -f -a "person" -d 'Add people with rights of their own, and manage those who come from other platforms'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix engine update generations rollback approvals token bridge mcp skill project person freeze thaw resume checkpoint checkpoints rewind fork race schedule hook usage audit search receipt verify doctor backup restore home storage uninstall completions chat acp dashboard top channel session prompt replay sim gateway help" -f -a "freeze" -d 'Freeze an agent, or all of them'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix engine update generations rollback approvals token bridge mcp skill project person freeze thaw resume checkpoint checkpoints rewind fork race schedule hook usage audit search receipt verify doctor backup restore home storage uninstall completions chat acp dashboard top channel session prompt replay sim gateway help" -f -a "thaw" -d 'Thaw a frozen agent, or all of them'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix engine update generations rollback approvals token bridge mcp skill project person freeze thaw resume checkpoint checkpoints rewind fork race schedule hook usage audit search receipt verify doctor backup restore home storage uninstall completions chat acp dashboard top channel session prompt replay sim gateway help" -f -a "resume" -d 'Try a used-up quota now, before its time'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix engine update generations rollback approvals token bridge mcp skill project person freeze thaw resume checkpoint checkpoints rewind fork race schedule hook usage audit search receipt verify doctor backup restore home storage uninstall completions chat acp dashboard top channel session prompt replay sim gateway help" -f -a "checkpoint" -d 'Make a checkpoint of an agent'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix engine update generations rollback approvals token bridge mcp skill project person freeze thaw resume checkpoint checkpoints rewind fork race schedule hook usage audit search receipt verify doctor backup restore home storage uninstall completions chat acp dashboard top channel session prompt replay sim gateway help" -f -a "checkpoints" -d 'List the checkpoints of an agent, newest first'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix engine update generations rollback approvals token bridge mcp skill project person freeze thaw resume checkpoint checkpoints rewind fork race schedule hook usage audit search receipt verify doctor backup restore home storage uninstall completions chat acp dashboard top channel session prompt replay sim gateway help" -f -a "rewind" -d 'Set an agent back to a checkpoint'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix engine update generations rollback approvals token bridge mcp skill project person freeze thaw resume checkpoint checkpoints rewind fork race schedule hook usage audit search receipt verify doctor backup restore home storage uninstall completions chat acp dashboard top channel session prompt replay sim gateway help" -f -a "fork" -d 'Make a second agent, or a second channel with its team, that goes on from where the first one is'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix engine update generations rollback approvals token bridge mcp skill project person freeze thaw resume checkpoint checkpoints rewind fork race schedule hook usage audit search receipt verify doctor backup restore home storage uninstall completions chat acp dashboard top channel session prompt replay sim gateway help" -f -a "race" -d 'Let several copies of a channel\'s team work on the same task, and merge the best result'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix engine update generations rollback approvals token bridge mcp skill project person freeze thaw resume checkpoint checkpoints rewind fork race schedule hook usage audit search receipt verify doctor backup restore home storage uninstall completions chat acp dashboard top channel session prompt replay sim gateway help" -f -a "schedule" -d 'Give a text to a channel or an agent at certain times'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix engine update generations rollback approvals token bridge mcp skill project person freeze thaw resume checkpoint checkpoints rewind fork race schedule hook usage audit search receipt verify doctor backup restore home storage uninstall completions chat acp dashboard top channel session prompt replay sim gateway help" -f -a "hook" -d 'Let other services send to a channel by webhooks'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix engine update generations rollback approvals token bridge mcp skill project person freeze thaw resume checkpoint checkpoints rewind fork race schedule hook usage audit search receipt verify doctor backup restore home storage uninstall completions chat acp dashboard top channel session prompt replay sim gateway help" -f -a "usage" -d 'Show the usage of models and its cost'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix engine update generations rollback approvals token bridge mcp skill project person freeze thaw resume checkpoint checkpoints rewind fork race schedule hook usage audit search receipt verify doctor backup restore home storage uninstall completions chat acp dashboard top channel session prompt replay sim gateway help" -f -a "audit" -d 'Show the audit, or verify that it is intact'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix engine update generations rollback approvals token bridge mcp skill project person freeze thaw resume checkpoint checkpoints rewind fork race schedule hook usage audit search receipt verify doctor backup restore home storage uninstall completions chat acp dashboard top channel session prompt replay sim gateway help" -f -a "search" -d 'Search memory, findings, transcripts, vaults and channels'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix engine update generations rollback approvals token bridge mcp skill project person freeze thaw resume checkpoint checkpoints rewind fork race schedule hook usage audit search receipt verify doctor backup restore home storage uninstall completions chat acp dashboard top channel session prompt replay sim gateway help" -f -a "receipt" -d 'Show, export and check receipts of delivered work'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix engine update generations rollback approvals token bridge mcp skill project person freeze thaw resume checkpoint checkpoints rewind fork race schedule hook usage audit search receipt verify doctor backup restore home storage uninstall completions chat acp dashboard top channel session prompt replay sim gateway help" -f -a "verify" -d 'Check a receipt, and run its checks again'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix engine update generations rollback approvals token bridge mcp skill project person freeze thaw resume checkpoint checkpoints rewind fork race schedule hook usage audit search receipt verify doctor backup restore home storage uninstall completions chat acp dashboard top channel session prompt replay sim gateway help" -f -a "doctor" -d 'Find problems, and show how to fix them'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix engine update generations rollback approvals token bridge mcp skill project person freeze thaw resume checkpoint checkpoints rewind fork race schedule hook usage audit search receipt verify doctor backup restore home storage uninstall completions chat acp dashboard top channel session prompt replay sim gateway help" -f -a "backup" -d 'Back up the whole home into one file, or verify a backup'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix engine update generations rollback approvals token bridge mcp skill project person freeze thaw resume checkpoint checkpoints rewind fork race schedule hook usage audit search receipt verify doctor backup restore home storage uninstall completions chat acp dashboard top channel session prompt replay sim gateway help" -f -a "restore" -d 'Restore a home from a backup, or a damaged database from its newest intact copy'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix engine update generations rollback approvals token bridge mcp skill project person freeze thaw resume checkpoint checkpoints rewind fork race schedule hook usage audit search receipt verify doctor backup restore home storage uninstall completions chat acp dashboard top channel session prompt replay sim gateway help" -f -a "home" -d 'Move the home\'s database to a server of PostgreSQL, or back into a file'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix engine update generations rollback approvals token bridge mcp skill project person freeze thaw resume checkpoint checkpoints rewind fork race schedule hook usage audit search receipt verify doctor backup restore home storage uninstall completions chat acp dashboard top channel session prompt replay sim gateway help" -f -a "storage" -d 'Keep checkpoints, conversations and vaults in a second place, and bring them back'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix engine update generations rollback approvals token bridge mcp skill project person freeze thaw resume checkpoint checkpoints rewind fork race schedule hook usage audit search receipt verify doctor backup restore home storage uninstall completions chat acp dashboard top channel session prompt replay sim gateway help" -f -a "uninstall" -d 'Remove flock from this machine, or OpenClaw from the home'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix engine update generations rollback approvals token bridge mcp skill project person freeze thaw resume checkpoint checkpoints rewind fork race schedule hook usage audit search receipt verify doctor backup restore home storage uninstall completions chat acp dashboard top channel session prompt replay sim gateway help" -f -a "completions" -d 'Print a completion script for a shell'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix engine update generations rollback approvals token bridge mcp skill project person freeze thaw resume checkpoint checkpoints rewind fork race schedule hook usage audit search receipt verify doctor backup restore home storage uninstall completions chat acp dashboard top channel session prompt replay sim gateway help" -f -a "chat" -d 'Talk with an agent'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix engine update generations rollback approvals token bridge mcp skill project person freeze thaw resume checkpoint checkpoints rewind fork race schedule hook usage audit search receipt verify doctor backup restore home storage uninstall completions chat acp dashboard top channel session prompt replay sim gateway help" -f -a "acp" -d 'Connect an editor to an agent or a channel'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix engine update generations rollback approvals token bridge mcp skill project person freeze thaw resume checkpoint checkpoints rewind fork race schedule hook usage audit search receipt verify doctor backup restore home storage uninstall completions chat acp dashboard top channel session prompt replay sim gateway help" -f -a "dashboard" -d 'Open the dashboard in a browser'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix engine update generations rollback approvals token bridge mcp skill project person freeze thaw resume checkpoint checkpoints rewind fork race schedule hook usage audit search receipt verify doctor backup restore home storage uninstall completions chat acp dashboard top channel session prompt replay sim gateway help" -f -a "top" -d 'Watch the team on the terminal, as it works'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix engine update generations rollback approvals token bridge mcp skill project person freeze thaw resume checkpoint checkpoints rewind fork race schedule hook usage audit search receipt verify doctor backup restore home storage uninstall completions chat acp dashboard top channel session prompt replay sim gateway help" -f -a "channel" -d 'Read, write and manage channels'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix engine update generations rollback approvals token bridge mcp skill project person freeze thaw resume checkpoint checkpoints rewind fork race schedule hook usage audit search receipt verify doctor backup restore home storage uninstall completions chat acp dashboard top channel session prompt replay sim gateway help" -f -a "session" -d 'Show, compact, reset, export and import the sessions of agents'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix engine update generations rollback approvals token bridge mcp skill project person freeze thaw resume checkpoint checkpoints rewind fork race schedule hook usage audit search receipt verify doctor backup restore home storage uninstall completions chat acp dashboard top channel session prompt replay sim gateway help" -f -a "prompt" -d 'Show what is sent to a model'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix engine update generations rollback approvals token bridge mcp skill project person freeze thaw resume checkpoint checkpoints rewind fork race schedule hook usage audit search receipt verify doctor backup restore home storage uninstall completions chat acp dashboard top channel session prompt replay sim gateway help" -f -a "replay" -d 'Play a recorded session again, and show what the present code would send'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix engine update generations rollback approvals token bridge mcp skill project person freeze thaw resume checkpoint checkpoints rewind fork race schedule hook usage audit search receipt verify doctor backup restore home storage uninstall completions chat acp dashboard top channel session prompt replay sim gateway help" -f -a "sim" -d 'Show what a team of this size would cost on a project, and where its agents would wait for each other'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix engine update generations rollback approvals token bridge mcp skill project person freeze thaw resume checkpoint checkpoints rewind fork race schedule hook usage audit search receipt verify doctor backup restore home storage uninstall completions chat acp dashboard top channel session prompt replay sim gateway help" -f -a "gateway" -d 'Have several gateways use one database, and share its agents'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix engine update generations rollback approvals token bridge mcp skill project person freeze thaw resume checkpoint checkpoints rewind fork race schedule hook usage audit search receipt verify doctor backup restore home storage uninstall completions chat acp dashboard top channel session prompt replay sim gateway help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from service" -f -a "install" -d 'Write the unit file of the service, and start the service'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from service" -f -a "remove" -d 'Stop the service, and remove its unit file'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from config" -f -a "get" -d 'Print the configuration, or one value of it'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from config" -f -a "set" -d 'Change one value'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from config" -f -a "unset" -d 'Remove one value'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from config" -f -a "validate" -d 'Check that the configuration can be used'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from nix" -f -a "install" -d 'Install packages for an agent'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from nix" -f -a "remove" -d 'Remove packages from an agent'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from nix" -f -a "list" -d 'List the installed packages'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from nix" -f -a "gc" -d 'Delete packages that no agent needs from the store'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from nix" -f -a "pin" -d 'Show the pin of the package set, or move it'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from nix" -f -a "rollback" -d 'Undo the last change of an agent\'s packages'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from engine" -f -a "add" -d 'Add an engine after it was checked'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from engine" -f -a "list" -d 'List the engines with their agents'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from engine" -f -a "show" -d 'Show an engine'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from engine" -f -a "drain" -d 'Move the agents of an engine to others, each when its turn has ended'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from engine" -f -a "renew" -d 'Replace the certificates of an engine with TLS, or the access to a cluster'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from engine" -f -a "image" -d 'Make the image of the sandboxes in a Kubernetes cluster'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from engine" -f -a "remove" -d 'Remove an engine with all that this home has in it'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from generations" -f -a "show" -d 'Show a generation, and how it differs from the one before'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from approvals" -f -a "list" -d 'List the open requests'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from approvals" -f -a "show" -d 'Show one request: the exact action, the agent and the reason'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from approvals" -f -a "approve" -d 'Approve a request, or restore a revoked grant'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from approvals" -f -a "answer" -d 'Answer the question of an MCP server'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from approvals" -f -a "deny" -d 'Deny a request, or withdraw an approval that has had no effect yet'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from approvals" -f -a "revoke" -d 'Revoke what a request granted: a host, a folder or a package'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from token" -f -a "add" -d 'Make a token and print it'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from token" -f -a "list" -d 'List the tokens with their rights, agents and expiry times'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from token" -f -a "revoke" -d 'Revoke a token and end the streams that it opened'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from bridge" -f -a "add" -d 'Add an account on a platform'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from bridge" -f -a "remove" -d 'Remove a bridge with its token and its links'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from bridge" -f -a "link" -d 'Link a channel with a channel of a platform'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from bridge" -f -a "unlink" -d 'End a link'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from bridge" -f -a "allow" -d 'Let more people be heard over a link'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from bridge" -f -a "disallow" -d 'Hear some people no longer over a link'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from bridge" -f -a "list" -d 'List the bridges and their links'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from bridge" -f -a "status" -d 'Show how the bridges are: connected since when, the last error, what waits'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from bridge" -f -a "pause" -d 'Pause a bridge, or one of its links'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from bridge" -f -a "resume" -d 'Resume a paused bridge or link'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from bridge" -f -a "test" -d 'Send a test message over a link, or over each link of a bridge, and look whether it arrived'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from mcp" -f -a "add" -d 'Add a server'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from mcp" -f -a "import" -d 'Add the servers of a file in the form that other programs use: {"mcpServers": {…}}'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from mcp" -f -a "list" -d 'List the servers'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from mcp" -f -a "show" -d 'Show a server, its grants and its state'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from mcp" -f -a "test" -d 'Start a server if it does not run, and list its tools'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from mcp" -f -a "update" -d 'Replace the package of a server by another version, or fetch it again'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from mcp" -f -a "grant" -d 'Let an agent call tools of a server, or let the server ask the agent\'s model meanwhile'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from mcp" -f -a "revoke" -d 'Take tools, or what the server may ask for, away from an agent'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from mcp" -f -a "secret" -d 'Store a secret of a server, read from stdin or asked for'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from mcp" -f -a "login" -d 'Sign in to a server at a URL, with a browser'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from mcp" -f -a "logout" -d 'End the sign-in to a server: revoke its tokens, if the server offers that, and remove them'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from mcp" -f -a "remove" -d 'Remove a server with its grants and its sandbox'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from skill" -f -a "add" -d 'Import a skill from a folder or a git repository'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from skill" -f -a "list" -d 'List the skills: where they come from, and whether they are what was imported'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from skill" -f -a "show" -d 'Show a skill: what it contains, where it comes from, who can read it'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from skill" -f -a "update" -d 'Show what changed at the source of a skill, and take it over'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from skill" -f -a "adopt" -d 'Make an imported skill your own: keep its files as they are, and forget where it came from'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from skill" -f -a "remove" -d 'Remove a skill with all its files'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from project" -f -a "add" -d 'Add a repository that agents work on'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from project" -f -a "list" -d 'List the projects'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from project" -f -a "show" -d 'Show a project: its tip, its agents\' branches, what is submitted and what is claimed'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from project" -f -a "diff" -d 'Show what an agent changed, in colour and by file'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from project" -f -a "log" -d 'Show the commits of the tip, newest first'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from project" -f -a "sync" -d 'Fetch what is new in your repository'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from project" -f -a "assign" -d 'Give agents a clone of a project'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from project" -f -a "unassign" -d 'Take a project away from agents'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from project" -f -a "remove" -d 'Remove a project with flock\'s repository and the agents\' branches in it'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from project" -f -a "submit" -d 'Submit an agent\'s branch: it is joined with the tip once its checks passed'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from project" -f -a "submissions" -d 'List what was submitted, newest first'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from project" -f -a "accept" -d 'Accept a submission that waits for a person'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from project" -f -a "refuse" -d 'Send a submission back to its author'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from project" -f -a "withdraw" -d 'Take a submission out of the queue'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from project" -f -a "land" -d 'Hand the project\'s tip to your repository, as a branch, a patch or a pull request'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from person" -f -a "add" -d 'Add a person'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from person" -f -a "list" -d 'List the people with their roles and accounts'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from person" -f -a "show" -d 'Show one person with tokens, browsers and budget'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from person" -f -a "set" -d 'Change the role, the agents, the channels or the budget of a person'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from person" -f -a "token" -d 'Make a token of a person and print it'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from person" -f -a "remove" -d 'Remove a person, with all tokens, browsers and accounts'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from person" -f -a "link" -d 'Bind an account to a person'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from person" -f -a "unlink" -d 'Forget an account: its next message makes a person of its own'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from person" -f -a "rename" -d 'Give a person another name'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from race" -f -a "list" -d 'List the races, the newest first'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from race" -f -a "show" -d 'Show a race with what each copy has done'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from race" -f -a "keep" -d 'Choose the winner yourself, before the work of another one is merged'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from race" -f -a "stop" -d 'End a race without a winner'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from race" -f -a "drop" -d 'Remove the copies that did not win, with their agents, files and branches'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from schedule" -f -a "add" -d 'Add a schedule'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from schedule" -f -a "list" -d 'List the schedules with their next times'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from schedule" -f -a "show" -d 'Show a schedule'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from schedule" -f -a "pause" -d 'Pause a schedule; its times pass without effect'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from schedule" -f -a "resume" -d 'Let a paused schedule go on'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from schedule" -f -a "budget" -d 'Change what the runs of a schedule may use in a day'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from schedule" -f -a "run" -d 'Run a schedule now, besides its times'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from schedule" -f -a "history" -d 'Show what became of a schedule\'s times, the newest first'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from schedule" -f -a "remove" -d 'Remove a schedule with its history'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from hook" -f -a "add" -d 'Add a webhook, and show its address and its secret'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from hook" -f -a "list" -d 'List the webhooks'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from hook" -f -a "show" -d 'Show a webhook'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from hook" -f -a "pause" -d 'Pause a webhook; its deliveries are refused'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from hook" -f -a "resume" -d 'Let a paused webhook go on'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from hook" -f -a "history" -d 'Show what came to a webhook, the newest first'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from hook" -f -a "preview" -d 'Show the message that a webhook would post'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from hook" -f -a "remove" -d 'Remove a webhook with its secret and its history'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from receipt" -f -a "list" -d 'List receipts, newest first'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from receipt" -f -a "show" -d 'Show a receipt: what was checked, and how it ended'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from receipt" -f -a "export" -d 'Write a receipt with all that is needed to check it elsewhere into one file'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from receipt" -f -a "key" -d 'Print the key that signs receipts, as a line for a file of allowed signers'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from home" -f -a "move" -d 'Move the database to another place, and use it there'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from storage" -f -a "check" -d 'Try everything that flock needs of the place'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from storage" -f -a "list" -d 'List the checkpoints and the copies of vaults in the place, newest first'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from storage" -f -a "push" -d 'Copy the newest checkpoints now'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from storage" -f -a "pull" -d 'Bring a checkpoint or a vault from the place to this home'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from storage" -f -a "sweep" -d 'Delete the oldest checkpoints in the place, and what only they needed'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from storage" -f -a "forget" -d 'Delete everything in the place of an agent or a vault that was removed'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from storage" -f -a "take" -d 'Make the place this home\'s, after another home has used it'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from dashboard" -f -a "sessions" -d 'List the browsers that are signed in, or sign them out'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from channel" -f -a "list" -d 'List the channels'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from channel" -f -a "create" -d 'Create a channel'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from channel" -f -a "post" -d 'Post a message to a channel'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from channel" -f -a "read" -d 'Show the messages of a channel'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from channel" -f -a "assign" -d 'Add members to a channel, or remove them'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from channel" -f -a "rename" -d 'Change the name that people see of a channel'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from channel" -f -a "topic" -d 'Change the topic of a channel'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from channel" -f -a "archive" -d 'Archive a channel'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from channel" -f -a "reopen" -d 'Reopen an archived channel'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from session" -f -a "list" -d 'List the sessions, last used first'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from session" -f -a "show" -d 'Show how full a session is, and its last compaction'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from session" -f -a "compact" -d 'Compact a session now'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from session" -f -a "reset" -d 'Start a session anew'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from session" -f -a "export" -d 'Export a session\'s transcript as one JSON document'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from session" -f -a "import" -d 'Create a session from an exported one'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from prompt" -f -a "show" -d 'Show the system prompt that an agent\'s model would be sent'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from gateway" -f -a "serve" -d 'Serve this home until SIGTERM'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from gateway" -f -a "check" -d 'Open this home as the gateway does, and report the result'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from gateway" -f -a "invite" -d 'Let gateways of other homes use the database beside this one'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from gateway" -f -a "join" -d 'Use the database and the agents of other gateways, beside them'

# util-linux's flock has the same name: its lines begin with a file, so file names stay on offer.
complete -c flock -n "__fish_flock_needs_command" -F

# What only a home knows: agents, channels, sessions, places of the configuration. --version comes first because util-linux's
# flock, where that is the one on PATH, then prints its version and locks nothing; its answer has no tab.
function __flock_values
    set -l words (commandline -opc)
    command flock --version --complete (count $words) -- $words (commandline -ct) 2>/dev/null | string match -e \t
end
complete -c flock -n "not __fish_flock_needs_command" -a "(__flock_values)"
