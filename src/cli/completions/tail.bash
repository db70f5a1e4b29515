
# util-linux's flock has the same name: `flock -n FILE COMMAND` and `flock FILE COMMAND` are its lines, and get
# file names and commands instead of our verbs.
_flock_or_util_linux() {
    local first=${COMP_WORDS[1]} i
    case $first in
        --home | --home=* | --json | --quiet | --verbose | --color | --color=* | --yes | --help | --version) ;;
        -q | -v | -vv | -y | -h | -V) ;;
        -* | */* | [0-9] | [0-9][0-9])
            if ((COMP_CWORD > 1)); then
                for ((i = 1; i < COMP_CWORD; i++)); do
                    [[ ${COMP_WORDS[i]} != -* ]] && break
                done
                if ((i + 1 <= COMP_CWORD)) && declare -F _command_offset >/dev/null; then
                    _command_offset $((i + 1))
                else
                    COMPREPLY=()
                fi
                return 0
            fi
            ;;
    esac
    _flock "$@"
}

if [[ "${BASH_VERSINFO[0]}" -eq 4 && "${BASH_VERSINFO[1]}" -ge 4 || "${BASH_VERSINFO[0]}" -gt 4 ]]; then
    complete -F _flock_or_util_linux -o nosort -o bashdefault -o default flock
else
    complete -F _flock_or_util_linux -o bashdefault -o default flock
fi
