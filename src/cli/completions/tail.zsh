
# util-linux's flock has the same name: `flock -n FILE COMMAND` and `flock FILE COMMAND` are its lines, and get
# file names and commands instead of our verbs.
_flock() {
    local first=$words[2]
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
