
# util-linux's flock has the same name: its lines begin with a file, so file names stay on offer.
complete -c flock -n "__fish_flock_needs_command" -F
