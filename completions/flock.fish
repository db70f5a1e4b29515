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

complete -c flock -n "__fish_flock_needs_command" -l home -d 'Use this home instead of $FLOCK_HOME or ~/.flock' -r -F
complete -c flock -n "__fish_flock_needs_command" -l color -d 'Use colour' -r -f -a "auto\t'On a terminal that does not ask for none'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_needs_command" -l json -d 'Print JSON for programs'
complete -c flock -n "__fish_flock_needs_command" -s q -l quiet -d 'Say less: only data, warnings and errors'
complete -c flock -n "__fish_flock_needs_command" -s v -l verbose -d 'Say more; twice for still more'
complete -c flock -n "__fish_flock_needs_command" -s y -l yes -d 'Never ask: take the default, or fail where there is none'
complete -c flock -n "__fish_flock_needs_command" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_needs_command" -s V -l version -d 'Print version'
complete -c flock -n "__fish_flock_needs_command" -f -a "init" -d 'Set up a home, or complete one that is half made'
complete -c flock -n "__fish_flock_needs_command" -f -a "start" -d 'Start the gateway in the background and keep it running'
complete -c flock -n "__fish_flock_needs_command" -f -a "stop" -d 'Stop the gateway, its supervisor and the containers of this home'
complete -c flock -n "__fish_flock_needs_command" -f -a "restart" -d 'Restart the gateway and OpenClaw, or start them'
complete -c flock -n "__fish_flock_needs_command" -f -a "status" -d 'Show how the gateway, the agents and their sandboxes stand'
complete -c flock -n "__fish_flock_needs_command" -f -a "logs" -d 'Show the log of the gateway, of OpenClaw or of the supervisor'
complete -c flock -n "__fish_flock_needs_command" -f -a "service" -d 'Have the machine\'s service manager keep the gateway running'
complete -c flock -n "__fish_flock_needs_command" -f -a "add" -d 'Add an agent'
complete -c flock -n "__fish_flock_needs_command" -f -a "edit" -d 'Change an agent\'s settings'
complete -c flock -n "__fish_flock_needs_command" -f -a "remove" -d 'Remove an agent'
complete -c flock -n "__fish_flock_needs_command" -f -a "rm" -d 'Remove an agent'
complete -c flock -n "__fish_flock_needs_command" -f -a "rename" -d 'Give an agent another id'
complete -c flock -n "__fish_flock_needs_command" -f -a "list" -d 'List the agents'
complete -c flock -n "__fish_flock_needs_command" -f -a "ls" -d 'List the agents'
complete -c flock -n "__fish_flock_needs_command" -f -a "tasks" -d 'List the tasks: what agents were asked, and what became of it'
complete -c flock -n "__fish_flock_needs_command" -f -a "config" -d 'Read, change or check the configuration'
complete -c flock -n "__fish_flock_needs_command" -f -a "nix" -d 'Manage agents\' packages in the shared store'
complete -c flock -n "__fish_flock_needs_command" -f -a "update" -d 'Update the OpenClaw gateway or flock itself, or go back to the version before'
complete -c flock -n "__fish_flock_needs_command" -f -a "approvals" -d 'See what agents ask for, and approve or deny it'
complete -c flock -n "__fish_flock_needs_command" -f -a "token" -d 'Make, list and revoke tokens of clients'
complete -c flock -n "__fish_flock_needs_command" -f -a "freeze" -d 'Hold an agent still, or all of them'
complete -c flock -n "__fish_flock_needs_command" -f -a "thaw" -d 'Let a frozen agent go on, or all of them'
complete -c flock -n "__fish_flock_needs_command" -f -a "usage" -d 'Show what models were asked and what it cost'
complete -c flock -n "__fish_flock_needs_command" -f -a "audit" -d 'Show what was done by whom, or check that this record is whole'
complete -c flock -n "__fish_flock_needs_command" -f -a "doctor" -d 'Look for what is broken, and say what mends it'
complete -c flock -n "__fish_flock_needs_command" -f -a "restore" -d 'Bring back a damaged or lost database from its newest whole backup'
complete -c flock -n "__fish_flock_needs_command" -f -a "uninstall" -d 'Remove flock from this machine, or OpenClaw from the home'
complete -c flock -n "__fish_flock_needs_command" -f -a "completions" -d 'Print a completion script for a shell'
complete -c flock -n "__fish_flock_needs_command" -f -a "chat" -d 'Talk with an agent'
complete -c flock -n "__fish_flock_needs_command" -f -a "channel" -d 'Read and write channels, and say who takes part'
complete -c flock -n "__fish_flock_needs_command" -f -a "session" -d 'Look at conversations, make room in them, begin them anew, keep and bring them'
complete -c flock -n "__fish_flock_needs_command" -f -a "prompt" -d 'Look at what a model is shown'
complete -c flock -n "__fish_flock_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c flock -n "__fish_flock_using_subcommand init" -l model -d 'The model agents use unless they have one of their own, as in anthropic/claude-opus-4-5' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand init" -l token-file -d 'Take the owner\'s token for the HTTP API from a file, or from stdin with "-"' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand init" -l port -d 'The gateway\'s port on 127.0.0.1; without it 3779, or the next free one' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand init" -l gateway -d 'Which gateway to set up' -r -f -a "native\t'The one in this program; it needs nothing more'
openclaw\t'OpenClaw as well: cloned and built here'"
complete -c flock -n "__fish_flock_using_subcommand init" -l repo -d 'Where OpenClaw is cloned from: any URL that git takes, or a path' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand init" -l ref -d 'The branch, tag or commit of OpenClaw; an update follows a branch' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand init" -l home -d 'Use this home instead of $FLOCK_HOME or ~/.flock' -r -F
complete -c flock -n "__fish_flock_using_subcommand init" -l color -d 'Use colour' -r -f -a "auto\t'On a terminal that does not ask for none'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand init" -l no-images -d 'Leave out the images and the package store; the first add, or another init, makes them'
complete -c flock -n "__fish_flock_using_subcommand init" -l json -d 'Print JSON for programs'
complete -c flock -n "__fish_flock_using_subcommand init" -s q -l quiet -d 'Say less: only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand init" -s v -l verbose -d 'Say more; twice for still more'
complete -c flock -n "__fish_flock_using_subcommand init" -s y -l yes -d 'Never ask: take the default, or fail where there is none'
complete -c flock -n "__fish_flock_using_subcommand init" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand start" -l home -d 'Use this home instead of $FLOCK_HOME or ~/.flock' -r -F
complete -c flock -n "__fish_flock_using_subcommand start" -l color -d 'Use colour' -r -f -a "auto\t'On a terminal that does not ask for none'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand start" -l foreground -d 'Stay in the foreground, for a service manager'
complete -c flock -n "__fish_flock_using_subcommand start" -l json -d 'Print JSON for programs'
complete -c flock -n "__fish_flock_using_subcommand start" -s q -l quiet -d 'Say less: only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand start" -s v -l verbose -d 'Say more; twice for still more'
complete -c flock -n "__fish_flock_using_subcommand start" -s y -l yes -d 'Never ask: take the default, or fail where there is none'
complete -c flock -n "__fish_flock_using_subcommand start" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand stop" -l home -d 'Use this home instead of $FLOCK_HOME or ~/.flock' -r -F
complete -c flock -n "__fish_flock_using_subcommand stop" -l color -d 'Use colour' -r -f -a "auto\t'On a terminal that does not ask for none'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand stop" -l json -d 'Print JSON for programs'
complete -c flock -n "__fish_flock_using_subcommand stop" -s q -l quiet -d 'Say less: only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand stop" -s v -l verbose -d 'Say more; twice for still more'
complete -c flock -n "__fish_flock_using_subcommand stop" -s y -l yes -d 'Never ask: take the default, or fail where there is none'
complete -c flock -n "__fish_flock_using_subcommand stop" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand restart" -l home -d 'Use this home instead of $FLOCK_HOME or ~/.flock' -r -F
complete -c flock -n "__fish_flock_using_subcommand restart" -l color -d 'Use colour' -r -f -a "auto\t'On a terminal that does not ask for none'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand restart" -l json -d 'Print JSON for programs'
complete -c flock -n "__fish_flock_using_subcommand restart" -s q -l quiet -d 'Say less: only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand restart" -s v -l verbose -d 'Say more; twice for still more'
complete -c flock -n "__fish_flock_using_subcommand restart" -s y -l yes -d 'Never ask: take the default, or fail where there is none'
complete -c flock -n "__fish_flock_using_subcommand restart" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand status" -l home -d 'Use this home instead of $FLOCK_HOME or ~/.flock' -r -F
complete -c flock -n "__fish_flock_using_subcommand status" -l color -d 'Use colour' -r -f -a "auto\t'On a terminal that does not ask for none'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand status" -l probe -d 'Probe the sandboxes now, from inside'
complete -c flock -n "__fish_flock_using_subcommand status" -l json -d 'Print JSON for programs'
complete -c flock -n "__fish_flock_using_subcommand status" -s q -l quiet -d 'Say less: only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand status" -s v -l verbose -d 'Say more; twice for still more'
complete -c flock -n "__fish_flock_using_subcommand status" -s y -l yes -d 'Never ask: take the default, or fail where there is none'
complete -c flock -n "__fish_flock_using_subcommand status" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand logs" -s n -l lines -d 'So many of the last lines' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand logs" -l home -d 'Use this home instead of $FLOCK_HOME or ~/.flock' -r -F
complete -c flock -n "__fish_flock_using_subcommand logs" -l color -d 'Use colour' -r -f -a "auto\t'On a terminal that does not ask for none'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand logs" -s f -l follow -d 'Go on with what comes, over rotations'
complete -c flock -n "__fish_flock_using_subcommand logs" -l json -d 'Print JSON for programs'
complete -c flock -n "__fish_flock_using_subcommand logs" -s q -l quiet -d 'Say less: only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand logs" -s v -l verbose -d 'Say more; twice for still more'
complete -c flock -n "__fish_flock_using_subcommand logs" -s y -l yes -d 'Never ask: take the default, or fail where there is none'
complete -c flock -n "__fish_flock_using_subcommand logs" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand service; and not __fish_seen_subcommand_from install remove help" -l home -d 'Use this home instead of $FLOCK_HOME or ~/.flock' -r -F
complete -c flock -n "__fish_flock_using_subcommand service; and not __fish_seen_subcommand_from install remove help" -l color -d 'Use colour' -r -f -a "auto\t'On a terminal that does not ask for none'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand service; and not __fish_seen_subcommand_from install remove help" -l json -d 'Print JSON for programs'
complete -c flock -n "__fish_flock_using_subcommand service; and not __fish_seen_subcommand_from install remove help" -s q -l quiet -d 'Say less: only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand service; and not __fish_seen_subcommand_from install remove help" -s v -l verbose -d 'Say more; twice for still more'
complete -c flock -n "__fish_flock_using_subcommand service; and not __fish_seen_subcommand_from install remove help" -s y -l yes -d 'Never ask: take the default, or fail where there is none'
complete -c flock -n "__fish_flock_using_subcommand service; and not __fish_seen_subcommand_from install remove help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand service; and not __fish_seen_subcommand_from install remove help" -f -a "install" -d 'Write the service and start it'
complete -c flock -n "__fish_flock_using_subcommand service; and not __fish_seen_subcommand_from install remove help" -f -a "remove" -d 'Stop the service and remove it'
complete -c flock -n "__fish_flock_using_subcommand service; and not __fish_seen_subcommand_from install remove help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c flock -n "__fish_flock_using_subcommand service; and __fish_seen_subcommand_from install" -l root -d 'Only write or remove the file, below this folder, and start or stop nothing' -r -F
complete -c flock -n "__fish_flock_using_subcommand service; and __fish_seen_subcommand_from install" -l home -d 'Use this home instead of $FLOCK_HOME or ~/.flock' -r -F
complete -c flock -n "__fish_flock_using_subcommand service; and __fish_seen_subcommand_from install" -l color -d 'Use colour' -r -f -a "auto\t'On a terminal that does not ask for none'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand service; and __fish_seen_subcommand_from install" -l system -d 'For the system, also when not root'
complete -c flock -n "__fish_flock_using_subcommand service; and __fish_seen_subcommand_from install" -l user -d 'For the user, also when root'
complete -c flock -n "__fish_flock_using_subcommand service; and __fish_seen_subcommand_from install" -l json -d 'Print JSON for programs'
complete -c flock -n "__fish_flock_using_subcommand service; and __fish_seen_subcommand_from install" -s q -l quiet -d 'Say less: only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand service; and __fish_seen_subcommand_from install" -s v -l verbose -d 'Say more; twice for still more'
complete -c flock -n "__fish_flock_using_subcommand service; and __fish_seen_subcommand_from install" -s y -l yes -d 'Never ask: take the default, or fail where there is none'
complete -c flock -n "__fish_flock_using_subcommand service; and __fish_seen_subcommand_from install" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand service; and __fish_seen_subcommand_from remove" -l root -d 'Only write or remove the file, below this folder, and start or stop nothing' -r -F
complete -c flock -n "__fish_flock_using_subcommand service; and __fish_seen_subcommand_from remove" -l home -d 'Use this home instead of $FLOCK_HOME or ~/.flock' -r -F
complete -c flock -n "__fish_flock_using_subcommand service; and __fish_seen_subcommand_from remove" -l color -d 'Use colour' -r -f -a "auto\t'On a terminal that does not ask for none'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand service; and __fish_seen_subcommand_from remove" -l system -d 'For the system, also when not root'
complete -c flock -n "__fish_flock_using_subcommand service; and __fish_seen_subcommand_from remove" -l user -d 'For the user, also when root'
complete -c flock -n "__fish_flock_using_subcommand service; and __fish_seen_subcommand_from remove" -l json -d 'Print JSON for programs'
complete -c flock -n "__fish_flock_using_subcommand service; and __fish_seen_subcommand_from remove" -s q -l quiet -d 'Say less: only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand service; and __fish_seen_subcommand_from remove" -s v -l verbose -d 'Say more; twice for still more'
complete -c flock -n "__fish_flock_using_subcommand service; and __fish_seen_subcommand_from remove" -s y -l yes -d 'Never ask: take the default, or fail where there is none'
complete -c flock -n "__fish_flock_using_subcommand service; and __fish_seen_subcommand_from remove" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand service; and __fish_seen_subcommand_from help" -f -a "install" -d 'Write the service and start it'
complete -c flock -n "__fish_flock_using_subcommand service; and __fish_seen_subcommand_from help" -f -a "remove" -d 'Stop the service and remove it'
complete -c flock -n "__fish_flock_using_subcommand service; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c flock -n "__fish_flock_using_subcommand add" -l role -d 'What it is in the team' -r -f -a "orchestrator\t'Stands for the owner: makes channels, assigns members'
sysadmin\t'Looks after the machine; not sandboxed'
worker\t'Does the work'"
complete -c flock -n "__fish_flock_using_subcommand add" -l model -d 'Its model; without one the default model' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand add" -l archetype -d 'What it is good at: code-first-developer, code-reviewer, deep-researcher, ideation, product-developer, production-first-developer, project-manager, qa, security-adviser, or the name of a file in the home\'s archetypes/' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand add" -l runtime -d 'What runs its turns: flock itself, OpenClaw where that is installed, or an installed agent program' -r -f -a "native\t''
openclaw\t''
claude\t''
codex\t''
gemini\t''
opencode\t''"
complete -c flock -n "__fish_flock_using_subcommand add" -l effort -d 'How much its model thinks before it answers; left to the provider where it is not said' -r -f -a "off\t'Not at all, where the model can be told so'
low\t'A little'
medium\t'As usual'
high\t'Much'"
complete -c flock -n "__fish_flock_using_subcommand add" -l packages -d 'Packages for its profile, by their names in nixpkgs' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand add" -l network -d 'What its container reaches: nothing, or through the gateway what it is allowed' -r -f -a "none\t'Nothing'
proxy\t'Through the gateway, the hosts that it is allowed'"
complete -c flock -n "__fish_flock_using_subcommand add" -l egress -d 'A host it may reach, or "*.HOST" for all below it; ports 80 and 443 unless one is named' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand add" -l memory -d 'The most memory of its container, as in 2g' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand add" -l cpus -d 'The most cores of its container, as in 1.5' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand add" -l home -d 'Use this home instead of $FLOCK_HOME or ~/.flock' -r -F
complete -c flock -n "__fish_flock_using_subcommand add" -l color -d 'Use colour' -r -f -a "auto\t'On a terminal that does not ask for none'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand add" -l on-host -d 'Run its agent program on this machine itself, as you and with your rights, instead of in its container. A model without a provider in this home is then left to the program\'s own login'
complete -c flock -n "__fish_flock_using_subcommand add" -l no-container -d 'Leave out the container; it is made at the agent\'s first command'
complete -c flock -n "__fish_flock_using_subcommand add" -l json -d 'Print JSON for programs'
complete -c flock -n "__fish_flock_using_subcommand add" -s q -l quiet -d 'Say less: only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand add" -s v -l verbose -d 'Say more; twice for still more'
complete -c flock -n "__fish_flock_using_subcommand add" -s y -l yes -d 'Never ask: take the default, or fail where there is none'
complete -c flock -n "__fish_flock_using_subcommand add" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand edit" -l role -d 'Its role in the team; a sysadmin has no sandbox' -r -f -a "orchestrator\t'Stands for the owner: makes channels, assigns members'
sysadmin\t'Looks after the machine; not sandboxed'
worker\t'Does the work'"
complete -c flock -n "__fish_flock_using_subcommand edit" -l archetype -d 'Its archetype, or "none". SOUL.md becomes the new one\'s where nobody has changed it' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand edit" -l runtime -d 'Runtime of its turns: flock itself, OpenClaw where that is installed, or an installed agent program' -r -f -a "native\t''
openclaw\t''
claude\t''
codex\t''
gemini\t''
opencode\t''"
complete -c flock -n "__fish_flock_using_subcommand edit" -l model -d 'Its model, or "default" for the default model' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand edit" -l effort -d 'How much its model thinks before it answers; "default" leaves that to the provider' -r -f -a "off\t''
low\t''
medium\t''
high\t''
default\t''"
complete -c flock -n "__fish_flock_using_subcommand edit" -l autonomy -d 'What it may do without asking' -r -f -a "readonly\t'Look, not touch'
supervised\t'Work in its sandbox; ask before anything outside'
full\t'As supervised, without being told to ask'"
complete -c flock -n "__fish_flock_using_subcommand edit" -l memory -d 'The most memory of its container, as in 2g, or "default"' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand edit" -l cpus -d 'The most cores of its container, as in 1.5, or "default"' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand edit" -l disk -d 'The most that its workspace may hold of the disk, as in 20g, "none" for no limit, or "default"' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand edit" -l network -d 'Network of its container: none, or through the gateway what it is allowed' -r -f -a "none\t'Nothing'
proxy\t'Through the gateway, the hosts that it is allowed'"
complete -c flock -n "__fish_flock_using_subcommand edit" -l egress -d 'A host it may reach, or "*.HOST" for all below it; those given replace its hosts' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand edit" -l budget-tokens -d 'The most tokens that it may use in one day, or "default" for what holds for all agents' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand edit" -l budget-usd -d 'The most dollars that it may use in one day, or "default" for what holds for all agents' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand edit" -l id -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand edit" -l workspace -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand edit" -l packages -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand edit" -l home -d 'Use this home instead of $FLOCK_HOME or ~/.flock' -r -F
complete -c flock -n "__fish_flock_using_subcommand edit" -l color -d 'Use colour' -r -f -a "auto\t'On a terminal that does not ask for none'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand edit" -l on-host -d 'Run its agent program on this machine itself, with your rights, instead of in its container'
complete -c flock -n "__fish_flock_using_subcommand edit" -l no-on-host -d 'Run its agent program in its container again'
complete -c flock -n "__fish_flock_using_subcommand edit" -l no-egress -d 'Take all of its hosts away'
complete -c flock -n "__fish_flock_using_subcommand edit" -l dry-run -d 'Show what would change and write nothing'
complete -c flock -n "__fish_flock_using_subcommand edit" -l json -d 'Print JSON for programs'
complete -c flock -n "__fish_flock_using_subcommand edit" -s q -l quiet -d 'Say less: only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand edit" -s v -l verbose -d 'Say more; twice for still more'
complete -c flock -n "__fish_flock_using_subcommand edit" -s y -l yes -d 'Never ask: take the default, or fail where there is none'
complete -c flock -n "__fish_flock_using_subcommand edit" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand remove" -l home -d 'Use this home instead of $FLOCK_HOME or ~/.flock' -r -F
complete -c flock -n "__fish_flock_using_subcommand remove" -l color -d 'Use colour' -r -f -a "auto\t'On a terminal that does not ask for none'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand remove" -l purge -d 'Delete its workspace and transcripts, too, after asking; also of an agent that was removed before'
complete -c flock -n "__fish_flock_using_subcommand remove" -l json -d 'Print JSON for programs'
complete -c flock -n "__fish_flock_using_subcommand remove" -s q -l quiet -d 'Say less: only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand remove" -s v -l verbose -d 'Say more; twice for still more'
complete -c flock -n "__fish_flock_using_subcommand remove" -s y -l yes -d 'Never ask: take the default, or fail where there is none'
complete -c flock -n "__fish_flock_using_subcommand remove" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand rm" -l home -d 'Use this home instead of $FLOCK_HOME or ~/.flock' -r -F
complete -c flock -n "__fish_flock_using_subcommand rm" -l color -d 'Use colour' -r -f -a "auto\t'On a terminal that does not ask for none'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand rm" -l purge -d 'Delete its workspace and transcripts, too, after asking; also of an agent that was removed before'
complete -c flock -n "__fish_flock_using_subcommand rm" -l json -d 'Print JSON for programs'
complete -c flock -n "__fish_flock_using_subcommand rm" -s q -l quiet -d 'Say less: only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand rm" -s v -l verbose -d 'Say more; twice for still more'
complete -c flock -n "__fish_flock_using_subcommand rm" -s y -l yes -d 'Never ask: take the default, or fail where there is none'
complete -c flock -n "__fish_flock_using_subcommand rm" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand rename" -l home -d 'Use this home instead of $FLOCK_HOME or ~/.flock' -r -F
complete -c flock -n "__fish_flock_using_subcommand rename" -l color -d 'Use colour' -r -f -a "auto\t'On a terminal that does not ask for none'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand rename" -l json -d 'Print JSON for programs'
complete -c flock -n "__fish_flock_using_subcommand rename" -s q -l quiet -d 'Say less: only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand rename" -s v -l verbose -d 'Say more; twice for still more'
complete -c flock -n "__fish_flock_using_subcommand rename" -s y -l yes -d 'Never ask: take the default, or fail where there is none'
complete -c flock -n "__fish_flock_using_subcommand rename" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand list" -l home -d 'Use this home instead of $FLOCK_HOME or ~/.flock' -r -F
complete -c flock -n "__fish_flock_using_subcommand list" -l color -d 'Use colour' -r -f -a "auto\t'On a terminal that does not ask for none'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand list" -l json -d 'Print JSON for programs'
complete -c flock -n "__fish_flock_using_subcommand list" -s q -l quiet -d 'Say less: only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand list" -s v -l verbose -d 'Say more; twice for still more'
complete -c flock -n "__fish_flock_using_subcommand list" -s y -l yes -d 'Never ask: take the default, or fail where there is none'
complete -c flock -n "__fish_flock_using_subcommand list" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand ls" -l home -d 'Use this home instead of $FLOCK_HOME or ~/.flock' -r -F
complete -c flock -n "__fish_flock_using_subcommand ls" -l color -d 'Use colour' -r -f -a "auto\t'On a terminal that does not ask for none'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand ls" -l json -d 'Print JSON for programs'
complete -c flock -n "__fish_flock_using_subcommand ls" -s q -l quiet -d 'Say less: only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand ls" -s v -l verbose -d 'Say more; twice for still more'
complete -c flock -n "__fish_flock_using_subcommand ls" -s y -l yes -d 'Never ask: take the default, or fail where there is none'
complete -c flock -n "__fish_flock_using_subcommand ls" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand tasks" -l agent -d 'Only those that this agent asked for or was asked' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand tasks" -l state -d 'Only those in this state' -r -f -a "submitted\t''
working\t''
input-required\t''
completed\t''
failed\t''
canceled\t''
rejected\t''"
complete -c flock -n "__fish_flock_using_subcommand tasks" -l limit -d 'How many, the newest' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand tasks" -l cancel -d 'Stop this task, and the turn that works on it' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand tasks" -l home -d 'Use this home instead of $FLOCK_HOME or ~/.flock' -r -F
complete -c flock -n "__fish_flock_using_subcommand tasks" -l color -d 'Use colour' -r -f -a "auto\t'On a terminal that does not ask for none'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand tasks" -l json -d 'Print JSON for programs'
complete -c flock -n "__fish_flock_using_subcommand tasks" -s q -l quiet -d 'Say less: only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand tasks" -s v -l verbose -d 'Say more; twice for still more'
complete -c flock -n "__fish_flock_using_subcommand tasks" -s y -l yes -d 'Never ask: take the default, or fail where there is none'
complete -c flock -n "__fish_flock_using_subcommand tasks" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand config; and not __fish_seen_subcommand_from get set unset validate help" -l home -d 'Use this home instead of $FLOCK_HOME or ~/.flock' -r -F
complete -c flock -n "__fish_flock_using_subcommand config; and not __fish_seen_subcommand_from get set unset validate help" -l color -d 'Use colour' -r -f -a "auto\t'On a terminal that does not ask for none'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand config; and not __fish_seen_subcommand_from get set unset validate help" -l json -d 'Print JSON for programs'
complete -c flock -n "__fish_flock_using_subcommand config; and not __fish_seen_subcommand_from get set unset validate help" -s q -l quiet -d 'Say less: only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand config; and not __fish_seen_subcommand_from get set unset validate help" -s v -l verbose -d 'Say more; twice for still more'
complete -c flock -n "__fish_flock_using_subcommand config; and not __fish_seen_subcommand_from get set unset validate help" -s y -l yes -d 'Never ask: take the default, or fail where there is none'
complete -c flock -n "__fish_flock_using_subcommand config; and not __fish_seen_subcommand_from get set unset validate help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand config; and not __fish_seen_subcommand_from get set unset validate help" -f -a "get" -d 'Print the configuration, or one value of it'
complete -c flock -n "__fish_flock_using_subcommand config; and not __fish_seen_subcommand_from get set unset validate help" -f -a "set" -d 'Change one value'
complete -c flock -n "__fish_flock_using_subcommand config; and not __fish_seen_subcommand_from get set unset validate help" -f -a "unset" -d 'Take one value out'
complete -c flock -n "__fish_flock_using_subcommand config; and not __fish_seen_subcommand_from get set unset validate help" -f -a "validate" -d 'Check that the configuration is usable'
complete -c flock -n "__fish_flock_using_subcommand config; and not __fish_seen_subcommand_from get set unset validate help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c flock -n "__fish_flock_using_subcommand config; and __fish_seen_subcommand_from get" -l home -d 'Use this home instead of $FLOCK_HOME or ~/.flock' -r -F
complete -c flock -n "__fish_flock_using_subcommand config; and __fish_seen_subcommand_from get" -l color -d 'Use colour' -r -f -a "auto\t'On a terminal that does not ask for none'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand config; and __fish_seen_subcommand_from get" -l json -d 'Print JSON for programs'
complete -c flock -n "__fish_flock_using_subcommand config; and __fish_seen_subcommand_from get" -s q -l quiet -d 'Say less: only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand config; and __fish_seen_subcommand_from get" -s v -l verbose -d 'Say more; twice for still more'
complete -c flock -n "__fish_flock_using_subcommand config; and __fish_seen_subcommand_from get" -s y -l yes -d 'Never ask: take the default, or fail where there is none'
complete -c flock -n "__fish_flock_using_subcommand config; and __fish_seen_subcommand_from get" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand config; and __fish_seen_subcommand_from set" -l home -d 'Use this home instead of $FLOCK_HOME or ~/.flock' -r -F
complete -c flock -n "__fish_flock_using_subcommand config; and __fish_seen_subcommand_from set" -l color -d 'Use colour' -r -f -a "auto\t'On a terminal that does not ask for none'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand config; and __fish_seen_subcommand_from set" -l json -d 'Print JSON for programs'
complete -c flock -n "__fish_flock_using_subcommand config; and __fish_seen_subcommand_from set" -s q -l quiet -d 'Say less: only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand config; and __fish_seen_subcommand_from set" -s v -l verbose -d 'Say more; twice for still more'
complete -c flock -n "__fish_flock_using_subcommand config; and __fish_seen_subcommand_from set" -s y -l yes -d 'Never ask: take the default, or fail where there is none'
complete -c flock -n "__fish_flock_using_subcommand config; and __fish_seen_subcommand_from set" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand config; and __fish_seen_subcommand_from unset" -l home -d 'Use this home instead of $FLOCK_HOME or ~/.flock' -r -F
complete -c flock -n "__fish_flock_using_subcommand config; and __fish_seen_subcommand_from unset" -l color -d 'Use colour' -r -f -a "auto\t'On a terminal that does not ask for none'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand config; and __fish_seen_subcommand_from unset" -l json -d 'Print JSON for programs'
complete -c flock -n "__fish_flock_using_subcommand config; and __fish_seen_subcommand_from unset" -s q -l quiet -d 'Say less: only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand config; and __fish_seen_subcommand_from unset" -s v -l verbose -d 'Say more; twice for still more'
complete -c flock -n "__fish_flock_using_subcommand config; and __fish_seen_subcommand_from unset" -s y -l yes -d 'Never ask: take the default, or fail where there is none'
complete -c flock -n "__fish_flock_using_subcommand config; and __fish_seen_subcommand_from unset" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand config; and __fish_seen_subcommand_from validate" -l home -d 'Use this home instead of $FLOCK_HOME or ~/.flock' -r -F
complete -c flock -n "__fish_flock_using_subcommand config; and __fish_seen_subcommand_from validate" -l color -d 'Use colour' -r -f -a "auto\t'On a terminal that does not ask for none'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand config; and __fish_seen_subcommand_from validate" -l json -d 'Print JSON for programs'
complete -c flock -n "__fish_flock_using_subcommand config; and __fish_seen_subcommand_from validate" -s q -l quiet -d 'Say less: only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand config; and __fish_seen_subcommand_from validate" -s v -l verbose -d 'Say more; twice for still more'
complete -c flock -n "__fish_flock_using_subcommand config; and __fish_seen_subcommand_from validate" -s y -l yes -d 'Never ask: take the default, or fail where there is none'
complete -c flock -n "__fish_flock_using_subcommand config; and __fish_seen_subcommand_from validate" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand config; and __fish_seen_subcommand_from help" -f -a "get" -d 'Print the configuration, or one value of it'
complete -c flock -n "__fish_flock_using_subcommand config; and __fish_seen_subcommand_from help" -f -a "set" -d 'Change one value'
complete -c flock -n "__fish_flock_using_subcommand config; and __fish_seen_subcommand_from help" -f -a "unset" -d 'Take one value out'
complete -c flock -n "__fish_flock_using_subcommand config; and __fish_seen_subcommand_from help" -f -a "validate" -d 'Check that the configuration is usable'
complete -c flock -n "__fish_flock_using_subcommand config; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c flock -n "__fish_flock_using_subcommand nix; and not __fish_seen_subcommand_from install remove list gc pin rollback help" -l home -d 'Use this home instead of $FLOCK_HOME or ~/.flock' -r -F
complete -c flock -n "__fish_flock_using_subcommand nix; and not __fish_seen_subcommand_from install remove list gc pin rollback help" -l color -d 'Use colour' -r -f -a "auto\t'On a terminal that does not ask for none'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand nix; and not __fish_seen_subcommand_from install remove list gc pin rollback help" -l json -d 'Print JSON for programs'
complete -c flock -n "__fish_flock_using_subcommand nix; and not __fish_seen_subcommand_from install remove list gc pin rollback help" -s q -l quiet -d 'Say less: only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand nix; and not __fish_seen_subcommand_from install remove list gc pin rollback help" -s v -l verbose -d 'Say more; twice for still more'
complete -c flock -n "__fish_flock_using_subcommand nix; and not __fish_seen_subcommand_from install remove list gc pin rollback help" -s y -l yes -d 'Never ask: take the default, or fail where there is none'
complete -c flock -n "__fish_flock_using_subcommand nix; and not __fish_seen_subcommand_from install remove list gc pin rollback help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand nix; and not __fish_seen_subcommand_from install remove list gc pin rollback help" -f -a "install" -d 'Install packages for an agent'
complete -c flock -n "__fish_flock_using_subcommand nix; and not __fish_seen_subcommand_from install remove list gc pin rollback help" -f -a "remove" -d 'Remove packages from an agent'
complete -c flock -n "__fish_flock_using_subcommand nix; and not __fish_seen_subcommand_from install remove list gc pin rollback help" -f -a "list" -d 'List what an agent has, or what all have'
complete -c flock -n "__fish_flock_using_subcommand nix; and not __fish_seen_subcommand_from install remove list gc pin rollback help" -f -a "gc" -d 'Delete what no agent needs from the store'
complete -c flock -n "__fish_flock_using_subcommand nix; and not __fish_seen_subcommand_from install remove list gc pin rollback help" -f -a "pin" -d 'Show what the package set is pinned to, or move the pin'
complete -c flock -n "__fish_flock_using_subcommand nix; and not __fish_seen_subcommand_from install remove list gc pin rollback help" -f -a "rollback" -d 'Undo the last change of an agent\'s packages'
complete -c flock -n "__fish_flock_using_subcommand nix; and not __fish_seen_subcommand_from install remove list gc pin rollback help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from install" -l home -d 'Use this home instead of $FLOCK_HOME or ~/.flock' -r -F
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from install" -l color -d 'Use colour' -r -f -a "auto\t'On a terminal that does not ask for none'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from install" -l json -d 'Print JSON for programs'
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from install" -s q -l quiet -d 'Say less: only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from install" -s v -l verbose -d 'Say more; twice for still more'
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from install" -s y -l yes -d 'Never ask: take the default, or fail where there is none'
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from install" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from remove" -l home -d 'Use this home instead of $FLOCK_HOME or ~/.flock' -r -F
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from remove" -l color -d 'Use colour' -r -f -a "auto\t'On a terminal that does not ask for none'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from remove" -l json -d 'Print JSON for programs'
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from remove" -s q -l quiet -d 'Say less: only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from remove" -s v -l verbose -d 'Say more; twice for still more'
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from remove" -s y -l yes -d 'Never ask: take the default, or fail where there is none'
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from remove" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from list" -l home -d 'Use this home instead of $FLOCK_HOME or ~/.flock' -r -F
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from list" -l color -d 'Use colour' -r -f -a "auto\t'On a terminal that does not ask for none'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from list" -l json -d 'Print JSON for programs'
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from list" -s q -l quiet -d 'Say less: only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from list" -s v -l verbose -d 'Say more; twice for still more'
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from list" -s y -l yes -d 'Never ask: take the default, or fail where there is none'
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from gc" -l keep-days -d 'Give up the ways back that are older than this many days, too' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from gc" -l home -d 'Use this home instead of $FLOCK_HOME or ~/.flock' -r -F
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from gc" -l color -d 'Use colour' -r -f -a "auto\t'On a terminal that does not ask for none'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from gc" -l json -d 'Print JSON for programs'
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from gc" -s q -l quiet -d 'Say less: only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from gc" -s v -l verbose -d 'Say more; twice for still more'
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from gc" -s y -l yes -d 'Never ask: take the default, or fail where there is none'
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from gc" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from pin" -l home -d 'Use this home instead of $FLOCK_HOME or ~/.flock' -r -F
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from pin" -l color -d 'Use colour' -r -f -a "auto\t'On a terminal that does not ask for none'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from pin" -l update -d 'Pin the set to what its flake is now'
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from pin" -l json -d 'Print JSON for programs'
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from pin" -s q -l quiet -d 'Say less: only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from pin" -s v -l verbose -d 'Say more; twice for still more'
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from pin" -s y -l yes -d 'Never ask: take the default, or fail where there is none'
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from pin" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from rollback" -l home -d 'Use this home instead of $FLOCK_HOME or ~/.flock' -r -F
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from rollback" -l color -d 'Use colour' -r -f -a "auto\t'On a terminal that does not ask for none'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from rollback" -l json -d 'Print JSON for programs'
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from rollback" -s q -l quiet -d 'Say less: only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from rollback" -s v -l verbose -d 'Say more; twice for still more'
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from rollback" -s y -l yes -d 'Never ask: take the default, or fail where there is none'
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from rollback" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from help" -f -a "install" -d 'Install packages for an agent'
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from help" -f -a "remove" -d 'Remove packages from an agent'
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from help" -f -a "list" -d 'List what an agent has, or what all have'
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from help" -f -a "gc" -d 'Delete what no agent needs from the store'
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from help" -f -a "pin" -d 'Show what the package set is pinned to, or move the pin'
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from help" -f -a "rollback" -d 'Undo the last change of an agent\'s packages'
complete -c flock -n "__fish_flock_using_subcommand nix; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c flock -n "__fish_flock_using_subcommand update" -l ref -d 'Take this branch, tag or commit instead; an update follows a branch' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand update" -l from -d 'Repository or folder to take flock\'s source from; it is remembered' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand update" -l program -d 'File to put the new program at, where it is not the one that runs' -r -F
complete -c flock -n "__fish_flock_using_subcommand update" -l home -d 'Use this home instead of $FLOCK_HOME or ~/.flock' -r -F
complete -c flock -n "__fish_flock_using_subcommand update" -l color -d 'Use colour' -r -f -a "auto\t'On a terminal that does not ask for none'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand update" -l check -d 'Only say whether there is something new'
complete -c flock -n "__fish_flock_using_subcommand update" -l retry -d 'Try a commit again that did not work here, or that was rolled back'
complete -c flock -n "__fish_flock_using_subcommand update" -l rollback -d 'Go back to the version before'
complete -c flock -n "__fish_flock_using_subcommand update" -l self -d 'Update flock\'s own program instead'
complete -c flock -n "__fish_flock_using_subcommand update" -l unencrypted -d 'Take that address although it is not encrypted'
complete -c flock -n "__fish_flock_using_subcommand update" -l json -d 'Print JSON for programs'
complete -c flock -n "__fish_flock_using_subcommand update" -s q -l quiet -d 'Say less: only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand update" -s v -l verbose -d 'Say more; twice for still more'
complete -c flock -n "__fish_flock_using_subcommand update" -s y -l yes -d 'Never ask: take the default, or fail where there is none'
complete -c flock -n "__fish_flock_using_subcommand update" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand approvals; and not __fish_seen_subcommand_from list show approve deny revoke help" -l home -d 'Use this home instead of $FLOCK_HOME or ~/.flock' -r -F
complete -c flock -n "__fish_flock_using_subcommand approvals; and not __fish_seen_subcommand_from list show approve deny revoke help" -l color -d 'Use colour' -r -f -a "auto\t'On a terminal that does not ask for none'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand approvals; and not __fish_seen_subcommand_from list show approve deny revoke help" -l json -d 'Print JSON for programs'
complete -c flock -n "__fish_flock_using_subcommand approvals; and not __fish_seen_subcommand_from list show approve deny revoke help" -s q -l quiet -d 'Say less: only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand approvals; and not __fish_seen_subcommand_from list show approve deny revoke help" -s v -l verbose -d 'Say more; twice for still more'
complete -c flock -n "__fish_flock_using_subcommand approvals; and not __fish_seen_subcommand_from list show approve deny revoke help" -s y -l yes -d 'Never ask: take the default, or fail where there is none'
complete -c flock -n "__fish_flock_using_subcommand approvals; and not __fish_seen_subcommand_from list show approve deny revoke help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand approvals; and not __fish_seen_subcommand_from list show approve deny revoke help" -f -a "list" -d 'List what is open'
complete -c flock -n "__fish_flock_using_subcommand approvals; and not __fish_seen_subcommand_from list show approve deny revoke help" -f -a "show" -d 'Show one request: what exactly would be done, for whom and why'
complete -c flock -n "__fish_flock_using_subcommand approvals; and not __fish_seen_subcommand_from list show approve deny revoke help" -f -a "approve" -d 'Approve a request, or give back what was taken back'
complete -c flock -n "__fish_flock_using_subcommand approvals; and not __fish_seen_subcommand_from list show approve deny revoke help" -f -a "deny" -d 'Deny a request, or take an approval back that nothing came of yet'
complete -c flock -n "__fish_flock_using_subcommand approvals; and not __fish_seen_subcommand_from list show approve deny revoke help" -f -a "revoke" -d 'Take back what a request granted: a host to reach, a folder to read, a package'
complete -c flock -n "__fish_flock_using_subcommand approvals; and not __fish_seen_subcommand_from list show approve deny revoke help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from list" -l home -d 'Use this home instead of $FLOCK_HOME or ~/.flock' -r -F
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from list" -l color -d 'Use colour' -r -f -a "auto\t'On a terminal that does not ask for none'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from list" -l all -d 'List what is over, too'
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from list" -l json -d 'Print JSON for programs'
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from list" -s q -l quiet -d 'Say less: only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from list" -s v -l verbose -d 'Say more; twice for still more'
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from list" -s y -l yes -d 'Never ask: take the default, or fail where there is none'
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from show" -l home -d 'Use this home instead of $FLOCK_HOME or ~/.flock' -r -F
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from show" -l color -d 'Use colour' -r -f -a "auto\t'On a terminal that does not ask for none'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from show" -l json -d 'Print JSON for programs'
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from show" -s q -l quiet -d 'Say less: only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from show" -s v -l verbose -d 'Say more; twice for still more'
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from show" -s y -l yes -d 'Never ask: take the default, or fail where there is none'
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from approve" -l home -d 'Use this home instead of $FLOCK_HOME or ~/.flock' -r -F
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from approve" -l color -d 'Use colour' -r -f -a "auto\t'On a terminal that does not ask for none'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from approve" -l json -d 'Print JSON for programs'
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from approve" -s q -l quiet -d 'Say less: only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from approve" -s v -l verbose -d 'Say more; twice for still more'
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from approve" -s y -l yes -d 'Never ask: take the default, or fail where there is none'
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from approve" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from deny" -l reason -d 'Why, for the agent' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from deny" -l home -d 'Use this home instead of $FLOCK_HOME or ~/.flock' -r -F
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from deny" -l color -d 'Use colour' -r -f -a "auto\t'On a terminal that does not ask for none'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from deny" -l json -d 'Print JSON for programs'
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from deny" -s q -l quiet -d 'Say less: only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from deny" -s v -l verbose -d 'Say more; twice for still more'
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from deny" -s y -l yes -d 'Never ask: take the default, or fail where there is none'
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from deny" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from revoke" -l home -d 'Use this home instead of $FLOCK_HOME or ~/.flock' -r -F
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from revoke" -l color -d 'Use colour' -r -f -a "auto\t'On a terminal that does not ask for none'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from revoke" -l json -d 'Print JSON for programs'
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from revoke" -s q -l quiet -d 'Say less: only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from revoke" -s v -l verbose -d 'Say more; twice for still more'
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from revoke" -s y -l yes -d 'Never ask: take the default, or fail where there is none'
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from revoke" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from help" -f -a "list" -d 'List what is open'
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from help" -f -a "show" -d 'Show one request: what exactly would be done, for whom and why'
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from help" -f -a "approve" -d 'Approve a request, or give back what was taken back'
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from help" -f -a "deny" -d 'Deny a request, or take an approval back that nothing came of yet'
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from help" -f -a "revoke" -d 'Take back what a request granted: a host to reach, a folder to read, a package'
complete -c flock -n "__fish_flock_using_subcommand approvals; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c flock -n "__fish_flock_using_subcommand token; and not __fish_seen_subcommand_from add list revoke help" -l home -d 'Use this home instead of $FLOCK_HOME or ~/.flock' -r -F
complete -c flock -n "__fish_flock_using_subcommand token; and not __fish_seen_subcommand_from add list revoke help" -l color -d 'Use colour' -r -f -a "auto\t'On a terminal that does not ask for none'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand token; and not __fish_seen_subcommand_from add list revoke help" -l json -d 'Print JSON for programs'
complete -c flock -n "__fish_flock_using_subcommand token; and not __fish_seen_subcommand_from add list revoke help" -s q -l quiet -d 'Say less: only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand token; and not __fish_seen_subcommand_from add list revoke help" -s v -l verbose -d 'Say more; twice for still more'
complete -c flock -n "__fish_flock_using_subcommand token; and not __fish_seen_subcommand_from add list revoke help" -s y -l yes -d 'Never ask: take the default, or fail where there is none'
complete -c flock -n "__fish_flock_using_subcommand token; and not __fish_seen_subcommand_from add list revoke help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand token; and not __fish_seen_subcommand_from add list revoke help" -f -a "add" -d 'Make a token and print it, this once'
complete -c flock -n "__fish_flock_using_subcommand token; and not __fish_seen_subcommand_from add list revoke help" -f -a "list" -d 'List the tokens with their rights, agents and ends'
complete -c flock -n "__fish_flock_using_subcommand token; and not __fish_seen_subcommand_from add list revoke help" -f -a "revoke" -d 'Revoke a token and end the streams that it opened'
complete -c flock -n "__fish_flock_using_subcommand token; and not __fish_seen_subcommand_from add list revoke help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c flock -n "__fish_flock_using_subcommand token; and __fish_seen_subcommand_from add" -l agents -d 'Agents that it may see and ask, or "all"' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand token; and __fish_seen_subcommand_from add" -l rights -d 'Rights of the client' -r -f -a "chat\t''
a2a\t''
read\t''
approve\t''"
complete -c flock -n "__fish_flock_using_subcommand token; and __fish_seen_subcommand_from add" -l expires -d 'Time until it expires, as in 12h or 30d; without it the token does not expire' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand token; and __fish_seen_subcommand_from add" -l home -d 'Use this home instead of $FLOCK_HOME or ~/.flock' -r -F
complete -c flock -n "__fish_flock_using_subcommand token; and __fish_seen_subcommand_from add" -l color -d 'Use colour' -r -f -a "auto\t'On a terminal that does not ask for none'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand token; and __fish_seen_subcommand_from add" -l json -d 'Print JSON for programs'
complete -c flock -n "__fish_flock_using_subcommand token; and __fish_seen_subcommand_from add" -s q -l quiet -d 'Say less: only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand token; and __fish_seen_subcommand_from add" -s v -l verbose -d 'Say more; twice for still more'
complete -c flock -n "__fish_flock_using_subcommand token; and __fish_seen_subcommand_from add" -s y -l yes -d 'Never ask: take the default, or fail where there is none'
complete -c flock -n "__fish_flock_using_subcommand token; and __fish_seen_subcommand_from add" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand token; and __fish_seen_subcommand_from list" -l home -d 'Use this home instead of $FLOCK_HOME or ~/.flock' -r -F
complete -c flock -n "__fish_flock_using_subcommand token; and __fish_seen_subcommand_from list" -l color -d 'Use colour' -r -f -a "auto\t'On a terminal that does not ask for none'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand token; and __fish_seen_subcommand_from list" -l json -d 'Print JSON for programs'
complete -c flock -n "__fish_flock_using_subcommand token; and __fish_seen_subcommand_from list" -s q -l quiet -d 'Say less: only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand token; and __fish_seen_subcommand_from list" -s v -l verbose -d 'Say more; twice for still more'
complete -c flock -n "__fish_flock_using_subcommand token; and __fish_seen_subcommand_from list" -s y -l yes -d 'Never ask: take the default, or fail where there is none'
complete -c flock -n "__fish_flock_using_subcommand token; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand token; and __fish_seen_subcommand_from revoke" -l home -d 'Use this home instead of $FLOCK_HOME or ~/.flock' -r -F
complete -c flock -n "__fish_flock_using_subcommand token; and __fish_seen_subcommand_from revoke" -l color -d 'Use colour' -r -f -a "auto\t'On a terminal that does not ask for none'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand token; and __fish_seen_subcommand_from revoke" -l json -d 'Print JSON for programs'
complete -c flock -n "__fish_flock_using_subcommand token; and __fish_seen_subcommand_from revoke" -s q -l quiet -d 'Say less: only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand token; and __fish_seen_subcommand_from revoke" -s v -l verbose -d 'Say more; twice for still more'
complete -c flock -n "__fish_flock_using_subcommand token; and __fish_seen_subcommand_from revoke" -s y -l yes -d 'Never ask: take the default, or fail where there is none'
complete -c flock -n "__fish_flock_using_subcommand token; and __fish_seen_subcommand_from revoke" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand token; and __fish_seen_subcommand_from help" -f -a "add" -d 'Make a token and print it, this once'
complete -c flock -n "__fish_flock_using_subcommand token; and __fish_seen_subcommand_from help" -f -a "list" -d 'List the tokens with their rights, agents and ends'
complete -c flock -n "__fish_flock_using_subcommand token; and __fish_seen_subcommand_from help" -f -a "revoke" -d 'Revoke a token and end the streams that it opened'
complete -c flock -n "__fish_flock_using_subcommand token; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c flock -n "__fish_flock_using_subcommand freeze" -l home -d 'Use this home instead of $FLOCK_HOME or ~/.flock' -r -F
complete -c flock -n "__fish_flock_using_subcommand freeze" -l color -d 'Use colour' -r -f -a "auto\t'On a terminal that does not ask for none'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand freeze" -l all -d 'All agents, and with freeze those that are added later'
complete -c flock -n "__fish_flock_using_subcommand freeze" -l json -d 'Print JSON for programs'
complete -c flock -n "__fish_flock_using_subcommand freeze" -s q -l quiet -d 'Say less: only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand freeze" -s v -l verbose -d 'Say more; twice for still more'
complete -c flock -n "__fish_flock_using_subcommand freeze" -s y -l yes -d 'Never ask: take the default, or fail where there is none'
complete -c flock -n "__fish_flock_using_subcommand freeze" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand thaw" -l home -d 'Use this home instead of $FLOCK_HOME or ~/.flock' -r -F
complete -c flock -n "__fish_flock_using_subcommand thaw" -l color -d 'Use colour' -r -f -a "auto\t'On a terminal that does not ask for none'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand thaw" -l all -d 'All agents, and with freeze those that are added later'
complete -c flock -n "__fish_flock_using_subcommand thaw" -l json -d 'Print JSON for programs'
complete -c flock -n "__fish_flock_using_subcommand thaw" -s q -l quiet -d 'Say less: only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand thaw" -s v -l verbose -d 'Say more; twice for still more'
complete -c flock -n "__fish_flock_using_subcommand thaw" -s y -l yes -d 'Never ask: take the default, or fail where there is none'
complete -c flock -n "__fish_flock_using_subcommand thaw" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand usage" -l day -d 'This day, as in 2026-02-28' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand usage" -l since -d 'From this day on' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand usage" -l agent -d 'Only what this agent used' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand usage" -l by -d 'What it is summed by' -r -f -a "agent\t'By agent'
channel\t'By channel'
model\t'By model'
day\t'By day'"
complete -c flock -n "__fish_flock_using_subcommand usage" -l home -d 'Use this home instead of $FLOCK_HOME or ~/.flock' -r -F
complete -c flock -n "__fish_flock_using_subcommand usage" -l color -d 'Use colour' -r -f -a "auto\t'On a terminal that does not ask for none'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand usage" -l json -d 'Print JSON for programs'
complete -c flock -n "__fish_flock_using_subcommand usage" -s q -l quiet -d 'Say less: only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand usage" -s v -l verbose -d 'Say more; twice for still more'
complete -c flock -n "__fish_flock_using_subcommand usage" -s y -l yes -d 'Never ask: take the default, or fail where there is none'
complete -c flock -n "__fish_flock_using_subcommand usage" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand audit" -l agent -d 'Only what this one did: an agent\'s id, human:NAME or system' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand audit" -l level -d 'Only what matters so much: GREEN, YELLOW or RED' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand audit" -l action -d 'Only this action, as in channel.post, or all of a kind, as in channel' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand audit" -l limit -d 'At most so many rows, and never more than 100' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand audit" -l home -d 'Use this home instead of $FLOCK_HOME or ~/.flock' -r -F
complete -c flock -n "__fish_flock_using_subcommand audit" -l color -d 'Use colour' -r -f -a "auto\t'On a terminal that does not ask for none'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand audit" -l verify -d 'Check the whole record instead'
complete -c flock -n "__fish_flock_using_subcommand audit" -l json -d 'Print JSON for programs'
complete -c flock -n "__fish_flock_using_subcommand audit" -s q -l quiet -d 'Say less: only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand audit" -s v -l verbose -d 'Say more; twice for still more'
complete -c flock -n "__fish_flock_using_subcommand audit" -s y -l yes -d 'Never ask: take the default, or fail where there is none'
complete -c flock -n "__fish_flock_using_subcommand audit" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand doctor" -l bundle -d 'Write what a report of a defect needs into FILE, a .tar.gz without keys, messages and transcripts, and say what is in it' -r -F
complete -c flock -n "__fish_flock_using_subcommand doctor" -l home -d 'Use this home instead of $FLOCK_HOME or ~/.flock' -r -F
complete -c flock -n "__fish_flock_using_subcommand doctor" -l color -d 'Use colour' -r -f -a "auto\t'On a terminal that does not ask for none'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand doctor" -l deep -d 'Read all of the database, the audit and the transcripts'
complete -c flock -n "__fish_flock_using_subcommand doctor" -l fix -d 'Mend what can be mended without losing anything, and say what was done'
complete -c flock -n "__fish_flock_using_subcommand doctor" -l confirm-clock -d 'Confirm that this machine\'s clock is right, so that what is too old is forgotten again'
complete -c flock -n "__fish_flock_using_subcommand doctor" -l force -d 'Replace FILE if it is there'
complete -c flock -n "__fish_flock_using_subcommand doctor" -l json -d 'Print JSON for programs'
complete -c flock -n "__fish_flock_using_subcommand doctor" -s q -l quiet -d 'Say less: only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand doctor" -s v -l verbose -d 'Say more; twice for still more'
complete -c flock -n "__fish_flock_using_subcommand doctor" -s y -l yes -d 'Never ask: take the default, or fail where there is none'
complete -c flock -n "__fish_flock_using_subcommand doctor" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand restore" -l from -d 'Begin with this backup instead of the newest whole one' -r -F
complete -c flock -n "__fish_flock_using_subcommand restore" -l home -d 'Use this home instead of $FLOCK_HOME or ~/.flock' -r -F
complete -c flock -n "__fish_flock_using_subcommand restore" -l color -d 'Use colour' -r -f -a "auto\t'On a terminal that does not ask for none'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand restore" -l list -d 'Only list the backups'
complete -c flock -n "__fish_flock_using_subcommand restore" -l json -d 'Print JSON for programs'
complete -c flock -n "__fish_flock_using_subcommand restore" -s q -l quiet -d 'Say less: only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand restore" -s v -l verbose -d 'Say more; twice for still more'
complete -c flock -n "__fish_flock_using_subcommand restore" -s y -l yes -d 'Never ask: take the default, or fail where there is none'
complete -c flock -n "__fish_flock_using_subcommand restore" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand uninstall" -l home -d 'Use this home instead of $FLOCK_HOME or ~/.flock' -r -F
complete -c flock -n "__fish_flock_using_subcommand uninstall" -l color -d 'Use colour' -r -f -a "auto\t'On a terminal that does not ask for none'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand uninstall" -l purge -d 'Delete what people and agents made, too: workspaces, transcripts, configuration, keys, database'
complete -c flock -n "__fish_flock_using_subcommand uninstall" -l force -d 'Remove OpenClaw although agents run on it'
complete -c flock -n "__fish_flock_using_subcommand uninstall" -l dry-run -d 'Only show what would be done'
complete -c flock -n "__fish_flock_using_subcommand uninstall" -l json -d 'Print JSON for programs'
complete -c flock -n "__fish_flock_using_subcommand uninstall" -s q -l quiet -d 'Say less: only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand uninstall" -s v -l verbose -d 'Say more; twice for still more'
complete -c flock -n "__fish_flock_using_subcommand uninstall" -s y -l yes -d 'Never ask: take the default, or fail where there is none'
complete -c flock -n "__fish_flock_using_subcommand uninstall" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand completions" -l home -d 'Use this home instead of $FLOCK_HOME or ~/.flock' -r -F
complete -c flock -n "__fish_flock_using_subcommand completions" -l color -d 'Use colour' -r -f -a "auto\t'On a terminal that does not ask for none'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand completions" -l json -d 'Print JSON for programs'
complete -c flock -n "__fish_flock_using_subcommand completions" -s q -l quiet -d 'Say less: only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand completions" -s v -l verbose -d 'Say more; twice for still more'
complete -c flock -n "__fish_flock_using_subcommand completions" -s y -l yes -d 'Never ask: take the default, or fail where there is none'
complete -c flock -n "__fish_flock_using_subcommand completions" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand chat" -l session -d 'Go on with this session instead of your own' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand chat" -l home -d 'Use this home instead of $FLOCK_HOME or ~/.flock' -r -F
complete -c flock -n "__fish_flock_using_subcommand chat" -l color -d 'Use colour' -r -f -a "auto\t'On a terminal that does not ask for none'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand chat" -l wait -d 'Wait for a frozen agent\'s thaw instead of failing'
complete -c flock -n "__fish_flock_using_subcommand chat" -l json -d 'Print JSON for programs'
complete -c flock -n "__fish_flock_using_subcommand chat" -s q -l quiet -d 'Say less: only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand chat" -s v -l verbose -d 'Say more; twice for still more'
complete -c flock -n "__fish_flock_using_subcommand chat" -s y -l yes -d 'Never ask: take the default, or fail where there is none'
complete -c flock -n "__fish_flock_using_subcommand chat" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand channel; and not __fish_seen_subcommand_from list ls create post read assign rename topic archive reopen help" -l home -d 'Use this home instead of $FLOCK_HOME or ~/.flock' -r -F
complete -c flock -n "__fish_flock_using_subcommand channel; and not __fish_seen_subcommand_from list ls create post read assign rename topic archive reopen help" -l color -d 'Use colour' -r -f -a "auto\t'On a terminal that does not ask for none'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand channel; and not __fish_seen_subcommand_from list ls create post read assign rename topic archive reopen help" -l json -d 'Print JSON for programs'
complete -c flock -n "__fish_flock_using_subcommand channel; and not __fish_seen_subcommand_from list ls create post read assign rename topic archive reopen help" -s q -l quiet -d 'Say less: only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand channel; and not __fish_seen_subcommand_from list ls create post read assign rename topic archive reopen help" -s v -l verbose -d 'Say more; twice for still more'
complete -c flock -n "__fish_flock_using_subcommand channel; and not __fish_seen_subcommand_from list ls create post read assign rename topic archive reopen help" -s y -l yes -d 'Never ask: take the default, or fail where there is none'
complete -c flock -n "__fish_flock_using_subcommand channel; and not __fish_seen_subcommand_from list ls create post read assign rename topic archive reopen help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand channel; and not __fish_seen_subcommand_from list ls create post read assign rename topic archive reopen help" -f -a "list" -d 'List the channels'
complete -c flock -n "__fish_flock_using_subcommand channel; and not __fish_seen_subcommand_from list ls create post read assign rename topic archive reopen help" -f -a "ls" -d 'List the channels'
complete -c flock -n "__fish_flock_using_subcommand channel; and not __fish_seen_subcommand_from list ls create post read assign rename topic archive reopen help" -f -a "create" -d 'Make a channel'
complete -c flock -n "__fish_flock_using_subcommand channel; and not __fish_seen_subcommand_from list ls create post read assign rename topic archive reopen help" -f -a "post" -d 'Post a message'
complete -c flock -n "__fish_flock_using_subcommand channel; and not __fish_seen_subcommand_from list ls create post read assign rename topic archive reopen help" -f -a "read" -d 'Read a channel\'s messages'
complete -c flock -n "__fish_flock_using_subcommand channel; and not __fish_seen_subcommand_from list ls create post read assign rename topic archive reopen help" -f -a "assign" -d 'Add members to a channel, or remove them'
complete -c flock -n "__fish_flock_using_subcommand channel; and not __fish_seen_subcommand_from list ls create post read assign rename topic archive reopen help" -f -a "rename" -d 'Give a channel another shown name'
complete -c flock -n "__fish_flock_using_subcommand channel; and not __fish_seen_subcommand_from list ls create post read assign rename topic archive reopen help" -f -a "topic" -d 'Give a channel another topic'
complete -c flock -n "__fish_flock_using_subcommand channel; and not __fish_seen_subcommand_from list ls create post read assign rename topic archive reopen help" -f -a "archive" -d 'Archive a channel'
complete -c flock -n "__fish_flock_using_subcommand channel; and not __fish_seen_subcommand_from list ls create post read assign rename topic archive reopen help" -f -a "reopen" -d 'Open an archived channel again'
complete -c flock -n "__fish_flock_using_subcommand channel; and not __fish_seen_subcommand_from list ls create post read assign rename topic archive reopen help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from list" -l member -d 'Only those of this member, an agent or human:NAME' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from list" -l home -d 'Use this home instead of $FLOCK_HOME or ~/.flock' -r -F
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from list" -l color -d 'Use colour' -r -f -a "auto\t'On a terminal that does not ask for none'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from list" -l all -d 'Archived ones, too'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from list" -l json -d 'Print JSON for programs'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from list" -s q -l quiet -d 'Say less: only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from list" -s v -l verbose -d 'Say more; twice for still more'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from list" -s y -l yes -d 'Never ask: take the default, or fail where there is none'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from ls" -l member -d 'Only those of this member, an agent or human:NAME' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from ls" -l home -d 'Use this home instead of $FLOCK_HOME or ~/.flock' -r -F
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from ls" -l color -d 'Use colour' -r -f -a "auto\t'On a terminal that does not ask for none'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from ls" -l all -d 'Archived ones, too'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from ls" -l json -d 'Print JSON for programs'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from ls" -s q -l quiet -d 'Say less: only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from ls" -s v -l verbose -d 'Say more; twice for still more'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from ls" -s y -l yes -d 'Never ask: take the default, or fail where there is none'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from ls" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from create" -l topic -d 'What it is about' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from create" -l member -d 'Who takes part, an agent or human:NAME; may be given more than once' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from create" -l message -d 'What to say first' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from create" -l as -d 'Do it under this name instead of your login\'s' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from create" -l home -d 'Use this home instead of $FLOCK_HOME or ~/.flock' -r -F
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from create" -l color -d 'Use colour' -r -f -a "auto\t'On a terminal that does not ask for none'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from create" -l json -d 'Print JSON for programs'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from create" -s q -l quiet -d 'Say less: only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from create" -s v -l verbose -d 'Say more; twice for still more'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from create" -s y -l yes -d 'Never ask: take the default, or fail where there is none'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from create" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from post" -l as -d 'Do it under this name instead of your login\'s' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from post" -l home -d 'Use this home instead of $FLOCK_HOME or ~/.flock' -r -F
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from post" -l color -d 'Use colour' -r -f -a "auto\t'On a terminal that does not ask for none'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from post" -l no-notify -d 'Wake nobody: it is read along with the next message that does'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from post" -l json -d 'Print JSON for programs'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from post" -s q -l quiet -d 'Say less: only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from post" -s v -l verbose -d 'Say more; twice for still more'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from post" -s y -l yes -d 'Never ask: take the default, or fail where there is none'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from post" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from read" -l after -d 'Those after this number' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from read" -l before -d 'Those before this number' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from read" -s n -l limit -d 'At most so many, up to 200' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from read" -l search -d 'Those with all these words' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from read" -l home -d 'Use this home instead of $FLOCK_HOME or ~/.flock' -r -F
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from read" -l color -d 'Use colour' -r -f -a "auto\t'On a terminal that does not ask for none'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from read" -s f -l follow -d 'Go on with what comes, until Ctrl-C'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from read" -l json -d 'Print JSON for programs'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from read" -s q -l quiet -d 'Say less: only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from read" -s v -l verbose -d 'Say more; twice for still more'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from read" -s y -l yes -d 'Never ask: take the default, or fail where there is none'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from read" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from assign" -l add -d 'Who comes, an agent or human:NAME; may be given more than once' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from assign" -l remove -d 'Who goes; may be given more than once' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from assign" -l as -d 'Do it under this name instead of your login\'s' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from assign" -l home -d 'Use this home instead of $FLOCK_HOME or ~/.flock' -r -F
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from assign" -l color -d 'Use colour' -r -f -a "auto\t'On a terminal that does not ask for none'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from assign" -l json -d 'Print JSON for programs'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from assign" -s q -l quiet -d 'Say less: only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from assign" -s v -l verbose -d 'Say more; twice for still more'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from assign" -s y -l yes -d 'Never ask: take the default, or fail where there is none'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from assign" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from rename" -l as -d 'Do it under this name instead of your login\'s' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from rename" -l home -d 'Use this home instead of $FLOCK_HOME or ~/.flock' -r -F
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from rename" -l color -d 'Use colour' -r -f -a "auto\t'On a terminal that does not ask for none'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from rename" -l json -d 'Print JSON for programs'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from rename" -s q -l quiet -d 'Say less: only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from rename" -s v -l verbose -d 'Say more; twice for still more'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from rename" -s y -l yes -d 'Never ask: take the default, or fail where there is none'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from rename" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from topic" -l as -d 'Do it under this name instead of your login\'s' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from topic" -l home -d 'Use this home instead of $FLOCK_HOME or ~/.flock' -r -F
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from topic" -l color -d 'Use colour' -r -f -a "auto\t'On a terminal that does not ask for none'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from topic" -l json -d 'Print JSON for programs'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from topic" -s q -l quiet -d 'Say less: only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from topic" -s v -l verbose -d 'Say more; twice for still more'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from topic" -s y -l yes -d 'Never ask: take the default, or fail where there is none'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from topic" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from archive" -l as -d 'Do it under this name instead of your login\'s' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from archive" -l home -d 'Use this home instead of $FLOCK_HOME or ~/.flock' -r -F
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from archive" -l color -d 'Use colour' -r -f -a "auto\t'On a terminal that does not ask for none'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from archive" -l force -d 'At once, whoever is ready'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from archive" -l cancel -d 'Call it off'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from archive" -l json -d 'Print JSON for programs'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from archive" -s q -l quiet -d 'Say less: only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from archive" -s v -l verbose -d 'Say more; twice for still more'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from archive" -s y -l yes -d 'Never ask: take the default, or fail where there is none'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from archive" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from reopen" -l as -d 'Do it under this name instead of your login\'s' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from reopen" -l home -d 'Use this home instead of $FLOCK_HOME or ~/.flock' -r -F
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from reopen" -l color -d 'Use colour' -r -f -a "auto\t'On a terminal that does not ask for none'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from reopen" -l json -d 'Print JSON for programs'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from reopen" -s q -l quiet -d 'Say less: only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from reopen" -s v -l verbose -d 'Say more; twice for still more'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from reopen" -s y -l yes -d 'Never ask: take the default, or fail where there is none'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from reopen" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from help" -f -a "list" -d 'List the channels'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from help" -f -a "create" -d 'Make a channel'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from help" -f -a "post" -d 'Post a message'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from help" -f -a "read" -d 'Read a channel\'s messages'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from help" -f -a "assign" -d 'Add members to a channel, or remove them'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from help" -f -a "rename" -d 'Give a channel another shown name'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from help" -f -a "topic" -d 'Give a channel another topic'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from help" -f -a "archive" -d 'Archive a channel'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from help" -f -a "reopen" -d 'Open an archived channel again'
complete -c flock -n "__fish_flock_using_subcommand channel; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c flock -n "__fish_flock_using_subcommand session; and not __fish_seen_subcommand_from list ls show compact reset export import help" -l home -d 'Use this home instead of $FLOCK_HOME or ~/.flock' -r -F
complete -c flock -n "__fish_flock_using_subcommand session; and not __fish_seen_subcommand_from list ls show compact reset export import help" -l color -d 'Use colour' -r -f -a "auto\t'On a terminal that does not ask for none'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand session; and not __fish_seen_subcommand_from list ls show compact reset export import help" -l json -d 'Print JSON for programs'
complete -c flock -n "__fish_flock_using_subcommand session; and not __fish_seen_subcommand_from list ls show compact reset export import help" -s q -l quiet -d 'Say less: only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand session; and not __fish_seen_subcommand_from list ls show compact reset export import help" -s v -l verbose -d 'Say more; twice for still more'
complete -c flock -n "__fish_flock_using_subcommand session; and not __fish_seen_subcommand_from list ls show compact reset export import help" -s y -l yes -d 'Never ask: take the default, or fail where there is none'
complete -c flock -n "__fish_flock_using_subcommand session; and not __fish_seen_subcommand_from list ls show compact reset export import help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand session; and not __fish_seen_subcommand_from list ls show compact reset export import help" -f -a "list" -d 'List the sessions, the one used last first'
complete -c flock -n "__fish_flock_using_subcommand session; and not __fish_seen_subcommand_from list ls show compact reset export import help" -f -a "ls" -d 'List the sessions, the one used last first'
complete -c flock -n "__fish_flock_using_subcommand session; and not __fish_seen_subcommand_from list ls show compact reset export import help" -f -a "show" -d 'Show how full a conversation is, and what stands for what was taken out'
complete -c flock -n "__fish_flock_using_subcommand session; and not __fish_seen_subcommand_from list ls show compact reset export import help" -f -a "compact" -d 'Make room in a conversation now'
complete -c flock -n "__fish_flock_using_subcommand session; and not __fish_seen_subcommand_from list ls show compact reset export import help" -f -a "reset" -d 'Begin a conversation anew'
complete -c flock -n "__fish_flock_using_subcommand session; and not __fish_seen_subcommand_from list ls show compact reset export import help" -f -a "export" -d 'Write a session\'s transcript as one JSON document'
complete -c flock -n "__fish_flock_using_subcommand session; and not __fish_seen_subcommand_from list ls show compact reset export import help" -f -a "import" -d 'Make a session of an exported one'
complete -c flock -n "__fish_flock_using_subcommand session; and not __fish_seen_subcommand_from list ls show compact reset export import help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from list" -l agent -d 'Only those of this agent' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from list" -l limit -d 'How many' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from list" -l home -d 'Use this home instead of $FLOCK_HOME or ~/.flock' -r -F
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from list" -l color -d 'Use colour' -r -f -a "auto\t'On a terminal that does not ask for none'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from list" -l json -d 'Print JSON for programs'
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from list" -s q -l quiet -d 'Say less: only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from list" -s v -l verbose -d 'Say more; twice for still more'
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from list" -s y -l yes -d 'Never ask: take the default, or fail where there is none'
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from ls" -l agent -d 'Only those of this agent' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from ls" -l limit -d 'How many' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from ls" -l home -d 'Use this home instead of $FLOCK_HOME or ~/.flock' -r -F
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from ls" -l color -d 'Use colour' -r -f -a "auto\t'On a terminal that does not ask for none'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from ls" -l json -d 'Print JSON for programs'
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from ls" -s q -l quiet -d 'Say less: only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from ls" -s v -l verbose -d 'Say more; twice for still more'
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from ls" -s y -l yes -d 'Never ask: take the default, or fail where there is none'
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from ls" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from show" -l home -d 'Use this home instead of $FLOCK_HOME or ~/.flock' -r -F
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from show" -l color -d 'Use colour' -r -f -a "auto\t'On a terminal that does not ask for none'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from show" -l json -d 'Print JSON for programs'
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from show" -s q -l quiet -d 'Say less: only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from show" -s v -l verbose -d 'Say more; twice for still more'
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from show" -s y -l yes -d 'Never ask: take the default, or fail where there is none'
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from compact" -l home -d 'Use this home instead of $FLOCK_HOME or ~/.flock' -r -F
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from compact" -l color -d 'Use colour' -r -f -a "auto\t'On a terminal that does not ask for none'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from compact" -l json -d 'Print JSON for programs'
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from compact" -s q -l quiet -d 'Say less: only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from compact" -s v -l verbose -d 'Say more; twice for still more'
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from compact" -s y -l yes -d 'Never ask: take the default, or fail where there is none'
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from compact" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from reset" -l home -d 'Use this home instead of $FLOCK_HOME or ~/.flock' -r -F
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from reset" -l color -d 'Use colour' -r -f -a "auto\t'On a terminal that does not ask for none'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from reset" -l json -d 'Print JSON for programs'
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from reset" -s q -l quiet -d 'Say less: only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from reset" -s v -l verbose -d 'Say more; twice for still more'
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from reset" -s y -l yes -d 'Never ask: take the default, or fail where there is none'
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from reset" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from export" -l home -d 'Use this home instead of $FLOCK_HOME or ~/.flock' -r -F
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from export" -l color -d 'Use colour' -r -f -a "auto\t'On a terminal that does not ask for none'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from export" -l json -d 'Print JSON for programs'
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from export" -s q -l quiet -d 'Say less: only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from export" -s v -l verbose -d 'Say more; twice for still more'
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from export" -s y -l yes -d 'Never ask: take the default, or fail where there is none'
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from export" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from import" -l session -d 'The key of the new session; without it that of the exported one, where that was one\'s own with an agent' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from import" -l home -d 'Use this home instead of $FLOCK_HOME or ~/.flock' -r -F
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from import" -l color -d 'Use colour' -r -f -a "auto\t'On a terminal that does not ask for none'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from import" -l json -d 'Print JSON for programs'
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from import" -s q -l quiet -d 'Say less: only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from import" -s v -l verbose -d 'Say more; twice for still more'
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from import" -s y -l yes -d 'Never ask: take the default, or fail where there is none'
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from import" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from help" -f -a "list" -d 'List the sessions, the one used last first'
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from help" -f -a "show" -d 'Show how full a conversation is, and what stands for what was taken out'
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from help" -f -a "compact" -d 'Make room in a conversation now'
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from help" -f -a "reset" -d 'Begin a conversation anew'
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from help" -f -a "export" -d 'Write a session\'s transcript as one JSON document'
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from help" -f -a "import" -d 'Make a session of an exported one'
complete -c flock -n "__fish_flock_using_subcommand session; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c flock -n "__fish_flock_using_subcommand prompt; and not __fish_seen_subcommand_from show help" -l home -d 'Use this home instead of $FLOCK_HOME or ~/.flock' -r -F
complete -c flock -n "__fish_flock_using_subcommand prompt; and not __fish_seen_subcommand_from show help" -l color -d 'Use colour' -r -f -a "auto\t'On a terminal that does not ask for none'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand prompt; and not __fish_seen_subcommand_from show help" -l json -d 'Print JSON for programs'
complete -c flock -n "__fish_flock_using_subcommand prompt; and not __fish_seen_subcommand_from show help" -s q -l quiet -d 'Say less: only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand prompt; and not __fish_seen_subcommand_from show help" -s v -l verbose -d 'Say more; twice for still more'
complete -c flock -n "__fish_flock_using_subcommand prompt; and not __fish_seen_subcommand_from show help" -s y -l yes -d 'Never ask: take the default, or fail where there is none'
complete -c flock -n "__fish_flock_using_subcommand prompt; and not __fish_seen_subcommand_from show help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand prompt; and not __fish_seen_subcommand_from show help" -f -a "show" -d 'Show the system prompt that an agent\'s model would be sent'
complete -c flock -n "__fish_flock_using_subcommand prompt; and not __fish_seen_subcommand_from show help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c flock -n "__fish_flock_using_subcommand prompt; and __fish_seen_subcommand_from show" -l session -d 'For this session, instead of one that begins now' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand prompt; and __fish_seen_subcommand_from show" -l model -d 'As this model would be sent it, instead of the agent\'s own' -r -a "(__flock_values)"
complete -c flock -n "__fish_flock_using_subcommand prompt; and __fish_seen_subcommand_from show" -l home -d 'Use this home instead of $FLOCK_HOME or ~/.flock' -r -F
complete -c flock -n "__fish_flock_using_subcommand prompt; and __fish_seen_subcommand_from show" -l color -d 'Use colour' -r -f -a "auto\t'On a terminal that does not ask for none'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand prompt; and __fish_seen_subcommand_from show" -l request -d 'The exact body of the request, with prompt, tools and conversation; what was done to the conversation is told on stderr'
complete -c flock -n "__fish_flock_using_subcommand prompt; and __fish_seen_subcommand_from show" -l json -d 'Print JSON for programs'
complete -c flock -n "__fish_flock_using_subcommand prompt; and __fish_seen_subcommand_from show" -s q -l quiet -d 'Say less: only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand prompt; and __fish_seen_subcommand_from show" -s v -l verbose -d 'Say more; twice for still more'
complete -c flock -n "__fish_flock_using_subcommand prompt; and __fish_seen_subcommand_from show" -s y -l yes -d 'Never ask: take the default, or fail where there is none'
complete -c flock -n "__fish_flock_using_subcommand prompt; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand prompt; and __fish_seen_subcommand_from help" -f -a "show" -d 'Show the system prompt that an agent\'s model would be sent'
complete -c flock -n "__fish_flock_using_subcommand prompt; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix update approvals token freeze thaw usage audit doctor restore uninstall completions chat channel session prompt help" -f -a "init" -d 'Set up a home, or complete one that is half made'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix update approvals token freeze thaw usage audit doctor restore uninstall completions chat channel session prompt help" -f -a "start" -d 'Start the gateway in the background and keep it running'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix update approvals token freeze thaw usage audit doctor restore uninstall completions chat channel session prompt help" -f -a "stop" -d 'Stop the gateway, its supervisor and the containers of this home'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix update approvals token freeze thaw usage audit doctor restore uninstall completions chat channel session prompt help" -f -a "restart" -d 'Restart the gateway and OpenClaw, or start them'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix update approvals token freeze thaw usage audit doctor restore uninstall completions chat channel session prompt help" -f -a "status" -d 'Show how the gateway, the agents and their sandboxes stand'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix update approvals token freeze thaw usage audit doctor restore uninstall completions chat channel session prompt help" -f -a "logs" -d 'Show the log of the gateway, of OpenClaw or of the supervisor'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix update approvals token freeze thaw usage audit doctor restore uninstall completions chat channel session prompt help" -f -a "service" -d 'Have the machine\'s service manager keep the gateway running'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix update approvals token freeze thaw usage audit doctor restore uninstall completions chat channel session prompt help" -f -a "add" -d 'Add an agent'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix update approvals token freeze thaw usage audit doctor restore uninstall completions chat channel session prompt help" -f -a "edit" -d 'Change an agent\'s settings'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix update approvals token freeze thaw usage audit doctor restore uninstall completions chat channel session prompt help" -f -a "remove" -d 'Remove an agent'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix update approvals token freeze thaw usage audit doctor restore uninstall completions chat channel session prompt help" -f -a "rename" -d 'Give an agent another id'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix update approvals token freeze thaw usage audit doctor restore uninstall completions chat channel session prompt help" -f -a "list" -d 'List the agents'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix update approvals token freeze thaw usage audit doctor restore uninstall completions chat channel session prompt help" -f -a "tasks" -d 'List the tasks: what agents were asked, and what became of it'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix update approvals token freeze thaw usage audit doctor restore uninstall completions chat channel session prompt help" -f -a "config" -d 'Read, change or check the configuration'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix update approvals token freeze thaw usage audit doctor restore uninstall completions chat channel session prompt help" -f -a "nix" -d 'Manage agents\' packages in the shared store'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix update approvals token freeze thaw usage audit doctor restore uninstall completions chat channel session prompt help" -f -a "update" -d 'Update the OpenClaw gateway or flock itself, or go back to the version before'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix update approvals token freeze thaw usage audit doctor restore uninstall completions chat channel session prompt help" -f -a "approvals" -d 'See what agents ask for, and approve or deny it'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix update approvals token freeze thaw usage audit doctor restore uninstall completions chat channel session prompt help" -f -a "token" -d 'Make, list and revoke tokens of clients'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix update approvals token freeze thaw usage audit doctor restore uninstall completions chat channel session prompt help" -f -a "freeze" -d 'Hold an agent still, or all of them'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix update approvals token freeze thaw usage audit doctor restore uninstall completions chat channel session prompt help" -f -a "thaw" -d 'Let a frozen agent go on, or all of them'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix update approvals token freeze thaw usage audit doctor restore uninstall completions chat channel session prompt help" -f -a "usage" -d 'Show what models were asked and what it cost'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix update approvals token freeze thaw usage audit doctor restore uninstall completions chat channel session prompt help" -f -a "audit" -d 'Show what was done by whom, or check that this record is whole'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix update approvals token freeze thaw usage audit doctor restore uninstall completions chat channel session prompt help" -f -a "doctor" -d 'Look for what is broken, and say what mends it'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix update approvals token freeze thaw usage audit doctor restore uninstall completions chat channel session prompt help" -f -a "restore" -d 'Bring back a damaged or lost database from its newest whole backup'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix update approvals token freeze thaw usage audit doctor restore uninstall completions chat channel session prompt help" -f -a "uninstall" -d 'Remove flock from this machine, or OpenClaw from the home'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix update approvals token freeze thaw usage audit doctor restore uninstall completions chat channel session prompt help" -f -a "completions" -d 'Print a completion script for a shell'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix update approvals token freeze thaw usage audit doctor restore uninstall completions chat channel session prompt help" -f -a "chat" -d 'Talk with an agent'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix update approvals token freeze thaw usage audit doctor restore uninstall completions chat channel session prompt help" -f -a "channel" -d 'Read and write channels, and say who takes part'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix update approvals token freeze thaw usage audit doctor restore uninstall completions chat channel session prompt help" -f -a "session" -d 'Look at conversations, make room in them, begin them anew, keep and bring them'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix update approvals token freeze thaw usage audit doctor restore uninstall completions chat channel session prompt help" -f -a "prompt" -d 'Look at what a model is shown'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from init start stop restart status logs service add edit remove rename list tasks config nix update approvals token freeze thaw usage audit doctor restore uninstall completions chat channel session prompt help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from service" -f -a "install" -d 'Write the service and start it'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from service" -f -a "remove" -d 'Stop the service and remove it'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from config" -f -a "get" -d 'Print the configuration, or one value of it'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from config" -f -a "set" -d 'Change one value'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from config" -f -a "unset" -d 'Take one value out'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from config" -f -a "validate" -d 'Check that the configuration is usable'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from nix" -f -a "install" -d 'Install packages for an agent'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from nix" -f -a "remove" -d 'Remove packages from an agent'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from nix" -f -a "list" -d 'List what an agent has, or what all have'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from nix" -f -a "gc" -d 'Delete what no agent needs from the store'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from nix" -f -a "pin" -d 'Show what the package set is pinned to, or move the pin'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from nix" -f -a "rollback" -d 'Undo the last change of an agent\'s packages'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from approvals" -f -a "list" -d 'List what is open'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from approvals" -f -a "show" -d 'Show one request: what exactly would be done, for whom and why'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from approvals" -f -a "approve" -d 'Approve a request, or give back what was taken back'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from approvals" -f -a "deny" -d 'Deny a request, or take an approval back that nothing came of yet'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from approvals" -f -a "revoke" -d 'Take back what a request granted: a host to reach, a folder to read, a package'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from token" -f -a "add" -d 'Make a token and print it, this once'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from token" -f -a "list" -d 'List the tokens with their rights, agents and ends'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from token" -f -a "revoke" -d 'Revoke a token and end the streams that it opened'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from channel" -f -a "list" -d 'List the channels'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from channel" -f -a "create" -d 'Make a channel'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from channel" -f -a "post" -d 'Post a message'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from channel" -f -a "read" -d 'Read a channel\'s messages'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from channel" -f -a "assign" -d 'Add members to a channel, or remove them'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from channel" -f -a "rename" -d 'Give a channel another shown name'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from channel" -f -a "topic" -d 'Give a channel another topic'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from channel" -f -a "archive" -d 'Archive a channel'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from channel" -f -a "reopen" -d 'Open an archived channel again'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from session" -f -a "list" -d 'List the sessions, the one used last first'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from session" -f -a "show" -d 'Show how full a conversation is, and what stands for what was taken out'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from session" -f -a "compact" -d 'Make room in a conversation now'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from session" -f -a "reset" -d 'Begin a conversation anew'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from session" -f -a "export" -d 'Write a session\'s transcript as one JSON document'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from session" -f -a "import" -d 'Make a session of an exported one'
complete -c flock -n "__fish_flock_using_subcommand help; and __fish_seen_subcommand_from prompt" -f -a "show" -d 'Show the system prompt that an agent\'s model would be sent'

# util-linux's flock has the same name: its lines begin with a file, so file names stay on offer.
complete -c flock -n "__fish_flock_needs_command" -F

# What only a home knows: agents, channels, sessions, places of the configuration. --version comes first because util-linux's
# flock, where that is the one on PATH, then prints its version and locks nothing; its answer has no tab.
function __flock_values
    set -l words (commandline -opc)
    command flock --version --complete (count $words) -- $words (commandline -ct) 2>/dev/null | string match -e \t
end
complete -c flock -n "not __fish_flock_needs_command" -a "(__flock_values)"
