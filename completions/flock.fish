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
complete -c flock -n "__fish_flock_needs_command" -f -a "completions" -d 'Print a completion script for a shell'
complete -c flock -n "__fish_flock_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c flock -n "__fish_flock_using_subcommand completions" -l home -d 'Use this home instead of $FLOCK_HOME or ~/.flock' -r -F
complete -c flock -n "__fish_flock_using_subcommand completions" -l color -d 'Use colour' -r -f -a "auto\t'On a terminal that does not ask for none'
always\t'Always'
never\t'Never'"
complete -c flock -n "__fish_flock_using_subcommand completions" -l json -d 'Print JSON for programs'
complete -c flock -n "__fish_flock_using_subcommand completions" -s q -l quiet -d 'Say less: only data, warnings and errors'
complete -c flock -n "__fish_flock_using_subcommand completions" -s v -l verbose -d 'Say more; twice for still more'
complete -c flock -n "__fish_flock_using_subcommand completions" -s y -l yes -d 'Never ask: take the default, or fail where there is none'
complete -c flock -n "__fish_flock_using_subcommand completions" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from completions help" -f -a "completions" -d 'Print a completion script for a shell'
complete -c flock -n "__fish_flock_using_subcommand help; and not __fish_seen_subcommand_from completions help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'

# util-linux's flock has the same name: its lines begin with a file, so file names stay on offer.
complete -c flock -n "__fish_flock_needs_command" -F
