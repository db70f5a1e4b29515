
# What only a home knows: agents, channels, sessions, places of the configuration. --version comes first because util-linux's
# flock, where that is the one on PATH, then prints its version and locks nothing; its answer has no tab.
_flock_values() {
    local line
    local -a found
    for line in "${(@f)$(command flock --version --complete $((flock_current - 1)) -- "${(@)flock_words}" 2>/dev/null)}"; do
        [[ $line == *$'\t'* ]] && found+=("${line%%$'\t'*}")
    done
    if (( $#found )); then
        compadd -a found
    else
        _default
    fi
}

# util-linux's flock has the same name: `flock -n FILE COMMAND` and `flock FILE COMMAND` are its lines, and get
# file names and commands instead of our verbs.
_flock() {
    local first=$words[2] flock_current=$CURRENT
    local -a flock_words=("${(@)words}")
    case $first in
        (--home|--home=*|--json|--quiet|--verbose|--color|--color=*|--yes|--help|--version) ;;
        (-q|-v|-vv|-y|-h|-V) ;;
        (-*|*/*|[0-9]|[0-9][0-9])
            if (( CURRENT > 2 )); then
                local i=2
                while (( i < CURRENT )) && [[ $words[i] == -* ]]; do (( i++ )); done
                if (( i < CURRENT )); then
                    shift $i words
                    (( CURRENT -= i ))
                    _normal
                else
                    _files
                fi
                return
            fi
            ;;
    esac
    _flock_verbs "$@"
}

if [ "$funcstack[1]" = "_flock" ]; then
    _flock "$@"
else
    compdef _flock flock
fi
