# Completions of dynamic-mcp for PowerShell. In $PROFILE: dynamic-mcp completions powershell | Out-String | Invoke-Expression
Register-ArgumentCompleter -Native -CommandName 'dynamic-mcp' -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)
    $program = $commandAst.GetCommandName()
    $words = @($commandAst.CommandElements | Select-Object -Skip 1 |
        Where-Object { $_.Extent.EndOffset -lt $cursorPosition } |
        ForEach-Object { $_.Extent.Text -replace '^[''"]|[''"]$' })
    # The last word is in an option, because Windows PowerShell passes no empty arguments to programs.
    $typed = '--typed=' + ($wordToComplete -replace '^[''"]|[''"]$')
    $encoding = [Console]::OutputEncoding
    [Console]::OutputEncoding = [System.Text.Encoding]::UTF8
    try {
        $lines = & $program __complete $typed '--' @words 2>$null
    } finally {
        [Console]::OutputEncoding = $encoding
    }
    foreach ($line in $lines) {
        $word, $about = $line -split "`t", 2
        $text = $word
        if ($word -notmatch '^[\w./:=+-]+$') {
            $text = "'" + $word.Replace("'", "''") + "'"
        }
        # It may not be empty.
        if (-not $about) {
            $about = $word
        }
        [System.Management.Automation.CompletionResult]::new($text, $word, 'ParameterValue', $about)
    }
}
