# fish completion for cay, made by `cay completion fish`.
function __cay_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -e words[1]
    cay completion --line -- $words "$current" 2>/dev/null | while read -l line
        switch $line
            case ':file'
                __fish_complete_path "$current"
            case ':nospace'
            case '*'
                echo $line
        end
    end
end
complete -c cay -f -a '(__cay_complete)'
