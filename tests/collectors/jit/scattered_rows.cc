#include "tests/collectors/jit/scattered_rows.h"

#include <cstdint>
#include <cstring>
#include <vector>

#include "tests/collectors/jit/runtime.h"
#include "tests/formats/jit/jitdump_writer.h"

namespace profd::test {
namespace {

template <class T>
void put_value(std::string& bytes, T value) {
  char raw[sizeof(T)];
  std::memcpy(raw, &value, sizeof(T));
  bytes.append(raw, sizeof(T));
}

// One CIE, and an FDE with absolute addresses for each function.
std::string eh_frame_of(std::span<const std::uint64_t> addresses) {
  std::string section;
  put_value(section, std::uint32_t{20});
  put_value(section, std::uint32_t{0});
  section.append("\x01zR\0\x01\x78\x10\x01\0\x0c\x07\x08\x90\x01", 14);
  section.append(2, '\0');
  for (const std::uint64_t address : addresses) {
    const std::size_t entry = section.size();
    put_value(section, std::uint32_t{28});
    put_value(section, static_cast<std::uint32_t>(entry + 4));
    put_value(section, address);
    put_value(section, std::uint64_t{32});
    section.append("\0\x41\x0e\x10\x86\x02\0\0", 8);
  }
  put_value(section, std::uint32_t{0});
  return section;
}

}  // namespace

std::string record_of_rows(std::span<const std::uint64_t> addresses) {
  const std::string header("\x01\x1b\x03\x3b\0\0\0\0\0\0\0\0", 12);
  JitDumpWriter writer;
  writer.unwinding_info(1, header + eh_frame_of(addresses), header.size(), 0);
  return writer.take();
}

std::string dump_of_scattered_rows(pid_t pid, std::size_t areas) {
  constexpr std::uint64_t kAreaBytes = std::uint64_t{1} << 32;
  std::vector<std::uint64_t> addresses;
  for (std::size_t i = 1; i <= areas; ++i) addresses.push_back(i * kAreaBytes + 0x1000);
  return dump_header(pid) + record_of_rows(addresses) +
         load_of(pid, {.name = "last", .time_ns = 5000});
}

}  // namespace profd::test
