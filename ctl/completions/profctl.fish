# fish completion for profctl. Verbs and options are read from its own --help, so they are always its own.

function __profctl_verbs
    profctl --help 2>/dev/null | sed -n '/^Subcommands:/,/^$/s/^  \([a-z]\{1,\}\) \{1,\}\(.*\)/\1\t\2/p'
end

function __profctl_verb
    for word in (commandline -opc)[2..-1]
        if not string match -q -- '-*' $word
            echo $word
            return
        end
    end
end

function __profctl_options
    profctl (__profctl_verb) --help 2>/dev/null | grep -oE -- '--[a-z][a-z-]+' | sort -u
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
            printf '%s\n' cpu cpu-clock task-clock cycles page-faults context-switches xray
        case --format
            printf '%s\n' prof folded trace
        case -o --output --socket -b --binary
            __fish_complete_path (commandline -ct)
        case '*'
            if not __profctl_verb >/dev/null; or test -z (__profctl_verb)
                __profctl_verbs
            else if test (__profctl_verb) = convert
                __fish_complete_path (commandline -ct)
            else if contains (__profctl_verb) stop dump
                profctl list 2>/dev/null | sed 1d | cut -d' ' -f1
            end
    end
end

complete -c profctl -f -a '(__profctl_values)'
complete -c profctl -f -n 'string match -q -- "-*" (commandline -ct)' -a '(__profctl_options)'
