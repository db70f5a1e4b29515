
# What only a home knows: agents, channels, sessions, places of the configuration. --version comes first because util-linux's
# flock, where that is the one on PATH, then prints its version and locks nothing; its answer has no tab.
_flock_values() {
    local cur words cword line
    if declare -F _get_comp_words_by_ref >/dev/null; then
        _get_comp_words_by_ref -n ':=' cur words cword
    else
        cur=${COMP_WORDS[COMP_CWORD]} words=("${COMP_WORDS[@]}") cword=$COMP_CWORD
    fi
    [[ $cur == -* ]] && return 0
    local -a found=()
    while IFS= read -r line; do
        [[ $line == *$'\t'* ]] && found+=("${line%%$'\t'*}")
    done < <(command flock --version --complete "$cword" -- "${words[@]}" 2>/dev/null)
    ((${#found[@]})) || return 0
    COMPREPLY=("${found[@]}")
    declare -F __ltrim_colon_completions >/dev/null && __ltrim_colon_completions "$cur"
    return 0
}

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
    _flock_values
}

if [[ "${BASH_VERSINFO[0]}" -eq 4 && "${BASH_VERSINFO[1]}" -ge 4 || "${BASH_VERSINFO[0]}" -gt 4 ]]; then
    complete -F _flock_or_util_linux -o nosort -o bashdefault -o default flock
else
    complete -F _flock_or_util_linux -o bashdefault -o default flock
fi
