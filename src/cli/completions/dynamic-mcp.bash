# Completions of dynamic-mcp for bash. In ~/.bashrc: eval "$(dynamic-mcp completions bash)"
_dynamic_mcp() {
    local program=${COMP_WORDS[0]/#\~/$HOME} line
    # $2 is the word before the cursor, as bash will replace it.
    local words=("${COMP_WORDS[@]:1:COMP_CWORD-1}" "$2")
    # They are as they were typed.
    words=("${words[@]//[\\\"\']/}")
    COMPREPLY=()
    while IFS= read -r line; do
        printf -v line '%q' "${line%%$'\t'*}"
        COMPREPLY+=("$line")
    done < <("$program" __complete -- "${words[@]}" 2>/dev/null)
}
complete -o default -F _dynamic_mcp dynamic-mcp
