#compdef profctl
# Completes profctl. Subcommands and options come from its --help, so they always match it.

_profctl_subcommands() {
  profctl --help 2>/dev/null | sed -n '/^Subcommands:/,/^$/s/^  \([a-z][a-z-]*\) .*/\1/p'
}

_profctl_options() {
  profctl "$@" --help 2>/dev/null | grep -oE -- '--[a-z][a-z-]+' | sort -u
}

_profctl() {
  local subcommand word
  local -a list
  for word in ${words[2,CURRENT-1]}; do
    [[ $word == -* ]] || { subcommand=$word; break }
  done
  case ${words[CURRENT-1]} in
  -o | --output | --socket | -b | --binary | -i | --input | --cache | --config | --ship-config | --state-dir | --runtime-dir | --web-root | --tls-cert | --tls-key) _files; return ;;
  --format)
    list=(pprof folded speedscope dir)
    [[ $subcommand == convert ]] && list=(pprof prof folded speedscope html svg json trace) ;;
  --by)
    list=(process unit container)
    [[ $subcommand == flame ]] && list+=(command user thread runtime state wait unit,process)
    [[ $subcommand == (report|diff) ]] && list+=(command user thread runtime state wait file line function unit,function) ;;
  --names) list=(short full) ;;
  --per) list=(share cpu) ;;
  --sort) list=(time longest) ;;
  -p | --pid) list=(${(f)"$(ps -eo pid= | tr -d ' ')"}) ;;
  -n | --comm) list=(${(f)"$(ps -eo comm= | sort -u)"}) ;;
  -u | --unit)
    list=(${(f)"$(systemctl list-units --plain --no-legend --no-pager --all 2>/dev/null | cut -d' ' -f1)"}) ;;
  --uid) _users; return ;;
  -e | --event) list=(${(f)"$(profctl events 2>/dev/null | sed 1d | cut -d' ' -f1)"}) ;;
  --) _command_names -e; return ;;
  *)
    if [[ ${words[CURRENT]} == -* ]]; then
      list=(${(f)"$(_profctl_options $subcommand)"})
    elif [[ -z $subcommand ]]; then
      list=(${(f)"$(_profctl_subcommands)"})
    elif [[ $subcommand == (convert|report|flame|diff|web|view) ]]; then
      _files
      return
    elif [[ $subcommand == debuginfo ]]; then
      list=(list fetch)
    elif [[ $subcommand == (stop|dump) ]]; then
      list=(${(f)"$(profctl list 2>/dev/null | sed 1d | cut -d' ' -f1)"})
    fi ;;
  esac
  compadd -a list
}

_profctl "$@"
