#compdef dynamic-mcp
# Completions of dynamic-mcp for zsh. In ~/.zshrc, after compinit: eval "$(dynamic-mcp completions zsh)"
_dynamic_mcp() {
    local program=${${(Q)words[1]}/#\~/$HOME} line
    local -a typed candidates
    typed=("${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}")
    for line in "${(@f)$("$program" __complete -- "${typed[@]}" 2>/dev/null)}"; do
        # _describe splits at the first colon.
        [[ -n $line ]] && candidates+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
    done
    if (( $#candidates )); then
        _describe 'dynamic-mcp' candidates
    else
        _files
    fi
}
if [[ $funcstack[1] == _dynamic_mcp ]]; then
    _dynamic_mcp "$@"
else
    compdef _dynamic_mcp dynamic-mcp
fi
