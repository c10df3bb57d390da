#include "formats/proc/stat.h"

#include "formats/base/errors.h"
#include "formats/base/text_fields.h"
#include "formats/base/whole_file.h"

namespace profd {
namespace {

void skip_fields(TextFields& fields, int count) {
  for (; count > 0; --count) fields.word_after_blanks();
}

template <class T>
void read_field(TextFields& fields, T& out) {
  fields.blanks();
  out = fields.decimal<T>();
}

}  // namespace

Result<ProcessStat> parse_process_stat(std::string_view text) {
  // Field 2, the name, may contain any character, also ')' and blanks. No later field has a ')'.
  const std::size_t name_end = text.rfind(')');
  TextFields fields(text.substr(name_end == text.npos ? text.size() : name_end + 1));
  ProcessStat stat;
  skip_fields(fields, 1);  // field 3
  read_field(fields, stat.parent_pid);
  skip_fields(fields, 4);  // fields 5 to 8
  read_field(fields, stat.flags);
  skip_fields(fields, 4);  // fields 10 to 13
  read_field(fields, stat.user_ticks);
  read_field(fields, stat.system_ticks);
  skip_fields(fields, 6);  // fields 16 to 21
  read_field(fields, stat.start_ticks);
  if (!fields.ok()) return malformed("could not parse a /proc/PID/stat");
  return stat;
}

Result<ProcessStat> read_process_stat(const std::string& path, int directory) {
  const auto text = read_whole_file(path, directory);
  return text ? parse_process_stat(*text) : text.error();
}

}  // namespace profd
