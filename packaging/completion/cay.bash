# bash completion for cay, made by `cay completion bash`.
# Bash takes a colon for the end of a word, which names of images have.
_cay_images()
{
    local word=${COMP_LINE:0:COMP_POINT} typed
    word=${word##* }
    typed=${word%"${word##*:}"}
    COMPREPLY=($(compgen -W "$(cay image ls -q 2>/dev/null)" -- "$word"))
    COMPREPLY=("${COMPREPLY[@]#"$typed"}")
}
_cay()
{
    local cur=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]}
    local flags='' kind=none second='' i
    COMPREPLY=()
    for ((i = 1; i < COMP_CWORD; i++)); do
        [[ ${COMP_WORDS[i]} == -- ]] && return
    done
    if ((COMP_CWORD == 1)); then
        COMPREPLY=($(compgen -W 'run create exec attach ls list inspect logs pause resume stop kill rm cp file ps stats image images pull commit rmi serve doctor version completion help' -- "$cur"))
        return
    fi
    case $command in
    file) second='read write ls rm upload' ;;
    image) second='ls pull import export commit tag rm prune inspect catalog' ;;
    esac
    if [[ -n $second ]]; then
        if ((COMP_CWORD == 2)); then
            COMPREPLY=($(compgen -W "$second" -- "$cur"))
            return
        fi
        command+=" ${COMP_WORDS[2]}"
    fi
    case $command in
    "run") flags='-n --name -m --memory -c --cpu --disk -e --env -w --workdir --pull -t --tty -i --interactive --raw -u --user --timeout --keep --time --json -q --quiet --host -h --help' kind=image ;;
    "create") flags='-n --name -m --memory -c --cpu --disk -e --env -w --workdir --pull --timeout --metadata --json -q --quiet --host -h --help' kind=image ;;
    "exec") flags='-t --tty -i --interactive --raw -w --cwd -u --user -e --env --timeout -d --detach --json --host -h --help' kind=id ;;
    "attach") flags='--no-input --end --raw --host -h --help' kind=id ;;
    "ls" | "list") flags='-a --all --status -q --quiet --json --host -h --help' kind=none ;;
    "inspect") flags='--host -h --help' kind=id ;;
    "logs") flags='-f --follow -n --tail --raw --json --host -h --help' kind=id ;;
    "pause") flags='-q --quiet --host -h --help' kind=id ;;
    "resume") flags='-q --quiet --host -h --help' kind=id ;;
    "stop" | "kill" | "rm") flags='-a --all -y --yes -q --quiet --host -h --help' kind=id ;;
    "cp") flags='-q --quiet --host -h --help' kind=both ;;
    "file read") flags='--anywhere --raw --host -h --help' kind=id ;;
    "file write") flags='--anywhere -q --quiet --host -h --help' kind=id ;;
    "file ls") flags='--anywhere -q --quiet --json --host -h --help' kind=id ;;
    "file rm") flags='--anywhere -r --recursive --host -h --help' kind=id ;;
    "file upload") flags='--anywhere -q --quiet --host -h --help' kind=both ;;
    "ps") flags='--json --host -h --help' kind=id ;;
    "stats") flags='--no-stream --interval --json --host -h --help' kind=id ;;
    "image ls" | "images") flags='-q --quiet --json --host -h --help' kind=none ;;
    "image pull" | "pull") flags='--name --username --password-stdin --platform --insecure --json -q --quiet --host -h --help' kind=image ;;
    "image import") flags='--json -q --quiet --host -h --help' kind=file ;;
    "image export") flags='--host -h --help' kind=image ;;
    "image commit" | "commit") flags='-e --env -w --workdir -u --user --entrypoint --cmd -l --label --json --host -h --help' kind=id ;;
    "image tag") flags='--host -h --help' kind=image ;;
    "image rm" | "rmi") flags='--host -h --help' kind=image ;;
    "image prune") flags='--unused-for --keep-size -n --dry-run -y --yes --json --host -h --help' kind=none ;;
    "image inspect") flags='--host -h --help' kind=image ;;
    "image catalog") flags='--json --host -h --help' kind=none ;;
    "serve") flags='--listen --data --run --token-file --no-tcp --replace --detach --insecure --stop-sandboxes --openapi --host -h --help' kind=none ;;
    "doctor") flags='--repair -y --yes --json --host -h --help' kind=none ;;
    "version") flags='--json --host -h --help' kind=none ;;
    "completion") flags='--host -h --help' kind=none ;;
    "help") flags='--man --markdown --host -h --help' kind=command ;;
    esac
    if [[ $cur == -* ]]; then
        COMPREPLY=($(compgen -W "$flags" -- "$cur"))
        return
    fi
    case $kind in
    id | both) COMPREPLY=($(compgen -W "$(cay ls --all -q 2>/dev/null)" -- "$cur")) ;;&
    image) _cay_images ;;
    file | both) COMPREPLY+=($(compgen -f -- "$cur")) ;;
    command) COMPREPLY=($(compgen -W 'run create exec attach ls list inspect logs pause resume stop kill rm cp file ps stats image images pull commit rmi serve doctor version completion help' -- "$cur")) ;;
    esac
}
complete -o filenames -F _cay cay
