# bash completion for profctl. Subcommands and options come from its --help, so they always match it.

_profctl_subcommands() {
  profctl --help 2>/dev/null | sed -n '/^Subcommands:/,/^$/s/^  \([a-z][a-z-]*\) .*/\1/p'
}

_profctl_options() {
  profctl "$@" --help 2>/dev/null | grep -oE -- '--[a-z][a-z-]+' | sort -u
}

# The subcommand: the first word that is neither an option nor the argument of --socket.
_profctl_subcommand() {
  local i
  for ((i = 1; i < COMP_CWORD; i++)); do
    case ${COMP_WORDS[i]} in
    --socket) i=$((i + 1)) ;;
    -*) ;;
    *)
      printf '%s' "${COMP_WORDS[i]}"
      return
      ;;
    esac
  done
}

_profctl_words() {
  case $1 in
  pids) ps -eo pid= ;;
  comms) ps -eo comm= | sort -u ;;
  users) getent passwd | cut -d: -f1 ;;
  units) systemctl list-units --plain --no-legend --no-pager --all 2>/dev/null | cut -d' ' -f1 ;;
  sessions) profctl list 2>/dev/null | sed 1d | cut -d' ' -f1 ;;
  events) profctl events 2>/dev/null | sed 1d | cut -d' ' -f1 ;;
  esac
}

_profctl() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} subcommand list=
  COMPREPLY=()
  subcommand=$(_profctl_subcommand)
  case $before in
  -b | --binary | -i | --input | --cache | --config | --ship-config | --state-dir | --runtime-dir | --web-root | --tls-cert | --tls-key)
    mapfile -t COMPREPLY < <(compgen -f -- "$word")
    return
    ;;
  --format)
    list='pprof folded speedscope dir'
    [ "$subcommand" = convert ] && list='pprof prof folded speedscope html svg json trace'
    ;;
  --by)
    list='process unit container'
    [ "$subcommand" = flame ] && list+=' command user thread runtime state wait unit,process'
    [[ $subcommand == report || $subcommand == diff ]] && list+=' command user thread runtime state wait file line function unit,function'
    ;;
  --names) list='short full' ;;
  --per) list='share cpu' ;;
  --sort) list='time longest' ;;
  -o | --output)
    mapfile -t COMPREPLY < <(compgen -f -- "$word")
    return
    ;;
  --socket)
    mapfile -t COMPREPLY < <(compgen -f -- "$word")
    return
    ;;
  -p | --pid) list=$(_profctl_words pids) ;;
  -n | --comm) list=$(_profctl_words comms) ;;
  -u | --unit) list=$(_profctl_words units) ;;
  --uid) list=$(_profctl_words users) ;;
  -e | --event) list=$(_profctl_words events) ;;
  --) [ "$subcommand" = record ] && mapfile -t COMPREPLY < <(compgen -c -- "$word") && return ;;
  *)
    if [[ $word == -* ]]; then
      list=$(_profctl_options ${subcommand:+"$subcommand"})
    elif [ -z "$subcommand" ]; then
      list=$(_profctl_subcommands)
    elif [[ $subcommand == convert || $subcommand == report || $subcommand == flame || $subcommand == diff ||
      $subcommand == web || $subcommand == view ]]; then
      mapfile -t COMPREPLY < <(compgen -f -- "$word")
      return
    elif [ "$subcommand" = debuginfo ]; then
      list='list fetch'
    elif [ "$subcommand" = stop ] || [ "$subcommand" = dump ]; then
      list=$(_profctl_words sessions)
    fi
    ;;
  esac
  mapfile -t COMPREPLY < <(compgen -W "$list" -- "$word")
}

complete -F _profctl profctl
