
# util-linux's flock has the same name: its lines begin with a file, so file names stay on offer.
complete -c flock -n "__fish_flock_needs_command" -F

# What only a home knows: agents, channels, sessions, places of the configuration. --version comes first because util-linux's
# flock, where that is the one on PATH, then prints its version and locks nothing; its answer has no tab.
function __flock_values
    set -l words (commandline -opc)
    command flock --version --complete (count $words) -- $words (commandline -ct) 2>/dev/null | string match -e \t
end
complete -c flock -n "not __fish_flock_needs_command" -a "(__flock_values)"
