#include "formats/proc/status.h"

#include "formats/base/errors.h"
#include "formats/base/text_fields.h"
#include "formats/base/whole_file.h"

namespace profd {
namespace {

// The fields behind "KEY:\t"; for a key without a line, none. No process can forge a line: "Name:"
// alone has text that a process chooses, and in it the kernel writes a line feed as "\n".
TextFields fields_of(std::string_view text, std::string_view key) {
  const std::string start = "\n" + std::string(key) + ":\t";
  const std::size_t line = text.find(start);
  if (line == text.npos) return TextFields(std::string_view());
  text.remove_prefix(line + start.size());
  return TextFields(text.substr(0, text.find('\n')));
}

bool read_ids(std::string_view text, std::string_view key, std::array<std::uint32_t, 4>& ids) {
  TextFields fields = fields_of(text, key);
  for (std::uint32_t& id : ids) {
    if (&id != &ids.front()) fields.blanks();
    id = fields.decimal<std::uint32_t>();
  }
  return fields.ok();
}

bool read_mask(std::string_view text, std::string_view key, std::uint64_t& mask) {
  TextFields fields = fields_of(text, key);
  mask = fields.hexadecimal();
  return fields.ok();
}

// The last number of the line: the innermost namespace's.
bool read_pid(std::string_view text, std::string_view key, std::uint32_t& pid) {
  TextFields fields = fields_of(text, key);
  pid = fields.decimal<std::uint32_t>();
  while (fields.ok() && !fields.rest().empty()) {
    fields.blanks();
    pid = fields.decimal<std::uint32_t>();
  }
  return fields.ok();
}

}  // namespace

Result<ProcessStatus> parse_process_status(std::string_view text) {
  ProcessStatus status;
  const bool is_whole = read_ids(text, "Uid", status.uids) && read_ids(text, "Gid", status.gids) &&
                        (read_pid(text, "NSpid", status.namespace_pid) ||
                         read_pid(text, "Pid", status.namespace_pid)) &&
                        read_mask(text, "SigCgt", status.caught_signals) &&
                        read_mask(text, "CapPrm", status.permitted_capabilities) &&
                        read_mask(text, "CapEff", status.effective_capabilities);
  if (!is_whole) return malformed("could not parse a /proc/PID/status");
  return status;
}

Result<ProcessStatus> read_process_status(const std::string& path, int directory) {
  const auto text = read_whole_file(path, directory);
  return text ? parse_process_status(*text) : text.error();
}

}  // namespace profd
