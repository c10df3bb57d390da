# fish completion for profctl. Subcommands and options come from its --help, so they always match it.

function __profctl_subcommands
    profctl --help 2>/dev/null | sed -n '/^Subcommands:/,/^$/s/^  \([a-z][a-z-]*\) \{1,\}\(.*\)/\1\t\2/p'
end

function __profctl_subcommand
    for word in (commandline -opc)[2..-1]
        if not string match -q -- '-*' $word
            echo $word
            return
        end
    end
end

function __profctl_options
    profctl (__profctl_subcommand) --help 2>/dev/null | grep -oE -- '--[a-z][a-z-]+' | sort -u
end

function __profctl_values
    switch (commandline -opc)[-1]
        case -p --pid
            ps -eo pid= | string trim
        case -n --comm
            ps -eo comm= | sort -u
        case -u --unit
            systemctl list-units --plain --no-legend --no-pager --all 2>/dev/null | cut -d' ' -f1
        case --uid
            getent passwd | cut -d: -f1
        case -e --event
            profctl events 2>/dev/null | sed 1d | cut -d' ' -f1
        case --format
            if test (__profctl_subcommand) = convert
                printf '%s\n' pprof prof folded speedscope html svg json trace
            else
                printf '%s\n' pprof folded speedscope dir
            end
        case --by
            printf '%s\n' process unit container
            if test (__profctl_subcommand) = flame
                printf '%s\n' command user thread runtime state wait unit,process
            end
            if contains (__profctl_subcommand) report diff
                printf '%s\n' command user thread runtime state wait file line function unit,function
            end
        case --names
            printf '%s\n' short full
        case --per
            printf '%s\n' share cpu
        case --sort
            printf '%s\n' time longest
        case -o --output --socket -b --binary -i --input --cache --config --ship-config --state-dir --runtime-dir --web-root --tls-cert --tls-key
            __fish_complete_path (commandline -ct)
        case '*'
            if not __profctl_subcommand >/dev/null; or test -z (__profctl_subcommand)
                __profctl_subcommands
            else if contains (__profctl_subcommand) convert report flame diff web view
                __fish_complete_path (commandline -ct)
            else if test (__profctl_subcommand) = debuginfo
                printf '%s\n' list fetch
            else if contains (__profctl_subcommand) stop dump
                profctl list 2>/dev/null | sed 1d | cut -d' ' -f1
            end
    end
end

complete -c profctl -f -a '(__profctl_values)'
complete -c profctl -f -n 'string match -q -- "-*" (commandline -ct)' -a '(__profctl_options)'
