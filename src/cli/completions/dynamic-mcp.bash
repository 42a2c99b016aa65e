# Completions of dynamic-mcp for bash. In ~/.bashrc: eval "$(dynamic-mcp completions bash)"
_dynamic_mcp() {
    local program=${COMP_WORDS[0]/#\~/$HOME} line=${COMP_LINE:0:COMP_POINT} words=() last=0 i prefix
    # bash splits words at `:` and `=`, too. Those without a space between them are put together again.
    for ((i = 0; i < COMP_CWORD; i++)); do
        [[ $line == [[:space:]]* ]] && ((last += 1))
        words[last]+=${COMP_WORDS[i]}
        line=${line#*"${COMP_WORDS[i]}"}
    done
    # The rest of the line ends at the cursor.
    [[ $line == [[:space:]]* ]] && ((last += 1))
    words[last]+=${line#"${line%%[![:space:]]*}"}
    # They are as they were typed.
    words=("${words[@]//[\\\"\']/}")
    # bash replaces only $2, the part of the last word after its last `:` or `=`.
    prefix=${words[last]%"${2//[\\\"\']/}"}
    COMPREPLY=()
    while IFS= read -r line; do
        line=${line%%$'\t'*}
        printf -v line '%q' "${line#"$prefix"}"
        COMPREPLY+=("$line")
    done < <("$program" __complete -- "${words[@]:1}" 2>/dev/null)
}
complete -o default -F _dynamic_mcp dynamic-mcp
