#compdef profctl
# Verbs and options are read from profctl's own --help, so they are always its own.

_profctl_verbs() {
  profctl --help 2>/dev/null | sed -n '/^Subcommands:/,/^$/s/^  \([a-z]\{1,\}\) .*/\1/p'
}

_profctl_options() {
  profctl "$@" --help 2>/dev/null | grep -oE -- '--[a-z][a-z-]+' | sort -u
}

_profctl() {
  local verb word
  local -a list
  for word in ${words[2,CURRENT-1]}; do
    [[ $word == -* ]] || { verb=$word; break }
  done
  case ${words[CURRENT-1]} in
  -o | --output) _files -/; return ;;
  --socket | -b | --binary) _files; return ;;
  --format) list=(prof folded trace) ;;
  -p | --pid) list=(${(f)"$(ps -eo pid= | tr -d ' ')"}) ;;
  -n | --comm) list=(${(f)"$(ps -eo comm= | sort -u)"}) ;;
  -u | --unit)
    list=(${(f)"$(systemctl list-units --plain --no-legend --no-pager --all 2>/dev/null | cut -d' ' -f1)"}) ;;
  --uid) _users; return ;;
  -e | --event) list=(cpu cpu-clock task-clock cycles page-faults context-switches xray) ;;
  --) _command_names -e; return ;;
  *)
    if [[ ${words[CURRENT]} == -* ]]; then
      list=(${(f)"$(_profctl_options $verb)"})
    elif [[ -z $verb ]]; then
      list=(${(f)"$(_profctl_verbs)"})
    elif [[ $verb == convert ]]; then
      _files
      return
    elif [[ $verb == (stop|dump) ]]; then
      list=(${(f)"$(profctl list 2>/dev/null | sed 1d | cut -d' ' -f1)"})
    fi ;;
  esac
  compadd -a list
}

_profctl "$@"
