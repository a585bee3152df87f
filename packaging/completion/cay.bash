# bash completion for cay, made by `cay completion bash`.
_cay()
{
    local line=${COMP_LINE:0:COMP_POINT} word typed='' files=''
    local -a words
    COMPREPLY=()
    read -ra words <<<"$line"
    [[ $line == *[[:space:]] ]] && words+=('')
    local cur=${words[${#words[@]} - 1]}
    # Bash takes a colon and an equals sign for the end of a word.
    [[ $cur == *[:=]* ]] && typed=${cur%"${cur##*[:=]}"}
    while IFS=$'\t' read -r word _; do
        case $word in
        :file) files=yes ;;
        :nospace) compopt -o nospace ;;
        *) COMPREPLY+=("${word#"$typed"}") ;;
        esac
    done < <(cay completion --line -- "${words[@]:1}" 2>/dev/null)
    [[ -n $files ]] || return
    # Beside other words, whose colon bash would quote too, we quote the names.
    local mixed=${#COMPREPLY[@]}
    ((mixed)) || compopt -o filenames
    while read -r word; do
        ((mixed)) && printf -v word %q "$word"
        COMPREPLY+=("$word")
    done < <(compgen -f -- "${cur#"$typed"}")
}
complete -F _cay cay
