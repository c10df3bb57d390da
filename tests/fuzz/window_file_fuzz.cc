// The file of a window or an hour whose own data, or whose header field, is any text. 'H' and the
// bytes of a field: what decodes has names of windows. Otherwise own data: what decodes is encoded
// again, to equal members.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "daemon/history/window_file.h"
#include "formats/base/gzip.h"
#include "formats/profile/pprof_writer.h"
#include "tests/fuzz/require.h"

namespace {

using namespace profd;

constexpr std::string_view kFieldId = "PW";

std::string number_of_bytes(std::uint64_t number) {
  std::string bytes;
  for (unsigned i = 0; i < sizeof number; ++i) {
    bytes.push_back(static_cast<char>(number >> (8 * i) & 0xffU));
  }
  return bytes;
}

PprofProfile empty_profile() { return PprofProfile({{"samples", "count"}}, 1); }

// A file with any own data and a header that fits.
std::string file_with(std::string_view own_data) {
  PprofProfile profile = empty_profile();
  profile.own_data = own_data;
  std::string packed = pack_gzip(encode_pprof(profile), 1);
  const std::string times = number_of_bytes(1) + number_of_bytes(2);
  const std::string no_users(sizeof(std::uint32_t), '\0');
  const std::size_t field = times.size() + sizeof(std::uint64_t) + no_users.size();
  const std::string size = number_of_bytes(packed.size() + kGzipFieldBytes + field);
  return add_gzip_field(std::move(packed), kFieldId, times + size + no_users);
}

// The size of the file is put in where it belongs.
void check_head(std::string field) {
  constexpr std::size_t kMaxField = 60'000;
  constexpr std::size_t kTimes = 2 * sizeof(std::uint64_t);
  if (field.size() > kMaxField) return;
  std::string packed = pack_gzip("x", 1);
  const std::string size = number_of_bytes(packed.size() + kGzipFieldBytes + field.size());
  if (field.size() >= kTimes + size.size()) field.replace(kTimes, size.size(), size);
  const auto head = decode_window_head(add_gzip_field(std::move(packed), kFieldId, field));
  if (!head) return;
  require(head->parts.windows.size() <= kMaxField, "names take bytes");
  for (const std::string& name : head->parts.windows) {
    require(is_window_name(name), "names are those of windows");
  }
}

void check_own_data(std::string_view text) {
  const auto file = WindowFile::decode(file_with(text));
  if (!file) return;
  require(file->tables().has_value(), "a profile without samples has tables");
  const auto again =
      WindowFile::decode(encode_window(empty_profile(), file->summary(), file->record()));
  require(again.has_value(), "what was encoded decodes");
  require(to_json(again->summary()) == to_json(file->summary()), "an equal summary");
  require(to_json(again->record()) == to_json(file->record()), "an equal record");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  if (input.starts_with('H')) {
    check_head(std::string(input.substr(1)));
  } else {
    check_own_data(input);
  }
  return 0;
}
