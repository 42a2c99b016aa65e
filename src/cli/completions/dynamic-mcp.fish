# Completions of dynamic-mcp for fish. In ~/.config/fish/config.fish: dynamic-mcp completions fish | source
function __dynamic_mcp_complete
    set -l words (commandline -opc)
    set -l program (string replace -r '^~' $HOME -- $words[1])
    set -e words[1]
    $program __complete -- $words (commandline -ct) 2>/dev/null
end
complete -c dynamic-mcp -f -a '(__dynamic_mcp_complete)'
complete -c dynamic-mcp -l config -l log-file -r -F
